import fc from 'fast-check'
import t from 'tap'
import type { Lease } from '../../crds/kubernetes.ts'
import {
  claim,
  givenBack,
  holderNow,
  holderOf,
  seeLease,
  type Holder,
  type SeenLease,
} from '../../hooks/lease.ts'
import { NOW, ago } from '../builders.ts'
import { Claimant, LEASED, LeaseStore, someJob } from './leases.ts'
import { leaseOf } from './transfer.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 500)

const me: Holder = { kind: 'VecBackup', namespace: 'ns', name: 'me', uid: 'uid-me' }
const other: Holder = { kind: 'VecRestore', namespace: 'far', name: 'other', uid: 'uid-other' }
const about = { cluster: LEASED, now: NOW }

function lease(
  kind: 'write' | 'backup',
  holder: Holder,
  secondsAgo: number,
  owner = 'uid-a',
): Lease {
  const { kind: of, namespace, name, uid } = holder
  return leaseOf(kind, `${of}/${namespace}/${name}/${uid}`, secondsAgo, owner)
}

function seen(holder: Holder, secondsAgo: number, jobs: SeenLease['jobs'] = []): SeenLease {
  return { kind: 'backup', lease: lease('backup', holder, secondsAgo), jobs }
}

t.test(
  'a Lease that does not exist is made, in the namespace of the cluster and owned by it',
  async (t) => {
    t.strictSame(claim([{ kind: 'backup' }], me, about), {
      state: 'taking',
      writes: [
        {
          act: 'take',
          lease: {
            apiVersion: 'coordination.k8s.io/v1',
            kind: 'Lease',
            metadata: {
              name: 'vec-a-backup',
              namespace: 'ns',
              labels: { 'app.kubernetes.io/managed-by': 'vec-operator' },
              ownerReferences: [
                {
                  apiVersion: 'vec-operator.dev/v1alpha1',
                  kind: 'VecCluster',
                  name: 'a',
                  uid: 'uid-a',
                },
              ],
            },
            spec: {
              holderIdentity: 'VecBackup/ns/me/uid-me',
              acquireTime: '2026-03-01T12:00:00.000000Z',
            },
          },
        },
      ],
    })
  },
)

t.test(
  'the holder holds while a live list finds a Job of it neither Complete nor Failed',
  async (t) => {
    t.strictSame(holderOf(seen(other, 9_000, [someJob('one')]), NOW), other)
    const deleting = someJob('one')
    deleting.metadata.deletionTimestamp = ago(5)
    t.strictSame(holderOf(seen(other, 9_000, [someJob('old', true), deleting]), NOW), other)
    t.equal(holderOf(seen(other, 9_000, [someJob('one', true)]), NOW), undefined)
  },
)

t.test('before its first Job it holds for 5 minutes after acquireTime', async (t) => {
  t.strictSame(holderOf(seen(other, 299), NOW), other)
  t.equal(holderOf(seen(other, 300), NOW), undefined)
  t.equal(holderOf(seen(other, 10, [someJob('one', true)]), NOW), undefined, 'its Job has ended')
})

t.test('a clock that was ahead does not keep a Lease held', async (t) => {
  t.strictSame(holderOf(seen(other, -299), NOW), other)
  t.equal(holderOf(seen(other, -300), NOW), undefined)
})

t.test('a failed list counts as held', async (t) => {
  const store = new LeaseStore()
  store.leases.set('vec-a-backup', lease('backup', other, 9_000))
  const found = await seeLease(LEASED.metadata, 'backup', {
    lease: (namespace, name) => store.lease(namespace, name),
    jobsOf: async () => {
      throw new Error('no answer')
    },
  })
  t.strictSame(holderOf(found, NOW), other)
  t.strictSame(claim([found], me, about), { state: 'waiting', holder: other, writes: [] })
})

t.test('a Lease whose holder is over is taken by its resourceVersion', async (t) => {
  const claimed = claim([seen(other, 301)], me, about)
  t.match(claimed, {
    state: 'taking',
    writes: [
      {
        act: 'take',
        lease: {
          metadata: { resourceVersion: '7' },
          spec: { holderIdentity: 'VecBackup/ns/me/uid-me' },
        },
      },
    ],
  })
})

t.test('a Job is made in a pass that sees the Lease held, with a minute of it left', async (t) => {
  t.strictSame(claim([seen(me, 239)], me, about), { state: 'held' })
  t.equal(claim([seen(me, 240)], me, about).state, 'taking')
})

t.test(
  'a Lease owned by another uid is deleted and made anew, unless its holder is at work',
  async (t) => {
    const former = lease('backup', other, 400, 'uid-former')
    const claimed = claim([{ kind: 'backup', lease: former, jobs: [] }], me, about)
    t.match(claimed, {
      state: 'taking',
      writes: [
        { act: 'drop', lease: former },
        { act: 'take', lease: { metadata: { resourceVersion: undefined } } },
      ],
    })
    const busy = claim([{ kind: 'backup', lease: former, jobs: [someJob('one')] }], me, about)
    t.strictSame(busy, { state: 'waiting', holder: other, writes: [] })
  },
)

t.test('who must wait gives back what it holds: both Leases, or neither', async (t) => {
  const write: SeenLease = { kind: 'write', lease: lease('write', me, 10), jobs: [] }
  const claimed = claim([write, seen(other, 10)], me, about)
  t.strictSame(claimed, {
    state: 'waiting',
    holder: other,
    writes: [{ act: 'drop', lease: write.lease }],
  })
  t.strictSame(givenBack([seen(other, 10), { kind: 'write' }], me), [])
})

