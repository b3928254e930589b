/** `backup run` when a client deletes collections while it works. */
import { once } from 'node:events'
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { hashNames } from '../../../crds/contract/names.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { MIB, backupFixture, type BackupFixture } from './fixture.ts'
import { shardFixture, streamedShard } from './shards/fixture.ts'

const TARGET = 's3://backups/nightly/b'
const ALL = ['docs', 'other']
const NOTE = 'collection docs was deleted during the backup and is not in it'

const isList = ({ method, path }: EngineRequest) =>
  method === 'GET' && path[0] === 'collections' && path.length === 1
const isSnapshotCreation = ({ method, path }: EngineRequest, collection: string) =>
  method === 'POST' && path[1] === collection && path[2] === 'snapshots'

/** Runs once, when node 0 is asked for a snapshot of that collection. */
function onSnapshot({ nodes }: Pick<BackupFixture, 'nodes'>, collection: string, act: () => void) {
  let isDone = false
  nodes[0]?.misbehave((request) => {
    if (!isDone && isSnapshotCreation(request, collection)) {
      isDone = true
      act()
    }
    return undefined
  })
}

const namesIn = (fixture: { manifest: () => { collections: { name: string }[] } }) =>
  fixture.manifest().collections.map(({ name }) => name)

async function assertLeftOut(
  t: Parameters<typeof backupFixture>[0],
  fixture: BackupFixture,
  log: string,
) {
  const { state, message, backup } = (await fixture.world.progress()) ?? {}
  t.strictSame({ state, message }, { state: 'Done', message: `Backed up 1/1 collections; ${NOTE}` }, log.slice(-3000)) // prettier-ignore
  const { total, completed, failed, error, collectionHashes, collections } = backup ?? {}
  t.strictSame(
    { total, completed, failed, error, collectionHashes },
    { total: 1, completed: 1, failed: 0, error: undefined, collectionHashes: hashNames(['other']) },
    'retention knows that this backup does not have it',
  )
  t.strictSame(
    collections?.map(({ name }) => name),
    ['other'],
  )
  t.strictSame(namesIn(fixture), ['other'])
  const objects = fixture.keys().filter((key) => key.endsWith('.snapshot'))
  t.ok(objects.length > 0)
  t.strictSame(
    objects.filter((key) => key.includes('/docs/')),
    [],
    'none of its snapshots stay',
  )
  t.equal(fixture.store().uploads.size, 0)
  t.equal(snapshotFiles(fixture.engine).size, 0)
}

t.test('a collection deleted while its snapshots are taken is left out and named', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ALL })
  fixture.nodes[1]?.misbehave((request) => {
    if (isSnapshotCreation(request, 'docs')) fixture.engine.removeCollection('docs')
    return undefined
  })
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-3000))
  await assertLeftOut(t, fixture, log)
  t.equal((await fixture.world.verify(TARGET)).code, EXIT.done, 'nothing of the backup is missing')
  const named = await fixture.world.verify(TARGET, '--collections', 'docs')
  t.not(named.code, EXIT.done)
  t.match(named.log, /collection docs is not in this backup/)
})

t.test('a collection deleted before it is reached is left out and named', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ['docs', 'a-first', 'other'] })
  onSnapshot(fixture, 'a-first', () => fixture.engine.removeCollection('docs'))
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-3000))
  t.strictSame(namesIn(fixture), ['a-first', 'other'])
  t.equal((await fixture.world.progress())?.message, `Backed up 2/2 collections; ${NOTE}`)
})

t.test('by shard: a collection deleted while it is streamed is left out and named', async (t) => {
  const fixture = await shardFixture(t, { engineCollections: ALL, nodes: 2 })
  for (const node of fixture.nodes) {
    node.misbehave((request) => {
      if (streamedShard(request) === 1 && request.path[1] === 'docs')
        fixture.engine.removeCollection('docs')
      return undefined
    })
  }
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-3000))
  t.strictSame(namesIn(fixture), ['other'])
  t.equal((await fixture.world.progress())?.message, `Backed up 1/1 collections; ${NOTE}`)
  t.strictSame(
    fixture.keys().filter((key) => key.includes('/docs/')),
    [],
  )
  t.equal(fixture.store().uploads.size, 0)
})

for (const method of ['Node', 'Shard'] as const) {
  t.test(
    `${method}: a collection that an alias replaces is left out, and not read by it`,
    async (t) => {
      const options = { engineCollections: ALL, nodes: 2 }
      const fixture =
        method === 'Node' ? await backupFixture(t, options) : await shardFixture(t, options)
      const { engine, nodes, world } = fixture
      let isReplaced = false
      for (const node of nodes) {
        node.misbehave((request) => {
          const isRead = isSnapshotCreation(request, 'docs') || streamedShard(request) === 1
          if (isReplaced || !isRead || request.path[1] !== 'docs') return undefined
          isReplaced = true
          engine.removeCollection('docs')
          engine.aliases.set('docs', 'other')
          return undefined
        })
      }
      const { code, log } = await world.run()
      t.ok(isReplaced)
      t.equal(code, EXIT.done, log.slice(-3000))
      t.strictSame(namesIn(fixture), ['other'])
      const message = `Backed up 1/1 collections; ${NOTE}; alias docs was created on other`
      t.equal((await world.progress())?.message, message)
      t.strictSame(
        fixture.keys().filter((key) => /\/docs\/.*\.snapshot$/.test(key)),
        [],
      )
    },
  )
}

