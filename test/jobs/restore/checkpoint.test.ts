/** How far a collection was restored: by node, or by shard. */
import t from 'tap'
import {
  checkpointFor,
  CollectionProgress,
  doneFields,
  isPartlyRestored,
  isStarted,
  restoredBytes,
  type CurrentCollection,
} from '../../../jobs/restore/checkpoint.ts'

type Item = Parameters<typeof restoredBytes>[0]
type Done = Parameters<typeof restoredBytes>[1]

/** Snapshots of 1, 10 and 100 bytes. */
function item(method: 'Node' | 'Shard'): Item {
  const snapshots = [0, 1, 2].map((index) => ({
    ...(method === 'Shard' ? { shardId: index, nodeIndex: 0 } : { nodeIndex: index }),
    sizeBytes: 10 ** index,
  }))
  const shards = [0, 1, 2].map((shardId) => ({ shardId, nodes: [0] }))
  return { method, name: 'docs', source: { shards, snapshots } } as unknown as Item
}

function done(nodesDone: number, ...shardsDone: number[]): Done {
  return { nodesDone, shardsDone } as unknown as Done
}

t.test('bytes of the restored snapshots are counted by node or by shard', async (t) => {
  t.equal(restoredBytes(item('Node'), done(0)), 0)
  t.equal(restoredBytes(item('Node'), done(2)), 11)
  t.equal(restoredBytes(item('Node'), done(3)), 111)
  t.equal(restoredBytes(item('Shard'), done(0)), 0)
  t.equal(restoredBytes(item('Shard'), done(0, 2, 0)), 101)
})

t.test('a collection is partly restored after its first node or shard', async (t) => {
  t.equal(isPartlyRestored(done(0)), false)
  t.equal(isPartlyRestored(done(1)), true)
  t.equal(isPartlyRestored(done(0, 0)), true)
})

t.test('a report names shards only for a backup by shard', async (t) => {
  t.strictSame(doneFields(item('Node'), done(2)), { nodesDone: 2 })
  t.strictSame(doneFields(item('Shard'), done(0, 1)), { nodesDone: 0, shards: 3, shardsDone: [1] })
})

t.test('a report of another collection, or none, is an empty checkpoint', async (t) => {
  const empty = { nodesDone: 0, shardsDone: [], isOurs: false, running: [] }
  const current = { collection: 'logs', nodesDone: 1, isOurs: true } as CurrentCollection
  t.strictSame(checkpointFor(undefined, 'docs'), empty)
  t.strictSame(checkpointFor(current, 'docs'), empty)
})

t.test('recoveries that an earlier release did not record may be running', async (t) => {
  const running = (fields: object) =>
    checkpointFor({ collection: 'docs', nodesDone: 0, ...fields } as CurrentCollection, 'docs')
      .running
  t.strictSame(running({ step: 'node 1: takes 1 KiB', running: [{ node: 0 }] }), [{ node: 0 }])
  t.strictSame(running({ step: 'begins' }), [])
  t.strictSame(running({ step: 'places its shards' }), [])
  t.equal(running({ step: 'node 1: takes 1 KiB' }), 'unknown')
})

t.test('a collection is started once it is ours or has data', async (t) => {
  const checkpoint = (isOurs: boolean, nodesDone: number) =>
    isStarted({ nodesDone, shardsDone: [], isOurs, running: [] })
  t.equal(checkpoint(false, 0), false)
  t.equal(checkpoint(true, 0), true)
  t.equal(checkpoint(false, 1), true)
})

t.test('bytes of uploads in progress count until their snapshot is restored', async (t) => {
  const progress = new CollectionProgress()
  progress.start(1_000)
  progress.startCollection(1_000)
  t.equal(progress.bytes, 1_000)
  progress.startUpload('a')
  progress.startUpload('b')
  progress.addSent('a', 30)
  progress.addSent('a', 40)
  progress.addSent('b', 5)
  t.equal(progress.bytes, 1_075)
  progress.startUpload('a')
  progress.addSent('a', 1)
  t.equal(progress.bytes, 1_006, 'a retry starts at 0')
  progress.snapshotRestored('a', 100)
  t.equal(progress.bytes, 1_105)
  t.equal(
    progress.bytesPerSecond(3_000),
    50,
    'what was restored before this attempt is not counted',
  )
  progress.startCollection(0)
  t.equal(progress.bytes, 0)
  t.equal(progress.bytesPerSecond(5_000), 25, 'an average over all collections')
})
