/** What of a backup is told: within the room there is, failures first, nothing lost. */
import t from 'tap'
import { Value } from '@sinclair/typebox/value'
import { BackupResult } from '../../../crds/command.ts'
import type { ManifestCollection } from '../../../crds/manifest.ts'
import { Tally } from '../../../jobs/backup/tally.ts'
import { jobLog } from '../../../jobs/log.ts'
import type { Reporter } from '../../../jobs/report.ts'
import { instantTime } from '../job-world.ts'

function tallyOf(names: string[], log: string[] = []) {
  const time = instantTime()
  const said: string[] = []
  const reporter = { progress: async (line: string) => void said.push(line) } as unknown as Reporter
  const output = { write: (line: string) => void log.push(line) }
  const tools = { time, reporter, log: jobLog({ LOG_FORMAT: 'text' }, output) }
  return { tally: new Tally(tools, '2030-01-01T00:00:00Z', names), time, said }
}

function taken(name: string): ManifestCollection {
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
  const line = 'collection 2 of 2 (docs), node 2 of 3: 47.7 MiB of 95.4 MiB, 5.0 MB/s, 10 s left'
  t.match(log[0], line)
  t.strictSame(said, [line])
  t.match(tally.result().current, { bytesPerSecond: 5_000_000, secondsLeft: 10, node: 1 })
})
