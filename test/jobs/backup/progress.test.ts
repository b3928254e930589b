/** The progress report of a backup: within its size limit, failures first, and nothing lost. */
import t from 'tap'
import { Value } from '@sinclair/typebox/value'
import { BackupResult } from '../../../crds/contract/job.ts'
import type { NodeCollection, ShardSnapshot } from '../../../crds/contract/manifest.ts'
import { hashNames } from '../../../crds/contract/names.ts'
import { BackupProgress } from '../../../jobs/backup/progress.ts'
import { ProgressBar } from '../../../jobs/progress.ts'
import { jobLog } from '../../../jobs/log.ts'
import type { Reporter } from '../../../jobs/reporter.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'

function newProgress(names: string[], log: string[] = [], bar?: ProgressBar) {
  const time = instantClock()
  const said: string[] = []
  const reporter = { progress: async (line: string) => void said.push(line) } as unknown as Reporter
  const output = { write: (line: string) => void log.push(line) }
  const tools = { time, reporter, progressBar: bar, log: jobLog({ LOG_FORMAT: 'text' }, output) }
  const progress = new BackupProgress(tools)
  progress.start({ startedAt: '2030-01-01T00:00:00Z', collections: names })
  return { progress, time, said }
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

t.test('completed collections without points are listed as empty', async (t) => {
  const { progress } = newProgress(['a', 'b', 'c', 'd', 'e'])
  progress.completed({ ...completedCollection('a'), pointsCount: 0 })
  progress.completed({ ...completedCollection('b'), pointsCount: 0, exactPointsCount: 7 })
  progress.completed({ ...completedCollection('c'), pointsCount: 3, exactPointsCount: 0 })
  progress.completed(completedCollection('d'))
  progress.failed('e', 'it is gone')
  const result = progress.result()
  t.ok(Value.Check(BackupResult, result))
  t.equal(result.collectionHashes, hashNames(['a', 'b', 'c', 'd']))
  t.equal(result.emptyCollectionHashes, hashNames(['a', 'c']))
})

t.test('of more empty collections than hashes fit, the first ones are listed', async (t) => {
  const names = Array.from({ length: 1001 }, (_, index) => `c${index}`)
  const { progress } = newProgress(names)
  for (const name of names) progress.completed({ ...completedCollection(name), pointsCount: 0 })
  const result = progress.result()
  t.ok(Value.Check(BackupResult, result))
  t.equal(result.emptyCollectionHashes, hashNames(names.slice(0, 1000)))
  t.equal(result.collectionHashes, undefined)
})

t.test(
  '2,000 collections are summarized: failures are listed first, the others counted',
  async (t) => {
    const names = Array.from({ length: 2000 }, (_, index) => `collection-${index}`)
    const { progress } = newProgress(names)
    for (const name of names.slice(0, 1900)) progress.completed(completedCollection(name))
    for (const name of names.slice(1900)) progress.failed(name, `${name}: ${'why '.repeat(400)}`)
    const result = progress.result()
    t.ok(Value.Check(BackupResult, result))
    t.match(result, { total: 2000, completed: 1900, failed: 100, bytes: 5_700_000 })
    const { completed, failed, pending } = result.unlisted
    t.equal(result.collections.length + completed + failed + pending, 2000)
    t.ok(result.collections.every(({ status }) => status === 'Failed'))
    t.ok(Buffer.byteLength(JSON.stringify(result)) < 56 * 1024)
    t.match(result.error, /^collection-1900: why/)
    t.equal(progress.summary(), 'Backed up 1900/2000 collections')
  },
)

t.test('while no byte moves the progress is reported every few seconds', async (t) => {
  const log: string[] = []
  const { progress, time, said } = newProgress(['a', 'b'], log)
  progress.startCollection('a', 3)
  progress.startNode(1, 2048)
  await time.sleep(4_000)
  progress.heartbeat()
  t.strictSame(log, [])
  await time.sleep(2_000)
  progress.heartbeat()
  await progress.flush()
  matchWhole(t, said, [/^collection 1 of 2 \(a\), node 2 of 3: 0 B of 2 KiB; in total 0 B$/])
  matchWhole(t, log, [/collection 1 of 2 \(a\), node 2 of 3/])
})

t.test('the bytes of a collection that was just completed are counted once', async (t) => {
  const { progress } = newProgress(['a', 'b'])
  progress.startCollection('a', 3)
  for (const node of [0, 1, 2]) {
    progress.startNode(node, 1000)
    progress.transferred(1000)
  }
  t.match(progress.statusLine(), /in total 2.9 KiB/)
  progress.completed(completedCollection('a'))
  t.match(progress.statusLine(), /in total 2.9 KiB/)
})

t.test('a few collections are all listed, in their order', async (t) => {
  const { progress } = newProgress(['a', 'b', 'c', 'd'])
  progress.failed('b', 'no')
  progress.completed(completedCollection('a'))
  progress.startCollection('c', 3)
  matchWhole(
    t,
    progress.result().collections.map(({ name, status }) => [name, status]),
    [
      ['a', 'Completed'],
      ['b', 'Failed'],
      ['c', 'InProgress'],
      ['d', 'Pending'],
    ],
  )
})

t.test(
  'every few seconds a line says the collection, bytes, throughput and remaining time',
  async (t) => {
    const log: string[] = []
    const { progress, time, said } = newProgress(['a', 'docs'], log)
    progress.startCollection('docs', 3)
    t.equal(progress.statusLine(), 'collection 2 of 2 (docs)')
    progress.startNode(1, 100_000_000)
    progress.transferred(1000)
    t.strictSame(log, [])
    await time.sleep(10_000)
    progress.transferred(49_999_000)
    await progress.flush()
    const line =
      'collection 2 of 2 (docs), node 2 of 3: 47.7 MiB of 95.4 MiB, 5.0 MB/s, 10 s left; in total 47.7 MiB'
    t.match(log[0], line)
    t.strictSame(said, [line])
    t.match(progress.result().current, { bytesPerSecond: 5_000_000, secondsLeft: 10, node: 1 })
  },
)

t.test(
  'the total over all collections estimates those that are not started by their points',
  async (t) => {
    const { progress } = newProgress(['a', 'b', 'c', 'd'])
    const points = { a: 300, b: 600, c: 100, d: 5000 }
    progress.setPointCounts(new Map(Object.entries(points)))
    progress.failed('d', 'no')
    progress.startCollection('a', 3)
    progress.startNode(0, 1000)
    t.match(
      progress.statusLine(),
      /; in total 0 B of about 9\.8 KiB$/,
      '3000 bytes are of 300 points',
    )
    progress.transferred(1000)
    progress.startNode(1, 1000)
    progress.transferred(500)
    t.match(progress.statusLine(), /: 500 B of 1000 B; in total 1\.5 KiB of about 9\.8 KiB$/)
    progress.completed(completedCollection('a'))
    progress.startCollection('b', 3)
    progress.startNode(0, 2000)
    progress.transferred(2000)
    t.match(progress.statusLine(), /; in total 4\.9 KiB of about 9\.8 KiB$/)
  },
)

t.test(
  'by shard a line says the completed shards, bytes, throughput and remaining time',
  async (t) => {
    const log: string[] = []
    const { progress, time } = newProgress(['docs'], log)
    progress.startCollection('docs')
    progress.startShards(3)
    t.match(progress.statusLine(), 'collection 1 of 1 (docs), 0 of 3 shards: 0 B; in total 0 B')
    progress.shardTransferred(0, 1000)
    progress.shardTransferred(1, 300)
    progress.shardFailed(1)
    t.match(progress.statusLine(), '0 of 3 shards: 1000 B; in total 1000 B')
    progress.shardCompleted(shard(0))
    await time.sleep(10_000)
    progress.shardTransferred(1, 500)
    await progress.flush()
    const line = '1 of 3 shards: 1.5 KiB of about 2.9 KiB, 0.0 MB/s, 9 s left; in total 1.5 KiB'
    t.match(log[0], line)
    t.match(progress.result().current, { shards: 3, shardsDone: 1, bytes: 1500, bytesTotal: 3000 })
    for (const id of [1, 2]) progress.shardCompleted(shard(id))
    t.match(progress.result().current, { shardsDone: 3, bytes: 3000, bytesTotal: 3000 })
  },
)

t.test('the snapshots of many nodes are all listed', async (t) => {
  const { progress } = newProgress(['docs'])
  const collection = completedCollection('docs')
  const [first] = collection.snapshots
  if (first === undefined) throw new Error('no snapshot')
  const snapshots = Array.from({ length: 65 }, (_, nodeIndex) => ({ ...first, nodeIndex }))
  progress.completed({ ...collection, snapshots })
  t.equal(progress.result().collections[0]?.snapshots?.length, 65)
})

t.test('a collection of hundreds of shards does not fill the report with them', async (t) => {
  const { progress } = newProgress(['docs'])
  const snapshots = Array.from({ length: 65 }, (_, shardId) => shard(shardId))
  progress.completed({ ...completedCollection('docs'), replicationFactor: 1, snapshots })
  t.strictSame(progress.result().collections, [
    { name: 'docs', status: 'Completed', bytes: 65_000 },
  ])
})

t.test('on a terminal a progress bar replaces the lines', async (t) => {
  const log: string[] = []
  const lines: string[] = []
  const terminal = { columns: 70, write: (text: string) => lines.push(text) }
  const { progress, time } = newProgress(
    ['docs'],
    log,
    new ProgressBar(terminal, () => time.now().getTime()),
  )
  progress.startCollection('docs', 1)
  progress.startNode(0, 100_000_000)
  await time.sleep(10_000)
  progress.transferred(50_000_000)
  progress.transferred(1)
  await progress.flush()
  t.strictSame(lines, [
    '\r\u001b[2K[############------------] collection 1 of 1 (docs), node 1 of 1: 47.',
  ])
  t.strictSame(log, [])
})

t.test('a collection whose transfer has not begun has its position only', async (t) => {
  const { progress } = newProgress(['a', 'docs'])
  t.equal(progress.statusLine(), '2 collections')
  progress.startCollection('docs')
  t.equal(progress.statusLine(), 'collection 2 of 2 (docs)')
  t.strictSame(progress.result().current, {
    ...{ collection: 'docs', number: 2, bytes: 0, bytesTotal: 0 },
  })
  progress.finish()
  t.equal(progress.statusLine(), '2 collections')
  t.notOk('current' in progress.result())
})

t.test('credentials that are renewed are reported, and nothing while none are', async (t) => {
  const { progress, said } = newProgress(['docs'])
  progress.reportCredentials(undefined)
  await progress.flush()
  t.strictSame(said, [])
  progress.reportCredentials(new Error('expired'))
  await progress.flush()
  progress.reportCredentials(undefined)
  await progress.flush()
  t.strictSame(said, ['1 collections; waiting for renewed credentials: expired', '1 collections'])
})

t.test('by shard the progress bar shows the share of shards that are complete', async (t) => {
  const fractions: number[] = []
  const bar = { show: (_: unknown, fraction: number) => fractions.push(fraction) }
  const { progress } = newProgress(['docs'], [], bar as unknown as ProgressBar)
  progress.startCollection('docs')
  progress.startShards(4)
  progress.shardTransferred(0, 10)
  progress.shardCompleted(shard(0))
  progress.shardTransferred(1, 10)
  t.strictSame(fractions, [0, 0.25])
})
