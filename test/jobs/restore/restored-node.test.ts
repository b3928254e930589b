/** The node that an earlier attempt of a restore of lost shards has given a shard to. */
import t from 'tap'
import type { ClusterView, ReplicaView, ShardView } from '../../../jobs/cluster/shards/view.ts'
import type { Recovery } from '../../../jobs/restore/checkpoint.ts'
import { restoredNode } from '../../../jobs/restore/lost-shards-target.ts'

const SHARD = 4

/** Three nodes; node 2 does not answer. */
const view = {
  peers: [
    { id: 100, ordinal: 0, isMember: true },
    { id: 101, ordinal: 1, isMember: true },
    { id: 102, ordinal: 2, isMember: false },
  ],
} as unknown as ClusterView

interface Recorded {
  shardsDone?: number[]
  running?: Recovery[] | 'unknown'
}

function nodeOf(
  states: Record<number, ReplicaView['state']>,
  { shardsDone = [], running = [] }: Recorded = {},
): number | undefined {
  const replicas = Object.entries(states).map(([peer, state]) => ({ peer: Number(peer), state }))
  const shard: ShardView = { id: SHARD, bytes: 1, replicas }
  return restoredNode(view, shard, { shardsDone, running })
}

t.test(
  'a begun recovery has ended once its own node holds the shard, not only the first',
  async (t) => {
    const running = [{ shard: SHARD, node: 1 }]
    t.equal(nodeOf({ 101: 'Active' }, { running }), 1)
    t.equal(nodeOf({ 100: 'Active', 101: 'Active' }, { running }), 1)
    t.equal(nodeOf({ 101: 'Active', 100: 'Active' }, { running }), 1)
  },
)

t.test('an Active replica elsewhere is not the result of a begun recovery', async (t) => {
  const running = [{ shard: SHARD, node: 1 }]
  t.equal(nodeOf({ 100: 'Active' }, { running }), undefined)
  t.equal(nodeOf({ 100: 'Active', 101: 'Dead' }, { running }), undefined)
  t.equal(nodeOf({ 100: 'Active', 101: 'Active' }, { running: [{ shard: 3, node: 1 }] }), undefined)
  t.equal(nodeOf({ 100: 'Active' }, { running: 'unknown' }), undefined)
})

t.test('a shard that was recorded as done is on any node that answers and holds it', async (t) => {
  const shardsDone = [SHARD]
  t.equal(nodeOf({ 102: 'Active', 100: 'Active' }, { shardsDone }), 0)
  t.equal(nodeOf({ 100: 'Dead', 101: 'Active' }, { shardsDone }), 1)
  t.equal(nodeOf({ 102: 'Active' }, { shardsDone }), undefined)
  t.equal(nodeOf({ 100: 'Active' }, { shardsDone: [3] }), undefined)
})
