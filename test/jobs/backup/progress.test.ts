/** What of a backup is told: within the room there is, failures first, nothing lost. */
import t from 'tap'
import { Value } from '@sinclair/typebox/value'
import { BackupResult } from '../../../crds/contract/job.ts'
import type { NodeCollection, ShardSnapshot } from '../../../crds/contract/manifest.ts'
import { BackupProgress } from '../../../jobs/backup/progress.ts'
import { ProgressBar } from '../../../jobs/progress.ts'
import { jobLog } from '../../../jobs/log.ts'
import type { Reporter } from '../../../jobs/reporter.ts'
import { instantClock } from '../job-world.ts'

function newProgress(names: string[], log: string[] = [], bar?: ProgressBar) {
  const time = instantClock()
  const said: string[] = []
  const reporter = { progress: async (line: string) => void said.push(line) } as unknown as Reporter
  const output = { write: (line: string) => void log.push(line) }
  const tools = { time, reporter, progressBar: bar, log: jobLog({ LOG_FORMAT: 'text' }, output) }
  const tally = new BackupProgress(tools)
  tally.start({ startedAt: '2030-01-01T00:00:00Z', collections: names })
  return { tally, time, said }
}

function completedCollection(name: string): NodeCollection {
  const snapshotName = `${name}-1-2030-01-01-00-00-00.snapshot`
  return {
    name,
    config: { params: {} },
    payloadIndexes: {},
    aliases: [],
    shardKeys: [],
    shards: [],
    snapshots: [0, 1, 2].map((nodeIndex) => ({
      nodeIndex,
      key: `nightly/b/${name}/node-${nodeIndex}/${snapshotName}`,
      snapshotName,
      sizeBytes: 1000,
      sha256: '0'.repeat(64),
      localShards: [],
    })),
  }
}

function shard(shardId: number): ShardSnapshot {
  return {
    ...{ shardId, nodeIndex: 0, sizeBytes: 1000, sha256: '0'.repeat(64), pointsCount: 1 },
    key: `nightly/b/docs/shard-${shardId}/docs-${shardId}.snapshot`,
  }
}

t.test('2,000 collections are summarised: failures first, the rest counted', async (t) => {
  const names = Array.from({ length: 2000 }, (_, index) => `collection-${index}`)
  const { tally } = newProgress(names)
  for (const name of names.slice(0, 1900)) tally.completed(completedCollection(name))
  for (const name of names.slice(1900)) tally.failed(name, `${name}: ${'why '.repeat(400)}`)
  const result = tally.result()
  t.ok(Value.Check(BackupResult, result))
  t.match(result, { total: 2000, completed: 1900, failed: 100, bytes: 5_700_000 })
  const { completed, failed, pending } = result.unlisted
  t.equal(result.collections.length + completed + failed + pending, 2000)
  t.ok(result.collections.every(({ status }) => status === 'Failed'))
  t.ok(Buffer.byteLength(JSON.stringify(result)) < 56 * 1024)
  t.match(result.error, /^collection-1900: why/)
  t.equal(tally.summary(), 'Backed up 1900/2000 collections')
})

t.test('while no byte moves it is told where the backup stands, every few seconds', async (t) => {
  const log: string[] = []
  const { tally, time, said } = newProgress(['a', 'b'], log)
  tally.startCollection('a', 3)
  tally.startNode(1, 2048)
  await time.sleep(4_000)
  tally.heartbeat()
  t.strictSame(log, [])
  await time.sleep(2_000)
  tally.heartbeat()
  await tally.flush()
  t.match(said, [/^collection 1 of 2 \(a\), node 2 of 3: 0 B of 2 KiB; in all 0 B$/])
  t.match(log, [/collection 1 of 2 \(a\), node 2 of 3/])
})

t.test('the bytes of a collection that was just completed are counted once', async (t) => {
  const { tally } = newProgress(['a', 'b'])
  tally.startCollection('a', 3)
  for (const node of [0, 1, 2]) {
    tally.startNode(node, 1000)
    tally.transferred(1000)
  }
  t.match(tally.statusLine(), /in all 2.9 KiB/)
  tally.completed(completedCollection('a'))
  t.match(tally.statusLine(), /in all 2.9 KiB/)
})

t.test('few collections are listed whole, in their order', async (t) => {
  const { tally } = newProgress(['a', 'b', 'c', 'd'])
  tally.failed('b', 'no')
  tally.completed(completedCollection('a'))
  tally.startCollection('c', 3)
  t.match(
    tally.result().collections.map(({ name, status }) => [name, status]),
    [
      ['a', 'Completed'],
      ['b', 'Failed'],
      ['c', 'InProgress'],
      ['d', 'Pending'],
    ],
  )
})

