/** What counts of replicas prove: a loss, a difference that is only noted, or nothing. */
import t from 'tap'
import type { PointCount } from '../../../jobs/clients/engine/statistics.ts'
import {
  countNotes,
  findLoss,
  unprovenDifference,
  writtenShards,
  type Counts,
} from '../../../jobs/restore/point-count.ts'
import { canRestoreToSeveralNodes } from '../../../jobs/restore/target-checks.ts'
import { matchWhole } from '../../match-whole.ts'

type Source = Parameters<typeof findLoss>[0]['source']

const BASE = {
  ...{ name: 'docs', config: { params: {} }, payloadIndexes: {}, aliases: [] },
  ...{ shardKeys: [], shards: [{ shardId: 0, nodes: [0] }], snapshots: [] },
} satisfies Source

/** An estimate is a string, a failed count undefined. */
type Written = number | string | undefined

/** By shard, the counts of nodes 0, 1, ... */
function counts(shards: Record<number, Written[]>): Counts {
  return new Map(
    Object.entries(shards).map(([shard, nodes]) => [
      Number(shard),
      new Map(nodes.map((written, node) => [node, countOf(written)])),
    ]),
  )
}

function countOf(written: Written): PointCount {
  if (typeof written === 'number') return { isExact: true, points: written }
  const reason = 'it timed out'
  return { isExact: false, reason, ...(written !== undefined && { points: Number(written) }) }
}

function verdicts(source: Partial<Source>, shards: Record<number, Written[]>) {
  const item = { name: 'docs', source: { ...BASE, ...source } as Source }
  const counted = counts(shards)
  return {
    loss: findLoss(item, counted),
    difference: unprovenDifference(item, counted),
    notes: countNotes(item, counted),
  }
}

const NOTHING = { loss: undefined, difference: undefined, notes: [] }
const holds = (exactPointsCount: number) => ({
  shards: [{ shardId: 0, nodes: [0], exactPointsCount }],
})

t.test('equal replicas with the recorded points prove and note nothing', async (t) => {
  t.strictSame(verdicts({ ...holds(5), exactPointsCount: 5 }, { 0: [5, 5, 5] }), NOTHING)
  t.strictSame(verdicts({ pointsCount: 5 }, { 0: [5] }), NOTHING)
})

t.test('a replica below its snapshot is a loss, one above it is not', async (t) => {
  const { loss } = verdicts(holds(5), { 0: [6, 4, 5] })
  t.equal(loss, 'shard 0 of docs has 4 points on node 1, but its snapshot holds 5')
  t.equal(verdicts(holds(5), { 0: [6] }).loss, undefined)
})

t.test('exact counts of replicas that differ are a loss, and estimates are not', async (t) => {
  const { loss } = verdicts({}, { 0: [7, 9, 8] })
  t.equal(loss, 'shard 0 of docs has 7 points on node 0, but 9 on node 1')
  t.equal(verdicts({}, { 0: [7, '9'] }).loss, undefined)
  t.equal(verdicts(holds(5), { 0: ['1', undefined] }).loss, undefined)
})

t.test('replicas that differed in the backup may differ as much, and no more', async (t) => {
  const replicaPointsCounts = [
    { nodeIndex: 0, pointsCount: 131 },
    { nodeIndex: 2, pointsCount: 124 },
  ]
  const source = { pointsCount: 131, shards: [{ shardId: 0, nodes: [0, 2], replicaPointsCounts }] }
  const note =
    'the replicas of shard 0 of docs differed when it was backed up: 131 points on node 0, 124 on node 2'
  const noLoss = { loss: undefined, difference: undefined, notes: [note] }
  t.strictSame(verdicts(source, { 0: [131, 124] }), noLoss)
  t.strictSame(verdicts({ ...source, pointsCount: 124 }, { 0: [124, 124] }), noLoss)
  const words = 'shard 0 of docs has 123 points on node 1, but its snapshot holds 124'
  t.equal(verdicts(source, { 0: [131, 123] }).loss, words)
  t.equal(
    verdicts(source, { 0: [131, 130] }).loss,
    'shard 0 of docs has 130 points on node 1, but 131 on node 0',
    'no replica of the backup had 130',
  )
  const [one] = source.shards
  const streamed = { ...source, shards: [{ ...one, exactPointsCount: 124 } as typeof one] }
  t.equal(
    verdicts(streamed as Partial<Source>, { 0: [124, 131] }).loss,
    'shard 0 of docs has 124 points on node 0, but 131 on node 1',
    'all replicas come from one snapshot',
  )
})

t.test('a shard on no node is a loss', async (t) => {
  t.equal(verdicts({}, { 0: [] }).loss, 'shard 0 of docs is on no node')
  t.equal(verdicts({}, {}).loss, 'shard 0 of docs is on no node')
})

