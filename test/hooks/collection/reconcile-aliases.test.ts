/** Which aliases are set to a collection, which are deleted, and which stay unchanged. */
import t from 'tap'
import { aliasPlan } from '../../../hooks/collection/reconcile-aliases.ts'

const noClaim = () => undefined
const claimBy = (isOlder: boolean) => () => ({ name: 'VecCollection ns/other', isOlder })
const live = (target: string) => [{ alias_name: 'live', collection_name: target }]
const input = { collection: 'docs', desired: ['live'], managed: [] as string[] }
const pointed = { create_alias: { collection_name: 'docs', alias_name: 'live' } }
const released = { delete_alias: { alias_name: 'live' } }

t.test('an alias that is declared is pointed here, wherever it points', async (t) => {
  const plan = { actions: [pointed], conflicts: [], managed: ['live'] }
  t.strictSame(aliasPlan(input, [], noClaim), plan)
  t.strictSame(aliasPlan(input, live('older'), noClaim), plan)
})

t.test('an alias that points to this collection is owned, even if others claim it', async (t) => {
  t.strictSame(aliasPlan(input, live('docs'), claimBy(true)), {
    ...{ actions: [], conflicts: [], managed: ['live'] },
  })
})

t.test('an alias that another resource claims is unchanged, and is named', async (t) => {
  for (const isOlder of [true, false]) {
    t.strictSame(aliasPlan(input, live('theirs'), claimBy(isOlder)), {
      actions: [],
      conflicts: [
        'alias live is claimed by VecCollection ns/other and points at collection theirs',
      ],
      managed: [],
    })
  }
})

t.test('a free alias goes to the older of two', async (t) => {
  t.strictSame(aliasPlan(input, [], claimBy(true)), {
    ...{ actions: [], conflicts: ['alias live is claimed by VecCollection ns/other'], managed: [] },
  })
  t.strictSame(aliasPlan(input, [], claimBy(false)).actions, [pointed])
})

const dropped = { collection: 'docs', desired: [], managed: ['live'] }

t.test(
  'an alias that left the spec is deleted, if it still points to this collection',
  async (t) => {
    t.strictSame(aliasPlan(dropped, live('docs'), noClaim), {
      ...{ actions: [released], conflicts: [], managed: [] },
    })
    t.strictSame(aliasPlan(dropped, live('theirs'), noClaim).actions, [])
    t.strictSame(aliasPlan(dropped, [], noClaim).actions, [])
    t.strictSame(aliasPlan({ ...input, managed: ['live'] }, live('docs'), noClaim).actions, [])
  },
)

t.test(
  'an alias that left the spec and is claimed stays until the other resource sets it, without a gap',
  async (t) => {
    t.strictSame(aliasPlan(dropped, live('docs'), claimBy(false)).actions, [])
  },
)

t.test('all changes are one call, and a conflict does not block other changes', async (t) => {
  const both = { ...input, desired: ['taken', 'live'], managed: ['old'] }
  const now = [
    { alias_name: 'taken', collection_name: 'theirs' },
    { alias_name: 'old', collection_name: 'docs' },
  ]
  const claims = (alias: string) => (alias === 'taken' ? claimBy(true)() : undefined)
  const plan = aliasPlan(both, now, claims)
  t.strictSame(plan.actions, [pointed, { delete_alias: { alias_name: 'old' } }])
  t.strictSame(plan.managed, ['live'])
  t.equal(plan.conflicts.length, 1)
})

t.test('an alias that is the name of another collection is not set, and makes way', async (t) => {
  const name = () => ({
    name: 'VecCollection ns/other',
    isOlder: true,
    isCollection: true as const,
  })
  const conflicts = ['alias live is the collection of VecCollection ns/other']
  t.strictSame(aliasPlan(input, [], name), { actions: [], conflicts, managed: [] })
  t.strictSame(aliasPlan(input, live('theirs'), name).conflicts, conflicts)
  t.strictSame(aliasPlan(dropped, live('docs'), name).actions, [released])
})