t.test('a restore takes both Leases, -write first, and holds when it holds both', async (t) => {
  const both = claim([{ kind: 'write' }, { kind: 'backup' }], me, about)
  t.strictSame(both.state === 'taking' && both.writes.map(({ lease }) => lease.metadata.name), [
    'vec-a-write',
    'vec-a-backup',
  ])
  const write: SeenLease = { kind: 'write', lease: lease('write', me, 10), jobs: [] }
  t.equal(claim([write, { kind: 'backup' }], me, about).state, 'taking')
  t.strictSame(claim([write, seen(me, 5)], me, about), { state: 'held' })
})

for (const spec of [
  {},
  { holderIdentity: 'somebody' },
  { holderIdentity: 'a/b/c/d/e', acquireTime: ago(1) },
]) {
  t.test(`a Lease that names no holder of ours is free: ${JSON.stringify(spec)}`, async (t) => {
    const store = new LeaseStore()
    store.leases.set('vec-a-write', { ...lease('write', other, 1), spec })
    t.equal(await holderNow(LEASED.metadata, 'write', store, NOW), undefined)
  })
}

t.test('a Lease without acquireTime is held by a Job alone', async (t) => {
  const held = lease('backup', other, 1)
  held.spec = { holderIdentity: 'VecRestore/far/other/uid-other' }
  t.equal(holderOf({ kind: 'backup', lease: held, jobs: [] }, NOW), undefined)
  t.strictSame(holderOf({ kind: 'backup', lease: held, jobs: [someJob('one')] }, NOW), other)
})

t.test('who waits says for whom', async (t) => {
  const store = new LeaseStore()
  t.equal(await holderNow(LEASED.metadata, 'write', store, NOW), undefined)
  store.leases.set('vec-a-write', lease('write', other, 20))
  t.equal(await holderNow(LEASED.metadata, 'write', store, NOW), 'VecRestore far/other')
})

type What = 'pass' | 'look' | 'decide' | 'write' | 'arrive' | 'end' | 'lose' | 'crash'

interface Step {
  who: number
  what: What
  /** What another does between the two reads of a look. */
  between: { who: number; what: Exclude<What, 'look' | 'pass'> } | null
  fails: boolean
  /** Time that passes before. */
  seconds: number
}

/** Whole passes get somewhere, single steps cut them into each other. */
const WEIGHTS: [weight: number, what: Step['what']][] = [
  [12, 'pass'],
  [4, 'look'],
  [3, 'decide'],
  [3, 'write'],
  [3, 'arrive'],
  [2, 'end'],
  [1, 'lose'],
  [1, 'crash'],
]

const step: fc.Arbitrary<Step> = fc.record({
  who: fc.nat(3),
  what: fc.oneof(...WEIGHTS.map(([weight, what]) => ({ weight, arbitrary: fc.constant(what) }))),
  between: fc.option(
    fc.record({
      who: fc.nat(3),
      what: fc.constantFrom('decide', 'write', 'arrive', 'end', 'crash'),
    }),
    { freq: 4 },
  ),
  fails: fc.nat(9).map((chance) => chance === 9),
  seconds: fc.oneof(
    { weight: 12, arbitrary: fc.nat(5) },
    { weight: 2, arbitrary: fc.nat(61) },
    { weight: 1, arbitrary: fc.integer({ min: 200, max: 320 }) },
  ),
})

function claimants(store: LeaseStore): Claimant[] {
  return [
    new Claimant('backup-1', ['backup'], store),
    new Claimant('restore-1', ['write', 'backup'], store),
    new Claimant('backup-2', ['backup'], store),
    new Claimant('restore-2', ['write', 'backup'], store),
  ]
}

async function take(all: Claimant[], store: LeaseStore, one: Step): Promise<void> {
  store.advance(one.seconds)
  const { between, what } = one
  const claimant = all[one.who]
  if (claimant === undefined) return
  if (what === 'look') {
    await claimant.look(async () => {
      if (between !== null) await all[between.who]?.[between.what]()
    }, one.fails)
  } else await claimant[what]()
}

function atWork(all: Claimant[]): string[] {
  return all.filter((one) => one.isAtWork).map(({ holder }) => holder.name)
}

t.test(
  'over random interleavings, stale reads and crashes never two work at once, and each has its turn',
  async (t) => {
    let turns = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 40, maxLength: 160, size: 'max' }),
        async (steps) => {
          const store = new LeaseStore()
          const all = claimants(store)
          for (const one of steps) {
            await take(all, store, one)
            if (atWork(all).length > 1) throw new Error(`at once: ${atWork(all).join(', ')}`)
          }
          turns += all.filter(({ isDone }) => isDone).length
          await finish(all, store)
        },
      ),
      { numRuns: RUNS },
    )
    t.ok(turns > RUNS / 2, 'many had their turn among the random steps')
  },
)

/** From any state on: when everybody passes every 30 s and Jobs end, all get done. */
async function finish(all: Claimant[], store: LeaseStore): Promise<void> {
  for (let round = 0; round < 60; round += 1) {
    // All look before any of them decides, and another one is first each time.
    const order = all.map((_, index) => all[(index + round) % all.length])
    for (const one of order) one?.arrive()
    if (atWork(all).length > 1) throw new Error(`at once: ${atWork(all).join(', ')}`)
    for (const one of order) await one?.look()
    for (const one of order) one?.decide()
    for (let write = 0; write < 4; write += 1) for (const one of order) await one?.write()
    if (round % 2 === 1) for (const one of order) one?.end()
    store.advance(30)
    if (all.every(({ isDone }) => isDone)) return
  }
  const waiting = all.filter(({ isDone }) => !isDone).map(({ holder }) => holder.name)
  throw new Error(`no turn for ${waiting.join(', ')}`)
}