t.test('an empty collection is a loss where points were recorded', async (t) => {
  const words = 'docs is empty after the restore, but 3 points were counted when it was backed up'
  t.equal(verdicts({ pointsCount: 3 }, { 0: [0] }).loss, words)
  t.equal(verdicts({ exactPointsCount: 3, pointsCount: 9 }, { 0: [0] }).loss, words)
  t.equal(verdicts({ exactPointsCount: 0, pointsCount: 9 }, { 0: [0] }).loss, undefined)
  t.equal(verdicts({ pointsCount: 3 }, { 0: [1] }).loss, undefined)
  t.equal(verdicts({}, { 0: [0] }).loss, undefined)
  t.equal(verdicts({ pointsCount: 3 }, { 0: [undefined] }).loss, undefined, 'unknown is not empty')
})

t.test(
  'an empty shard is a loss where its stream had points, also without an exact count',
  async (t) => {
    const snapshot = { shardId: 1, nodeIndex: 0, key: 'k', sizeBytes: 1, sha256: 'a' }
    const shards = [0, 1].map((shardId) => ({ shardId, nodes: [0] }))
    const streamed = (pointsCount?: number) =>
      ({
        shards,
        snapshots: [{ ...snapshot, ...(pointsCount !== undefined && { pointsCount }) }],
      }) as Partial<Source>
    const words = 'shard 1 of docs is empty after the restore, but about 40 points were backed up'
    t.equal(verdicts(streamed(40), { 0: [5], 1: [0, 0] }).loss, words)
    t.equal(verdicts(streamed(40), { 0: [5], 1: [1] }).loss, undefined)
    t.equal(verdicts(streamed(40), { 0: [5], 1: ['0'] }).loss, undefined, 'an estimate')
    t.equal(verdicts(streamed(0), { 0: [5], 1: [0] }).loss, undefined)
    t.equal(verdicts(streamed(), { 0: [5], 1: [0] }).loss, undefined)
    const item = { name: 'docs', source: { ...BASE, ...streamed(40) } as Source }
    t.equal(findLoss(item, counts({ 0: [5], 1: [0] }), new Set([1])), undefined, 'clients write')
    t.equal(findLoss(item, counts({ 0: [5], 1: [0] }), new Set([0])), words)
  },
)

t.test('an empty shard key is a loss where it had points', async (t) => {
  const shards = [0, 1, 2].map((shardId) => ({ shardId, nodes: [0] }))
  const shardKeys = [
    { key: 'a', shardIds: [0, 1], exactPointsCount: 9 },
    { key: 7, shardIds: [2], exactPointsCount: 3 },
  ]
  const words =
    'shard key "a" of docs is empty after the restore, but 9 points were counted when it was backed up'
  const source = { shards, shardKeys } as Partial<Source>
  t.equal(verdicts(source, { 0: [0], 1: [0], 2: [3] }).loss, words)
  t.equal(verdicts(source, { 0: [0], 1: [1], 2: [3] }).loss, undefined)
  const item = { name: 'docs', source: { ...BASE, ...source } as Source }
  t.equal(findLoss(item, counts({ 0: [0], 1: [0], 2: [3] }), new Set([1])), undefined)
  t.equal(findLoss(item, counts({ 0: [0], 1: [0], 2: [3] }), new Set([2])), words)
})

t.test('a total other than the recorded one is a difference, for each shard key too', async (t) => {
  const words = 'docs has 6 points; 5 were counted when it was backed up'
  matchWhole(t, verdicts({ exactPointsCount: 5 }, { 0: [6] }), {
    loss: undefined,
    difference: words,
    notes: [words],
  })
  const shards = [
    { shardId: 0, nodes: [0] },
    { shardId: 1, nodes: [0] },
  ]
  const shardKeys = [
    { key: 'a', shardIds: [0], exactPointsCount: 5 },
    { key: 7, shardIds: [1], exactPointsCount: 2 },
  ]
  const keyed = (first: Written, second: Written) =>
    verdicts({ shards, shardKeys }, { 0: [first], 1: [second] }).difference
  t.equal(keyed(5, 2), undefined)
  t.equal(keyed(5, 3), 'shard key 7 of docs has 3 points; 2 were counted when it was backed up')
  t.equal(keyed(4, 2), 'shard key "a" of docs has 4 points; 5 were counted when it was backed up')
  t.equal(keyed('4', 2), undefined, 'an estimate proves no difference')
})

t.test('an estimated total is noted where it is all that was recorded', async (t) => {
  t.strictSame(verdicts({ pointsCount: 5 }, { 0: [6] }).notes, [
    'docs has 6 points; about 5 were recorded',
  ])
  t.strictSame(verdicts({}, { 0: [6] }).notes, [
    'docs has 6 points; the backup recorded no number to compare with',
  ])
})