t.test(
  'a collection deleted between two pods is left out, with what the first uploaded',
  async (t) => {
    const fixture = await backupFixture(t, { engineCollections: ALL, snapshotBytes: 9 * MIB })
    const reached = Promise.withResolvers<undefined>()
    const never = Promise.withResolvers<undefined>()
    fixture.s3.misbehave(({ operation, key }) => {
      if (operation !== 'UploadPart' || !key.includes('/docs/node-1/')) return undefined
      reached.resolve(undefined)
      return { after: never.promise }
    })
    const { child } = fixture.world.start()
    await reached.promise
    child.kill('SIGKILL')
    await once(child, 'close')
    never.resolve(undefined)
    fixture.s3.misbehave()
    fixture.engine.removeCollection('docs')
    for (const path of snapshotFiles(fixture.engine).keys())
      if (path.includes('/docs/')) snapshotFiles(fixture.engine).delete(path)
    const { code, log } = await fixture.world.run({}, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log.slice(-3000))
    await assertLeftOut(t, fixture, log)
  },
)

t.test('the report has the order of the spec, with what is missing', async (t) => {
  const collections = ['none', 'other']
  const fixture = await backupFixture(t, { engineCollections: ALL, collections })
  t.equal((await fixture.world.run()).code, EXIT.failed)
  const reported = (await fixture.world.progress())?.backup?.collections
  t.strictSame(
    reported?.map(({ name, status }) => [name, status]),
    [
      ['none', 'Failed'],
      ['other', 'Completed'],
    ],
  )
})

t.test('a collection that the spec names must not disappear', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ALL, collections: ALL })
  onSnapshot(fixture, 'docs', () => fixture.engine.removeCollection('docs'))
  t.equal((await fixture.world.run()).code, EXIT.failed)
  const { completed, failed, error } = await fixture.result()
  t.strictSame(
    { completed, failed, error },
    { completed: 1, failed: 1, error: 'collection docs was deleted during the backup' },
  )
  t.strictSame(namesIn(fixture), ['other'])
})

t.test(
  'a collection that was deleted and recreated is backed up as it is at the end',
  async (t) => {
    const fixture = await backupFixture(t, { engineCollections: ALL })
    const { engine } = fixture
    onSnapshot(fixture, 'docs', () => engine.removeCollection('docs'))
    fixture.nodes[1]?.misbehave((request) => {
      if (isSnapshotCreation(request, 'other') && !engine.collections.has('docs'))
        engine.createCollection('docs', 2)
      return undefined
    })
    const { code, log } = await fixture.world.run()
    t.equal(code, EXIT.done, log.slice(-3000))
    t.equal((await fixture.world.progress())?.message, 'Backed up 2/2 collections')
    t.strictSame(namesIn(fixture).toSorted(), ALL)
    t.equal((await fixture.world.verify('s3://backups/nightly/b')).code, EXIT.done)
  },
)

t.test('a collection that is deleted and recreated every time fails', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ALL })
  const { engine } = fixture
  fixture.nodes[0]?.misbehave((request) => {
    if (isSnapshotCreation(request, 'docs')) engine.removeCollection('docs')
    // Listed again by the time that the next list is read.
    if (isList(request) && wasAskedTwice()) engine.createCollection('docs', 2)
    return undefined
  })
  /** The nodes are listed once after the failed call, and once at the end of the round. */
  let lists = 0
  function wasAskedTwice(): boolean {
    if (engine.collections.has('docs')) return false
    lists += 1
    return lists % 2 === 0
  }
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.failed, log.slice(-3000))
  const { completed, failed, error } = await fixture.result()
  t.strictSame(
    { completed, failed, error },
    {
      ...{ completed: 1, failed: 1 },
      error: 'collection docs was deleted and recreated 3 times while it was backed up',
    },
  )
})

t.test('a collection that one node still lists is not left out', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ['a-first', 'docs'] })
  const { engine, nodes } = fixture
  onSnapshot(fixture, 'docs', () => engine.removeCollection('docs'))
  let isStale = false
  nodes[1]?.misbehave((request) => {
    if (!isList(request) || engine.collections.has('docs')) return undefined
    // The first list after the deletion is that of the failed call.
    const wasStale = isStale
    isStale = true
    if (!wasStale) return undefined
    const body = JSON.stringify({
      result: { collections: ['a-first', 'docs'].map((name) => ({ name })) },
    })
    return { status: 200, body }
  })
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.failed, log.slice(-3000))
  t.equal(
    (await fixture.result()).error,
    'collection docs was deleted during the backup: the nodes do not list the same collections: node 0 does not list docs',
  )
  t.strictSame(namesIn(fixture), ['a-first'])
})

t.test('a backup of which every collection was deleted fails', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ['docs'] })
  onSnapshot(fixture, 'docs', () => fixture.engine.removeCollection('docs'))
  t.equal((await fixture.world.run()).code, EXIT.failed)
  const { total, completed, failed, error } = await fixture.result()
  t.strictSame(
    { total, completed, failed, error },
    {
      ...{ total: 1, completed: 0, failed: 1 },
      error: 'collection docs was deleted during the backup',
    },
  )
})
