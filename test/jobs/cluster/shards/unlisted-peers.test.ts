/** Replicas on peers that no node lists: a collection was created while a node was removed. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import { planAll } from '../../../../jobs/cluster/shards/simulate.ts'
import type { ReplicaView } from '../../../../jobs/cluster/shards/view.ts'
import { matchWhole } from '../../../match-whole.ts'
import { DESIRED, THREE_NODES, viewOf } from './model.ts'
import { shardsWorld, startedSteps } from './shards-world.ts'

const GONE = 999

function viewWith(...shards: ReplicaView[][]) {
  const collections = [
    {
      ...{ name: 'docs', factor: 2 },
      shards: shards.map((replicas, id) => ({ id, bytes: 100, replicas })),
    },
  ]
  return { ...viewOf(THREE_NODES), collections }
}

t.test('they are removed, and then created on another node', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  for (const id of [0, 2]) {
    const shard = world.shard(id)
    shard.peers = [shard.peers[0] ?? 0, GONE]
    shard.states = { [GONE]: 'Dead' }
  }
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  const [first, ...others] = startedSteps(log)
  t.equal(first, 'removing the replicas of peer 999, which no node lists, from the cluster')
  matchWhole(t, others, [/^docs\/[02]: replicating /, /^docs\/[02]: replicating /])
  const { shards, peers } = await world.state()
  for (const replicas of Object.values(shards)) {
    matchWhole(t, replicas, [/^[012] Active$/, /^[012] Active$/])
  }
  t.strictSame(peers, [0, 1, 2])
})

t.test('a single node is done only once they are removed', async (t) => {
  const world = await shardsWorld(t, { nodes: 1, shards: 1 })
  const shard = world.shard(0)
  shard.peers = [...shard.peers, GONE]
  shard.states = { [GONE]: 'Dead' }
  const { code, log } = await world.run({ repair: false })
  t.equal(code, EXIT.done, log)
  t.strictSame((await world.state()).shards, { 0: ['0 Active'] })
})

t.test('a shard without an Active replica keeps the peer, and so does a copy', (t) => {
  const gone = { peer: GONE, state: 'Dead' as const }
  const isRemoved = (view: ReturnType<typeof viewWith>) =>
    planAll(view, DESIRED).steps.some(({ step }) => step.do === 'removePeer')
  t.equal(isRemoved(viewWith([{ peer: 1, state: 'Active' }, gone])), true)
  t.equal(isRemoved(viewWith([{ peer: 1, state: 'Active' }, gone], [gone])), false)
  t.equal(isRemoved(viewWith([{ peer: 1, state: 'Dead' }, gone])), false)
  const copied = viewWith([{ peer: 1, state: 'Active' }, gone])
  const transfers = [{ collection: 'docs', shard: 0, from: 1, to: GONE }]
  t.equal(isRemoved({ ...copied, transfers }), false)
  t.end()
})

t.test('nothing is removed while the nodes do not agree', (t) => {
  const view = viewWith([
    { peer: 1, state: 'Active' },
    { peer: GONE, state: 'Dead' },
  ])
  t.equal(planShards({ ...view, unsettled: 'nodes 0 and 1 disagree' }, DESIRED).is, 'waiting')
  t.end()
})
