/** Aliases after a restore: of one moment, set by one call, and none taken from other collections. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { matchWhole } from '../../match-whole.ts'
import { run, runToDone, restoreFixture, type RestoreFixture } from './restore-fixture.ts'

function changesAliases({ method, path }: EngineRequest): boolean {
  return method === 'POST' && path.join('/') === 'collections/aliases'
}

/** The calls that change aliases, with the aliases at the time of each call. */
function aliasCalls({ nodes, engine }: RestoreFixture): string[][] {
  const calls: string[][] = []
  for (const node of nodes) {
    node.misbehave((request) => {
      if (changesAliases(request)) calls.push([...engine.collections.keys()].sort())
      return undefined
    })
  }
  return calls
}

for (const [from, to] of [
  ['v1', 'v2'],
  ['v2', 'v1'],
] as const) {
  t.test(
    `an alias that moved from ${from} to ${to} during the backup points to ${to}`,
    async (t) => {
      const stood = await restoreFixture(t, {
        collections: ['v1', 'v2'],
        prepare: async ({ aliases }) => aliases.set('live', from),
        duringBackup: ({ method, path }, { aliases }) => {
          if (method === 'POST' && path.join('/') === 'collections/v2/snapshots') {
            aliases.set('live', to)
          }
        },
      })
      stood.deleteCollections('v1', 'v2')
      const restore = await stood.world.restore()
      await runToDone(t, restore)
      t.strictSame([...stood.engine.aliases], [['live', to]])
      t.equal((await restore.result()).notes, undefined)
    },
  )
}

t.test('an alias to a collection that the backup does not have is noted', async (t) => {
  const stood = await restoreFixture(t, {
    collections: ['v1', 'v2'],
    prepare: async ({ aliases }) => aliases.set('live', 'v2'),
    // A client creates v3 after the backup has begun, and moves its readers there.
    duringBackup: ({ method, path }, engine) => {
      if (method !== 'POST' || path.join('/') !== 'collections/v2/snapshots') return
      if (!engine.collections.has('v3')) engine.createCollection('v3', 1, 1)
      engine.aliases.set('live', 'v3')
    },
  })
  stood.deleteCollections('v1', 'v2', 'v3')
  const restore = await stood.world.restore()
  await runToDone(t, restore)
  t.strictSame([...stood.engine.aliases], [])
  t.strictSame((await restore.result()).notes, [
    'the backup does not have the collections of these aliases, which were not set: live of v3',
  ])
  const selected = await stood.world.restore({ collections: ['v1'] })
  await runToDone(t, selected)
  t.equal((await selected.result()).notes, undefined, 'selected collections have other aliases')
})

t.test('all aliases are set by one call, after the last collection', async (t) => {
  const stood = await restoreFixture(t, {
    collections: ['a', 'b', 'c'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b', 'c']) aliases.set(`${name} live`, name)
    },
  })
  stood.deleteCollections('a', 'b', 'c')
  const calls = aliasCalls(stood)
  await runToDone(
    t,
    await stood.world.restore({ collections: ['c', 'a'], collectionMapping: { a: 'new' } }),
  )
  t.strictSame(calls, [['c', 'new']])
  t.strictSame(Object.fromEntries(stood.engine.aliases), { 'a live': 'new', 'c live': 'c' })
})

t.test(
  'of two owners of an alias in a manifest of an earlier operator the later one has it',
  async (t) => {
    const stood = await restoreFixture(t, { collections: ['v1', 'v2'] })
    stood.rewrite((manifest) => {
      delete manifest.aliases
      for (const collection of manifest.collections) collection.aliases = ['live']
    })
    stood.deleteCollections('v1', 'v2')
    const restore = await stood.world.restore()
    t.equal((await run(restore)).code, EXIT.done)
    t.strictSame([...stood.engine.aliases], [['live', 'v2']])
    matchWhole(t, await restore.result(), {
      notes: ['alias live was recorded for v1 and for v2: it is set for v2'],
    })
  },
)

t.test('a collection that failed gets no alias, and the others do', async (t) => {
  const stood = await restoreFixture(t, {
    collections: ['a', 'b'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b']) aliases.set(`${name} live`, name)
    },
  })
  stood.deleteCollections('a', 'b')
  stood.store().objects.delete(stood.manifest().collections[0]?.snapshots[1]?.key ?? '')
  t.equal((await run(await stood.world.restore())).code, EXIT.failed)
  t.strictSame([...stood.engine.aliases], [['b live', 'b']])
})

t.test('aliases that the engine rejects are named, and the restore is Failed', async (t) => {
  const stood = await restoreFixture(t, {
    prepare: async ({ aliases }) => aliases.set('live', 'docs'),
  })
  stood.deleteCollections('docs')
  const body = JSON.stringify({ status: { error: 'Wrong input: no' } })
  const headers = { 'content-type': 'application/json' }
  for (const node of stood.nodes) {
    node.misbehave((request) =>
      changesAliases(request) ? { status: 400, body, headers } : undefined,
    )
  }
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), {
    completed: 1,
    error: /^the points are restored, but not all of the aliases live: .*Wrong input: no/,
  })
})

t.test('after a kill before the aliases the next pod sets those of all collections', async (t) => {
  const stood = await restoreFixture(t, {
    collections: ['a', 'b'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b']) aliases.set(`${name} live`, name)
    },
  })
  stood.deleteCollections('a', 'b')
  const controller = new AbortController()
  for (const node of stood.nodes) {
    node.misbehave((request) => {
      if (!changesAliases(request)) return undefined
      controller.abort(new Error('SIGTERM'))
      return { cut: 'before' }
    })
  }
  const restore = await stood.world.restore()
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  for (const node of stood.nodes) node.misbehave()
  await runToDone(t, restore, { pod: 'pod-2' })
  t.strictSame(Object.fromEntries(stood.engine.aliases), { 'a live': 'a', 'b live': 'b' })
})
