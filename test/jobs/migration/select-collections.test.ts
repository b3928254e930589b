/** Which collections a migration copies, and which it rejects before anything is copied. */
import t from 'tap'
import { Rejected } from '../../../crds/contract/errors.ts'
import { MAX_MIGRATED_COLLECTIONS } from '../../../crds/contract/limits.ts'
import type { RunContext } from '../../../jobs/migration/context.ts'
import {
  findNewCollections,
  rejectDuplicateTarget,
  selectCollections,
} from '../../../jobs/migration/select-collections.ts'
import { RetryBudget } from '../../../jobs/retry.ts'

const CLUSTER = { namespace: 'ns', name: 'a', replicas: 1 }

interface Migration {
  /** Collections of the source. */
  listed: string[]
  /** A VecCluster, or another engine. */
  source?: object
  spec?: { collections?: string[]; collectionMapping?: Record<string, string> }
  /** Collections that the migration has. */
  known?: string[]
}

/** A migration to `ns/a`. Each collection has as many points as its name has characters. */
function contextOf({ listed, source = { url: 'http://other' }, spec, known = [] }: Migration) {
  const unreached: (string | undefined)[] = []
  const engine = {
    node: 'http://other',
    cluster: async () => ({ status: 'disabled' }),
    collections: async () => listed,
  }
  const context = {
    plan: { source, target: CLUSTER },
    options: { collectionMapping: {}, ...spec },
    source: {
      ...{ engine, nodes: [engine] },
      collections: {
        collectionInfo: async (name: string) =>
          listed.includes(name) ? { points_count: name.length } : undefined,
      },
    },
    progress: {
      has: (name: string) => known.includes(name),
      names: () => known,
      toResult: () => ({ total: known.length }),
      setUnreachedSource: (name: string | undefined) => void unreached.push(name),
    },
    retryBudget: new RetryBudget(),
    tools: { signal: new AbortController().signal },
  } as unknown as RunContext
  return { context, unreached }
}

async function selectAll(migration: Migration, previous: string[] = []) {
  const known = new Map(previous.map((name) => [name, {}])) as never
  return selectCollections(contextOf(migration).context, known)
}

async function select(migration: Migration, previous?: string[]): Promise<string[]> {
  return (await selectAll(migration, previous)).map(({ name }) => name)
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `docs-${index}`)
}

t.test('all collections are copied in the order of their names, with their points', async (t) => {
  const { context } = contextOf({
    listed: ['notes', 'docs'],
    spec: { collectionMapping: { docs: 'copy' } },
  })
  const pending = { status: 'Pending', pointsCopied: 0 }
  t.strictSame(await selectCollections(context, new Map()), [
    { name: 'docs', targetName: 'copy', ...pending, pointsTotal: 4 },
    { name: 'notes', targetName: 'notes', ...pending, pointsTotal: 5 },
  ])
})

t.test('collections of an earlier pod are included also if the source has none', async (t) => {
  t.strictSame(await select({ listed: ['docs', 'notes'] }, ['gone', 'docs']), [
    'docs',
    'gone',
    'notes',
  ])
  const spec = { collections: ['gone'] }
  const [gone] = await selectAll({ listed: ['docs'], spec }, ['gone'])
  t.match(gone, { name: 'gone', pointsTotal: 0 })
  await t.rejects(
    select({ listed: ['docs'], spec }),
    new Rejected('Collections not present in source: gone'),
  )
})

t.test('a collection is not copied onto itself', async (t) => {
  const same = { cluster: CLUSTER }
  const listed = ['docs', 'notes']
  const error = new Rejected('docs would be copied onto itself: use collectionMapping')
  await t.rejects(select({ listed, source: same }), error)
  const collectionMapping = { docs: 'copy' }
  t.strictSame(
    await select({ listed, source: same, spec: { collections: ['docs'], collectionMapping } }),
    ['docs'],
    'under another name',
  )
  for (const [where, change] of Object.entries({
    'another name': { name: 'b' },
    'another namespace': { namespace: 'other' },
  })) {
    const source = { cluster: { ...CLUSTER, ...change } }
    t.strictSame(await select({ listed, source }), listed, `a cluster of ${where}`)
  }
  t.strictSame(await select({ listed }), listed, 'an address')
})

t.test('two collections are not copied to one name, also if one is created later', async (t) => {
  const listed = ['docs', 'notes']
  const spec = { collectionMapping: { notes: 'docs' } }
  const error = new Rejected('both docs and notes would be copied to docs')
  await t.rejects(select({ listed, spec }), error)
  const { context } = contextOf({ listed, spec, known: listed })
  t.throws(() => rejectDuplicateTarget('notes', context), error)
  t.doesNotThrow(() => rejectDuplicateTarget('other', context))
  const alone = contextOf({ listed, known: ['docs'] })
  t.doesNotThrow(() => rejectDuplicateTarget('docs', alone.context), 'it is no duplicate of itself')
})

t.test('more collections than one migration copies are rejected', async (t) => {
  const most = numbered(MAX_MIGRATED_COLLECTIONS)
  t.equal((await select({ listed: most })).length, MAX_MIGRATED_COLLECTIONS)
  const error = new Rejected(
    'the source has 5001 collections, and one VecMigration copies 5000: name them in spec.collections of several',
  )
  const listed = numbered(MAX_MIGRATED_COLLECTIONS + 1)
  await t.rejects(select({ listed }), error)
  const known = most.slice(1)
  const one = contextOf({ listed: most, known })
  t.strictSame(
    (await findNewCollections(one.context)).map(({ name }) => name),
    ['docs-0'],
  )
  await t.rejects(findNewCollections(contextOf({ listed, known }).context), error)
})

t.test(
  'collections that were created meanwhile are added, but not to those of the spec',
  async (t) => {
    const migration = { listed: ['notes', 'docs', 'late', 'at last'], known: ['docs', 'notes'] }
    const added = async (changes: Partial<Migration>) => {
      const { context, unreached } = contextOf({ ...migration, ...changes })
      return { names: (await findNewCollections(context)).map(({ name }) => name), unreached }
    }
    t.strictSame(await added({}), {
      names: ['at last', 'late'],
      unreached: ['http://other', undefined],
    })
    const spec = { collections: ['docs'] }
    t.strictSame(await added({ spec }), { names: [], unreached: [] }, 'an address is not asked')
    const cluster = { ...CLUSTER, name: 'b' }
    t.strictSame(
      await added({ spec, source: { cluster } }),
      { names: [], unreached: ['cluster ns/b', undefined] },
      'the nodes of a cluster must still agree',
    )
  },
)
