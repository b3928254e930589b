/** What of a backup is told: within the room there is, failures first, nothing lost. */
import t from 'tap'
import { Value } from '@sinclair/typebox/value'
import { BackupResult } from '../../../crds/command.ts'
import type { NodeCollection, ShardSnapshot } from '../../../crds/manifest.ts'
import { Tally } from '../../../jobs/backup/tally.ts'
import { Bar } from '../../../jobs/bar.ts'
import { jobLog } from '../../../jobs/log.ts'
import type { Reporter } from '../../../jobs/report.ts'
import { instantTime } from '../job-world.ts'

function tallyOf(names: string[], log: string[] = [], bar?: Bar) {
  const time = instantTime()
  const said: string[] = []
  const reporter = { progress: async (line: string) => void said.push(line) } as unknown as Reporter
  const output = { write: (line: string) => void log.push(line) }
  const tools = { time, reporter, bar, log: jobLog({ LOG_FORMAT: 'text' }, output) }
  const tally = new Tally(tools)
  tally.plans({ startedAt: '2030-01-01T00:00:00Z', collections: names })
  return { tally, time, said }
}

function taken(name: string): NodeCollection {
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
  const { tally } = tallyOf(names)
  for (const name of names.slice(0, 1900)) tally.completed(taken(name))
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
  const { tally, time, said } = tallyOf(['a', 'b'], log)
  tally.begin('a', 3)
  tally.flows(1, 2048)
  await time.sleep(4_000)
  tally.still()
  t.strictSame(log, [])
  await time.sleep(2_000)
  tally.still()
  await tally.told()
  t.match(said, [/^collection 1 of 2 \(a\), node 2 of 3: 0 B of 2 KiB; in all 0 B$/])
  t.match(log, [/collection 1 of 2 \(a\), node 2 of 3/])
})

t.test('the bytes of a collection that was just completed are counted once', async (t) => {
  const { tally } = tallyOf(['a', 'b'])
  tally.begin('a', 3)
  for (const node of [0, 1, 2]) {
    tally.flows(node, 1000)
    tally.moved(1000)
  }
  t.match(tally.line(), /in all 2.9 KiB/)
  tally.completed(taken('a'))
  t.match(tally.line(), /in all 2.9 KiB/)
})

t.test('few collections are listed whole, in their order', async (t) => {
  const { tally } = tallyOf(['a', 'b', 'c', 'd'])
  tally.failed('b', 'no')
  tally.completed(taken('a'))
  tally.begin('c', 3)
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
  const { tally, time, said } = tallyOf(['a', 'docs'], log)
  tally.begin('docs', 3)
  t.equal(tally.line(), 'collection 2 of 2 (docs)')
  tally.flows(1, 100_000_000)
  tally.moved(1000)
  t.strictSame(log, [])
  await time.sleep(10_000)
  tally.moved(49_999_000)
  await tally.told()
  const line =
    'collection 2 of 2 (docs), node 2 of 3: 47.7 MiB of 95.4 MiB, 5.0 MB/s, 10 s left; in all 47.7 MiB'
  t.match(log[0], line)
  t.strictSame(said, [line])
  t.match(tally.result().current, { bytesPerSecond: 5_000_000, secondsLeft: 10, node: 1 })
})

t.test(
  'bytes of total over all collections: what is to come is guessed by its points',
  async (t) => {
    const { tally } = tallyOf(['a', 'b', 'c', 'd'])
    const points = { a: 300, b: 600, c: 100, d: 5000 }
    tally.expect(new Map(Object.entries(points)))
    tally.failed('d', 'no')
    tally.begin('a', 3)
    tally.flows(0, 1000)
    t.match(tally.line(), /; in all 0 B of about 9\.8 KiB$/, '3000 bytes are of 300 points')
    tally.moved(1000)
    tally.flows(1, 1000)
    tally.moved(500)
    t.match(tally.line(), /: 500 B of 1000 B; in all 1\.5 KiB of about 9\.8 KiB$/)
    tally.completed(taken('a'))
    tally.begin('b', 3)
    tally.flows(0, 2000)
    tally.moved(2000)
    t.match(tally.line(), /; in all 4\.9 KiB of about 9\.8 KiB$/)
  },
)

t.test('by shard a line says how many are whole, how much, how fast and how long', async (t) => {
  const log: string[] = []
  const { tally, time } = tallyOf(['docs'], log)
  tally.begin('docs')
  tally.follows(3)
  t.match(tally.line(), 'collection 1 of 1 (docs), 0 of 3 shards: 0 B; in all 0 B')
  tally.streamed(0, 1000)
  tally.streamed(1, 300)
  tally.streamBroke(1)
  t.match(tally.line(), '0 of 3 shards: 1000 B; in all 1000 B')
  tally.streamEnded(shard(0))
  await time.sleep(10_000)
  tally.streamed(1, 500)
  await tally.told()
  const line = '1 of 3 shards: 1.5 KiB of about 2.9 KiB, 0.0 MB/s, 9 s left; in all 1.5 KiB'
  t.match(log[0], line)
  t.match(tally.result().current, { shards: 3, shardsDone: 1, bytes: 1500, bytesTotal: 3000 })
  for (const id of [1, 2]) tally.streamEnded(shard(id))
  t.match(tally.result().current, { shardsDone: 3, bytes: 3000, bytesTotal: 3000 })
})

t.test('a collection of hundreds of shards does not fill the report with them', async (t) => {
  const { tally } = tallyOf(['docs'])
  const snapshots = Array.from({ length: 65 }, (_, shardId) => shard(shardId))
  tally.completed({ ...taken('docs'), replicationFactor: 1, snapshots })
  t.strictSame(tally.result().collections, [{ name: 'docs', status: 'Completed', bytes: 65_000 }])
})

t.test('a bar when a terminal watches, and no line every few seconds', async (t) => {
  const log: string[] = []
  const shown: string[] = []
  const terminal = { columns: 70, write: (text: string) => shown.push(text) }
  const { tally, time } = tallyOf(['docs'], log, new Bar(terminal, () => time.now().getTime()))
  tally.begin('docs', 1)
  tally.flows(0, 100_000_000)
  await time.sleep(10_000)
  tally.moved(50_000_000)
  tally.moved(1)
  await tally.told()
  t.strictSame(shown, [
    '\r\u001b[2K[############------------] collection 1 of 1 (docs), node 1 of 1: 47.',
  ])
  t.strictSame(log, [])
})
