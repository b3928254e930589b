/** Events about the numbers of shards: one for each stage, whatever becomes of the statuses. */
import t from 'tap'
import type { ReshardingOutcome } from '../../../../crds/contract/shards-job.ts'
import type { ClusterStatus } from '../../../../crds/cluster.ts'
import type { ShardsSummary } from '../../../../hooks/cluster/shards/summary.ts'
import { sync } from '../../../../hooks/cluster/sync.ts'
import { applied, context, progress } from '../../../builders.ts'
import { observedShards, threeNodes } from '../shards.ts'

type Stage = ReshardingOutcome['stage']

const outcome = (uuid: string, stage: Stage, parts: Partial<ReshardingOutcome> = {}) => ({
  ...{ uuid, collection: 'docs', direction: 'up' as const, shard: 2, stage },
  ...parts,
})

/** One sync: the status that it wants, and the Events that it writes, by name. */
function synced(
  reshardings: ReshardingOutcome[],
  status: ClusterStatus = {},
  summary?: Partial<ShardsSummary>,
) {
  const report = progress({ verb: 'shards', run: 2, applied: applied() })
  const shards = {
    ...{ startedAt: report.at, stepsDone: 0, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0 },
    ...{ moves: [], reshardings },
  }
  const cluster = threeNodes({ status })
  const decision = sync(
    observedShards({ cluster, progress: { ...report, shards } }, summary),
    context,
  )
  const events = (decision.events ?? []).filter(({ reason }) => reason.startsWith('Resharding'))
  return {
    status: decision.status,
    events: events.map(({ metadata, reason, message, type }) => [
      ...[metadata.name, `${reason}: ${message}`, type],
    ]),
  }
}

const texts = (events: readonly string[][]) => events.map(([, text]) => text)

t.test('each stage is one Event, with what a user can do', async (t) => {
  t.strictSame(texts(synced([outcome('a', 'migrate')]).events), [
    'ReshardingStarted: docs: adding shard 2 has begun; setting spec.shardNumber to 2 aborts it',
  ])
  const removed = (stage: Stage) =>
    texts(synced([outcome('a', stage, { direction: 'down' })]).events)
  const begun =
    'ReshardingStarted: docs: removing shard 2 has begun; setting spec.shardNumber to 3 aborts it'
  t.strictSame(removed('completed'), [
    begun,
    'ReshardingCommitted: docs: removing shard 2 can only be completed from here on: reads use the new number of shards',
    'ReshardingCompleted: docs: removing shard 2 is complete',
  ])
  t.strictSame(removed('aborted'), [
    begun,
    'ReshardingAborted: docs: removing shard 2 was aborted; it has 3 shards',
  ])
  t.strictSame(removed('gone'), [
    begun,
    'ReshardingAborted: docs: removing shard 2 has ended, because the collection was deleted',
  ])
  t.strictSame(removed('incomplete'), [
    begun,
    'ReshardingIncomplete: docs: removing shard 2 was ended by another client before all points were known to be copied: some may be missing',
  ])
  const types = synced([outcome('a', 'incomplete')]).events.map(([, , type]) => type)
  t.strictSame(types, ['Normal', 'Warning'])
})

const REPORTS: readonly ReshardingOutcome[][] = [
  [outcome('a', 'migrate')],
  [outcome('a', 'aborted'), outcome('b', 'migrate')],
  [outcome('a', 'aborted'), outcome('b', 'commit')],
  [outcome('a', 'aborted'), outcome('b', 'completed'), outcome('c', 'migrate', { shard: 3 })],
  [outcome('a', 'aborted'), outcome('b', 'completed'), outcome('c', 'completed', { shard: 3 })],
]

t.test(
  'a lost status writes none twice, and a report that was not seen leaves none out',
  async (t) => {
    const last = REPORTS.at(-1) ?? []
    const namesOf = (events: readonly string[][]) => events.map(([name]) => name).toSorted()
    const expected = namesOf(synced(last).events)
    t.equal(new Set(expected).size, 8, 'begun, aborted; twice begun, committed, completed')
    // Bit n: report n is seen, and the status is written after it.
    const masks = 2 ** (REPORTS.length - 1)
    for (let seen = 0; seen < masks; seen += 1) {
      for (let written = 0; written < masks; written += 1) {
        let status: ClusterStatus = {}
        const found: string[][] = []
        for (const [index, report] of REPORTS.entries()) {
          const bit = 1 << index
          if (report !== last && (seen & bit) === 0) continue
          const answer = synced(report, status)
          found.push(...answer.events)
          if ((written & bit) !== 0) status = answer.status
        }
        // An Event whose name exists is not written again.
        t.strictSame([...new Set(namesOf(found))], expected, `seen ${seen}, written ${written}`)
        const isEveryWritten = written === masks - 1
        if (isEveryWritten) t.equal(found.length, expected.length, 'nor is it sent again')
      }
    }
    const { status } = synced(last)
    t.strictSame(synced(last, status).events, [])
  },
)

t.test('a resharding that ends without a Job is in the status and an Event', async (t) => {
  const begun = [outcome('a', 'migrate')]
  const { status } = synced(begun)
  const endedResharding = { uuid: 'a', stage: 'aborted' as const }
  const ended = synced(begun, status, { endedResharding })
  t.strictSame(texts(ended.events), [
    'ReshardingAborted: docs: adding shard 2 was aborted; it has 2 shards',
  ])
  const entry = { id: 'a', collection: 'docs', direction: 'up', shard: 2, stage: 'aborted' }
  t.strictSame(ended.status.shards?.reshardings, [entry])
  const later = synced(begun, ended.status)
  t.strictSame(later.status.shards?.reshardings, [entry], 'although the last report has begun')
  t.strictSame(later.events, [])
  const other = synced(begun, status, { endedResharding: { uuid: 'z', stage: 'completed' } })
  t.strictSame(other.events, [])
})