t.test('a node that could not count is noted with its reason', async (t) => {
  const note = 'points of docs were not counted: it timed out'
  t.strictSame(verdicts({ pointsCount: 5 }, { 0: [6, undefined] }).notes, [note])
  t.strictSame(verdicts({ pointsCount: 5 }, { 0: [undefined] }).notes, [note])
})

t.test('estimates of one shard that differ by more than a hundredth are noted', async (t) => {
  const note = 'points of docs were not counted: it timed out'
  t.strictSame(verdicts({}, { 0: ['989', 1000] }).notes, [
    note,
    'shard 0 of docs has about 989 points on one node, and 1000 on another',
  ])
  t.strictSame(verdicts({}, { 0: ['990', 1000] }).notes, [note])
  t.strictSame(verdicts({}, { 0: ['990', undefined] }).notes, [note], 'nothing to compare it with')
})

t.test('the count of a streamed shard is compared where nothing better was recorded', async (t) => {
  const snapshots = [{ shardId: 0, nodeIndex: 0, key: 'k', sizeBytes: 1, sha256: '' }]
  const streamed = (pointsCount: number, exactPointsCount?: number) => ({
    ...{ pointsCount: 6, snapshots: [{ ...snapshots[0], pointsCount }] as never },
    ...(exactPointsCount !== undefined && holds(exactPointsCount)),
  })
  t.strictSame(verdicts(streamed(6), { 0: [6] }).notes, [])
  t.strictSame(verdicts(streamed(5), { 0: [6] }).notes, [
    'shard 0 of docs has 6 points; about 5 were backed up',
  ])
  t.strictSame(verdicts(streamed(5, 6), { 0: [6] }).notes, [])
})

for (const [taken, isRestorable] of [
  ['0.99.9', false],
  ['1.15.9', false],
  ['1.16.0', true],
  ['1.18.3', true],
  ['2.0.0', true],
] as const) {
  const verb = isRestorable ? 'can' : 'cannot'
  t.test(`a backup of engine ${taken} ${verb} be restored to several nodes`, async (t) => {
    t.equal(canRestoreToSeveralNodes(taken), isRestorable)
  })
}

t.test('a shard is written if the last write of a replica changes, or is queued', async (t) => {
  const reading = (nodes: Record<number, number>[], shards: Record<number, Written[]>) => ({
    writes: nodes.map((numbers) => {
      const entries = Object.entries(numbers).map(([id, write]) => [Number(id), write] as const)
      return new Map(entries)
    }),
    counts: counts(shards),
  })
  const same = { 0: [5, 4], 1: [2, 2], 2: [7, 7] }
  const first = reading(
    [
      { 0: 1, 1: 1, 2: 1 },
      { 0: 1, 1: 1, 2: 1 },
    ],
    same,
  )
  const last = reading(
    [
      { 0: 1, 1: 1, 2: 1 },
      { 0: 1, 1: 3 },
    ],
    same,
  )
  t.strictSame([...writtenShards(first, first)], [])
  t.strictSame([...writtenShards(first, last)], [1, 2])
  t.strictSame([...writtenShards(last, first)], [1, 2])
})

t.test('of a node without numbers of writes, only a count that changes shows them', async (t) => {
  const reading = (writes: Map<number, number>[], shards: Record<number, Written[]>) => ({
    writes,
    counts: counts(shards),
  })
  const numbers = new Map([
    [0, 1],
    [1, 1],
  ])
  for (const writes of [[numbers], [numbers, new Map<number, number>()]]) {
    const first = reading(writes, { 0: [5, 4], 1: [2, 2] })
    t.strictSame([...writtenShards(first, first)], [])
    const answered = reading([numbers, numbers], { 0: [5, 4], 1: [2, 2] })
    t.strictSame([...writtenShards(first, answered)], [], 'the node answers only once')
    t.strictSame([...writtenShards(answered, first)], [], 'the node answers only once')
    const last = reading(writes, { 0: [5, 4], 1: [2, 3] })
    t.strictSame([...writtenShards(first, last)], [1])
    const other = reading(writes, { 0: [6, 4], 1: [2, 2] })
    t.strictSame([...writtenShards(first, other)], [], 'the other node numbers its writes')
  }
})

t.test('writes explain a loss of the shard that they are in, and no other', async (t) => {
  const shards = [0, 1].map((shardId) => ({ shardId, nodes: [0], exactPointsCount: 5 }))
  const item = { name: 'docs', source: { ...BASE, shards, pointsCount: 10 } as Source }
  const counted = counts({ 0: [5], 1: [4] })
  t.equal(findLoss(item, counted, new Set([1])), undefined)
  t.match(findLoss(item, counted, new Set([0])), /^shard 1 of docs has 4 points on node 0/)
  const empty = counts({ 0: [0], 1: [0] })
  t.equal(findLoss(item, empty, new Set([0, 1])), undefined)
})
