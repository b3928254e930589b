/** The oracle: each defect that is planted on one replica is found and named, and nothing else is. */
import t from 'tap'
import { Ledger } from './ledger.ts'
import {
  compare,
  compareAtRest,
  comparisons,
  summaryOf,
  textOf,
  type Finding,
  type Replica,
} from './oracle.ts'
import { pointOf, type StoredPoint } from './point.ts'

const IDS = [1, 2, 3, 4]

/** Two shards with two replicas each; point 4 was deleted, point 3 overwritten. */
function scene() {
  const ledger = new Ledger()
  for (const id of IDS) ledger.begin({ collection: 'docs', id }, 1).acknowledge()
  ledger.begin({ collection: 'docs', id: 3 }, 2).acknowledge()
  ledger.begin({ collection: 'docs', id: 4 }, null).acknowledge()
  const now = ledger.now()
  const replica = (node: number, shard: number, points: StoredPoint[]) => ({
    node,
    shard,
    points: new Map(points.map((point) => [point.id, point])),
  })
  const replicas = [
    replica(0, 0, [pointOf(1, 1), pointOf(3, 2)]),
    replica(1, 0, [pointOf(1, 1), pointOf(3, 2)]),
    replica(1, 1, [pointOf(2, 1)]),
    replica(2, 1, [pointOf(2, 1)]),
  ]
  const judged = (changed: readonly Replica[] = replicas) =>
    compare({ ledger, collection: 'docs', from: now, to: now }, changed)
  return { ledger, replicas, judged }
}

function kinds(findings: readonly Finding[]): string[] {
  return findings.map(({ kind, id, node = -1 }) => `${kind} ${id} ${node}`).toSorted()
}

t.test('replicas that hold what was written are without findings', async (t) => {
  const { judged, replicas } = scene()
  t.strictSame(judged(), [])
  t.equal(comparisons(replicas), 6)
})

t.test('a point that one replica has lost', async (t) => {
  const { judged, replicas } = scene()
  replicas[1]?.points.delete(1)
  t.strictSame(kinds(judged()), ['lost 1 1', 'replicas differ 1 0'])
})

t.test('a point that every replica has lost, and a collection that is not there', async (t) => {
  const { judged, replicas } = scene()
  for (const { points } of replicas) points.delete(2)
  t.strictSame(kinds(judged()), ['lost 2 -1'])
  t.strictSame(kinds(judged([])), ['lost 1 -1', 'lost 2 -1', 'lost 3 -1'])
})

t.test('a replica that is stale', async (t) => {
  const { judged, replicas } = scene()
  replicas[0]?.points.set(3, pointOf(3, 1))
  t.strictSame(kinds(judged()), ['replicas differ 3 0', 'wrong version 3 0'])
})

t.test('a phantom, and a deleted point that is back', async (t) => {
  const { judged, replicas } = scene()
  replicas[2]?.points.set(99, pointOf(99, 1))
  replicas[2]?.points.set(4, pointOf(4, 1))
  t.strictSame(kinds(judged()), [
    'deleted point is back 4 1',
    'phantom 99 1',
    'replicas differ 4 1',
    'replicas differ 99 1',
  ])
})

t.test('a vector or a payload that was changed in one place', async (t) => {
  const { judged, replicas } = scene()
  const whole = pointOf(1, 1)
  const vector = { ...(whole.vector as Record<string, unknown>), multi: [[0, 0]] }
  replicas[0]?.points.set(1, { ...whole, vector })
  t.strictSame(kinds(judged()), ['changed 1 0', 'replicas differ 1 0'])
  const payload = { ...(whole.payload as Record<string, unknown>), label: 'another' }
  replicas[0]?.points.set(1, { ...whole, payload })
  t.strictSame(kinds(judged()), ['changed 1 0', 'replicas differ 1 0'])
})

t.test('one point in two shards', async (t) => {
  const { judged, replicas } = scene()
  for (const { shard, points } of replicas) if (shard === 1) points.set(1, pointOf(1, 1))
  t.strictSame(kinds(judged()), ['in two shards 1 -1'])
})

t.test('replicas that differ are found also where each value alone is allowed', async (t) => {
  const { ledger, judged, replicas } = scene()
  ledger.begin({ collection: 'docs', id: 1 }, 3)
  t.strictSame(judged(), [])
  replicas[0]?.points.set(1, pointOf(1, 3))
  const now = ledger.now()
  const found = compare({ ledger, collection: 'docs', from: now, to: now }, replicas)
  t.strictSame(kinds(found), ['replicas differ 1 0'])
})

t.test('the order of keys in a payload is no difference', async (t) => {
  const { judged, replicas } = scene()
  const { id, vector, payload } = pointOf(1, 1)
  const turned = Object.fromEntries(Object.entries(payload as object).toReversed())
  replicas[0]?.points.set(1, { id, vector, payload: turned })
  t.strictSame(judged(), [])
})

t.test('a finding names point, key, shard, node and both values', async (t) => {
  const { judged, replicas } = scene()
  replicas[1]?.points.delete(1)
  t.strictSame(judged().map(textOf), [
    'lost: point 1 (shard 0, node 1): found nothing, allowed is version 1',
    'replicas differ: point 1 (shard 0, node 0): node 0 has version 1, node 1 has nothing',
  ])
})

t.test(
  'at rest, replicas may differ in a point whose last write was not acknowledged',
  async (t) => {
    const { ledger, replicas } = scene()
    replicas[1]?.points.set(1, pointOf(1, 9))
    const known = compareAtRest(ledger, 'docs', replicas)
    t.strictSame(kinds(known.found), ['replicas differ 1 0', 'wrong version 1 1'])
    t.equal(known.uncertain, 0)
    t.strictSame(summaryOf('docs', known.found).slice(0, 2), [
      'docs: 2 findings',
      `  ${known.found.map(textOf)[0]}`,
    ])

    ledger.begin({ collection: 'docs', id: 1 }, 9)
    t.strictSame(compareAtRest(ledger, 'docs', replicas), { found: [], uncertain: 1 })
    t.strictSame(summaryOf('docs', []), [])
  },
)