t.test('every few seconds a line says which, how much, how fast and how long', async (t) => {
  const log: string[] = []
  const { tally, time, said } = newProgress(['a', 'docs'], log)
  tally.startCollection('docs', 3)
  t.equal(tally.statusLine(), 'collection 2 of 2 (docs)')
  tally.startNode(1, 100_000_000)
  tally.transferred(1000)
  t.strictSame(log, [])
  await time.sleep(10_000)
  tally.transferred(49_999_000)
  await tally.flush()
  const line =
    'collection 2 of 2 (docs), node 2 of 3: 47.7 MiB of 95.4 MiB, 5.0 MB/s, 10 s left; in all 47.7 MiB'
  t.match(log[0], line)
  t.strictSame(said, [line])
  t.match(tally.result().current, { bytesPerSecond: 5_000_000, secondsLeft: 10, node: 1 })
})

t.test(
  'bytes of total over all collections: what is to come is guessed by its points',
  async (t) => {
    const { tally } = newProgress(['a', 'b', 'c', 'd'])
    const points = { a: 300, b: 600, c: 100, d: 5000 }
    tally.setPointCounts(new Map(Object.entries(points)))
    tally.failed('d', 'no')
    tally.startCollection('a', 3)
    tally.startNode(0, 1000)
    t.match(tally.statusLine(), /; in all 0 B of about 9\.8 KiB$/, '3000 bytes are of 300 points')
    tally.transferred(1000)
    tally.startNode(1, 1000)
    tally.transferred(500)
    t.match(tally.statusLine(), /: 500 B of 1000 B; in all 1\.5 KiB of about 9\.8 KiB$/)
    tally.completed(completedCollection('a'))
    tally.startCollection('b', 3)
    tally.startNode(0, 2000)
    tally.transferred(2000)
    t.match(tally.statusLine(), /; in all 4\.9 KiB of about 9\.8 KiB$/)
  },
)

t.test('by shard a line says how many are whole, how much, how fast and how long', async (t) => {
  const log: string[] = []
  const { tally, time } = newProgress(['docs'], log)
  tally.startCollection('docs')
  tally.startShards(3)
  t.match(tally.statusLine(), 'collection 1 of 1 (docs), 0 of 3 shards: 0 B; in all 0 B')
  tally.shardTransferred(0, 1000)
  tally.shardTransferred(1, 300)
  tally.shardFailed(1)
  t.match(tally.statusLine(), '0 of 3 shards: 1000 B; in all 1000 B')
  tally.shardCompleted(shard(0))
  await time.sleep(10_000)
  tally.shardTransferred(1, 500)
  await tally.flush()
  const line = '1 of 3 shards: 1.5 KiB of about 2.9 KiB, 0.0 MB/s, 9 s left; in all 1.5 KiB'
  t.match(log[0], line)
  t.match(tally.result().current, { shards: 3, shardsDone: 1, bytes: 1500, bytesTotal: 3000 })
  for (const id of [1, 2]) tally.shardCompleted(shard(id))
  t.match(tally.result().current, { shardsDone: 3, bytes: 3000, bytesTotal: 3000 })
})

t.test('a collection of hundreds of shards does not fill the report with them', async (t) => {
  const { tally } = newProgress(['docs'])
  const snapshots = Array.from({ length: 65 }, (_, shardId) => shard(shardId))
  tally.completed({ ...completedCollection('docs'), replicationFactor: 1, snapshots })
  t.strictSame(tally.result().collections, [{ name: 'docs', status: 'Completed', bytes: 65_000 }])
})

t.test('a bar when a terminal watches, and no line every few seconds', async (t) => {
  const log: string[] = []
  const shown: string[] = []
  const terminal = { columns: 70, write: (text: string) => shown.push(text) }
  const { tally, time } = newProgress(
    ['docs'],
    log,
    new ProgressBar(terminal, () => time.now().getTime()),
  )
  tally.startCollection('docs', 1)
  tally.startNode(0, 100_000_000)
  await time.sleep(10_000)
  tally.transferred(50_000_000)
  tally.transferred(1)
  await tally.flush()
  t.strictSame(shown, [
    '\r\u001b[2K[############------------] collection 1 of 1 (docs), node 1 of 1: 47.',
  ])
  t.strictSame(log, [])
})
