/** When a node is released for its update, and the message while it is not. */
import t from 'tap'
import { differenceDefect } from '../../../../jobs/cluster/shards/defects.ts'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import { planAll } from '../../../../jobs/cluster/shards/simulate.ts'
import type { Plan } from '../../../../jobs/cluster/shards/step.ts'
import { closedGate } from '../../../../jobs/cluster/shards/update.ts'
import type {
  ClusterView,
  CountedReplica,
  DesiredShards,
  UpdateView,
} from '../../../../jobs/cluster/shards/view.ts'
import { DESIRED, THREE_NODES, viewOf, type Model } from './model.ts'

const ALL = { outdated: [0, 1, 2], runs: ['a', 'b', 'c'] }
const UPDATE: UpdateView = { generation: 4, partition: 3, unready: [], ...ALL }
const LAST_NODE: UpdateView = { ...UPDATE, partition: 2, outdated: [0, 1] }
const WAY_OUT = 'accept the risk with the annotation vec-operator.dev/accept-risk: last-copy'

interface Case {
  title: string
  model?: Partial<Model>
  view?: Partial<ClusterView>
  update?: Partial<UpdateView>
  desired?: Partial<DesiredShards>
  plan: Plan
}

const release = (ordinal: number): Plan => ({
  ...{ is: 'step', purpose: 'update', bytes: 0 },
  step: { do: 'updateNode', ordinal },
})
const waiting = (message: string): Plan => ({ is: 'waiting', purpose: 'update', message })
const refused = (reason: string, message: string): Plan => ({ is: 'refused', reason, message })

const down = (ordinal: number): Partial<Model> => ({
  peers: { ...THREE_NODES.peers, [ordinal + 1]: { ordinal, isUp: false } },
})

const STALLED = {
  ...{ collection: 'docs', shard: 0, from: 1, to: 3 },
  stalledSince: '2026-01-01T00:00:00Z',
}
const STALLED_TEXT =
  'docs/0 is copied from node 0 to node 2 without progress since 2026-01-01T00:00:00Z, and no Job of the operator has started that. To abort it: POST /collections/docs/cluster with {"abort_transfer":{"shard_id":0,"from_peer_id":1,"to_peer_id":3}}'

const CASES: Case[] = [
  { title: 'the highest node is released first', plan: release(2) },
  {
    title: 'a released node is waited for',
    update: { partition: 2 },
    plan: waiting('node 2 is being updated'),
  },
  {
    title: 'an updated node is waited for until it is ready',
    update: { ...LAST_NODE, unready: [2] },
    plan: waiting('node 2 is not ready yet'),
  },
  {
    title: 'an updated node is waited for until it answers',
    model: down(2),
    update: LAST_NODE,
    desired: { defectSeconds: () => 0 },
    plan: waiting('node 2 does not answer yet'),
  },
  {
    title: 'an updated node is waited for until its replicas are Active',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } } },
    update: LAST_NODE,
    desired: { defectSeconds: () => 0, repair: false },
    plan: waiting('docs/0 on node 2 is Dead'),
  },
  { title: 'then the next lower node is released', update: LAST_NODE, plan: release(1) },
  {
    title: 'after ten minutes a replica that stays Dead does not hold a node without the shard',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } } },
    update: LAST_NODE,
    desired: { repair: false },
    plan: release(1),
  },
  {
    title: 'the last node is waited for',
    update: { partition: 0, outdated: [], unready: [0] },
    plan: waiting('node 0 is not ready yet'),
  },
  {
    title: 'an update is complete once all nodes have it',
    update: { partition: 0, outdated: [] },
    plan: { is: 'done' },
  },
  {
    title: 'missing replicas are repaired first',
    model: { shards: { 'docs/0': { 3: 'Active' } } },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 100 },
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 3, to: 1 },
    },
  },
  {
    title: 'the last Active replica of a shard is not taken down',
    model: { shards: { 'docs/2': { 1: 'Dead', 3: 'Active' } } },
    desired: { repair: false },
    plan: refused(
      'LastCopy',
      `docs/2 is Active only on node 2, which is updated next: repair the other replicas, or ${WAY_OUT}`,
    ),
  },
  {
    title: 'all such shards are named',
    model: { shards: { 'docs/0': { 3: 'Active' }, 'docs/1': { 2: 'Unreadable', 3: 'Active' } } },
    desired: { repair: false },
    plan: refused(
      'LastCopy',
      `docs/0, docs/1 are Active only on node 2, which is updated next: repair the other replicas, or ${WAY_OUT}`,
    ),
  },
  {
    title: 'the replica on the node itself need not be Active',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } } },
    desired: { repair: false },
    plan: release(2),
  },
  {
    title: 'a user accepts that a last replica is taken down',
    model: { shards: { 'docs/2': { 1: 'Dead', 3: 'Active' } } },
    desired: { repair: false, update: { singleCopies: 'Restart', allowsLastCopy: true } },
    plan: release(2),
  },
  {
    title: 'one node at a time, whatever a user accepts',
    update: { ...LAST_NODE, unready: [2] },
    desired: { update: { singleCopies: 'Restart', allowsLastCopy: true } },
    plan: waiting('node 2 is not ready yet'),
  },
  {
    title: 'single replicas restart by default',
    model: { factor: 1, shards: { 'docs/0': { 3: 'Active' } } },
    plan: release(2),
  },
  {
    title: 'single replicas do not restart if the spec refuses it',
    model: { factor: 1, shards: { 'docs/0': { 3: 'Active' }, 'users/0': { 3: 'Active' } } },
    desired: { update: { singleCopies: 'Refuse', allowsLastCopy: false } },
    plan: refused(
      'SingleCopies',
      `"docs", "users" have single replicas on node 2, which is updated next: raise the replication factor, set spec.update.singleCopies: Restart, or ${WAY_OUT}`,
    ),
  },
  {
    title: 'another node that does not answer is waited for',
    model: down(0),
    update: { unready: [0] },
    desired: { defectSeconds: () => 599, repair: false },
    plan: waiting('node 0 does not answer'),
  },
  {
    title: 'another node that is not ready is waited for',
    update: { unready: [0] },
    desired: { defectSeconds: () => 599 },
    plan: waiting('node 0 is not ready'),
  },
  {
    title: 'a user is asked about a node that stays away',
    model: down(0),
    update: { unready: [0] },
    desired: { repair: false },
    plan: refused(
      'NodeMissing',
      `node 0 does not answer; node 2 is updated while all others are ready: repair that node, or ${WAY_OUT}`,
    ),
  },
  {
    title: 'a node that is down is updated whatever the others do',
    model: down(2),
    update: { unready: [0, 2] },
    plan: release(2),
  },
  {
    title: 'a node that is ready and does not answer is waited for',
    model: down(2),
    desired: { repair: false },
    plan: waiting('node 2 does not answer'),
  },
  {
    title: 'a node that is down is updated while no majority answers',
    view: {
      peers: [],
      broken: { reason: 'EngineNotReady', message: 'none of the 3 nodes answers' },
    },
    update: { unready: [0, 1, 2] },
    plan: release(2),
  },
  {
    title: 'no node is updated while the pods form two clusters',
    view: { peers: [], broken: { reason: 'SplitBrain', message: 'two clusters' } },
    update: { unready: [2] },
    plan: refused('SplitBrain', 'two clusters'),
  },
  {
    title: 'no node is updated while the nodes disagree',
    view: { unsettled: 'nodes 0 and 1 have not applied the same changes' },
    plan: {
      ...{ is: 'waiting', purpose: 'agreement' },
      message: 'nodes 0 and 1 have not applied the same changes',
    },
  },
  {
    title: 'no node is updated during a transfer',
    view: { transfers: [{ collection: 'docs', shard: 0, from: 1, to: 2 }] },
    plan: {
      ...{ is: 'waiting', purpose: 'transfer' },
      message: 'docs/0 is copied from node 0 to node 1',
    },
  },
  {
    title: 'a transfer without progress that no Job aborts is named',
    view: { transfers: [STALLED] },
    plan: refused('TransferStalled', STALLED_TEXT),
  },
  {
    title: 'also one to a node that is updated',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'InTransfer' } } },
    view: { transfers: [STALLED] },
    update: LAST_NODE,
    desired: { defectSeconds: () => 0 },
    plan: refused('TransferStalled', STALLED_TEXT),
  },
  {
    title: 'and one to the last node',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'InTransfer' } } },
    view: { transfers: [STALLED] },
    update: { partition: 0, outdated: [] },
    desired: { defectSeconds: () => 0 },
    plan: refused('TransferStalled', STALLED_TEXT),
  },
  {
    title: 'an update continues during such a transfer if a user accepts that',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'InTransfer' } } },
    view: { transfers: [STALLED] },
    update: LAST_NODE,
    desired: {
      defectSeconds: () => 0,
      update: { singleCopies: 'Restart', allowsLastCopy: true },
    },
    plan: release(1),
  },
]

for (const { title, model, view, update, desired, plan } of CASES) {
  t.test(title, (t) => {
    const observed = {
      ...viewOf({ ...THREE_NODES, ...model }),
      ...view,
      update: { ...UPDATE, ...update },
    }
    const target = {
      ...DESIRED,
      update: { singleCopies: 'Restart', allowsLastCopy: false } as const,
      ...desired,
    }
    t.strictSame(planShards(observed, target as DesiredShards), plan)
    t.end()
  })
}

const UPDATING: DesiredShards = {
  ...DESIRED,
  update: { singleCopies: 'Restart', allowsLastCopy: false },
}

t.test('peers without a pod count: without a majority of all no node is updated', (t) => {
  const peers = { ...THREE_NODES.peers, 4: { ordinal: 7, isUp: false } }
  const view = viewOf({ ...THREE_NODES, peers, shards: { 'docs/0': { 4: 'Active' } } })
  const plan = planShards({ ...view, update: UPDATE }, { ...UPDATING, repair: false })
  t.strictSame(
    plan,
    refused(
      'NoQuorum',
      `without node 2, 2 of 4 peers answer, which is no majority: remove the peers without a pod, or ${WAY_OUT}`,
    ),
  )
  t.end()
})

t.test('two nodes are updated although no majority remains', (t) => {
  const view = viewOf({
    ...THREE_NODES,
    pods: 2,
    peers: { 1: { ordinal: 0, isUp: true }, 2: { ordinal: 1, isUp: true } },
    shards: { 'docs/0': { 1: 'Active', 2: 'Active' } },
  })
  const update = { ...UPDATE, partition: 2, outdated: [0, 1] }
  t.strictSame(planShards({ ...view, update }, { ...UPDATING, nodes: 2 }), release(1))
  t.end()
})

t.test('the replica that remains must have as many points', (t) => {
  const view = differing([
    { ordinal: 1, points: 9 },
    { ordinal: 2, points: 10 },
  ])
  const message =
    'the replicas of docs/1 have different numbers of points: 9 on node 1, 10 on node 2'
  const plan = (seconds: number, update: UpdateView = UPDATE) =>
    planShards(
      { ...view, update },
      {
        ...UPDATING,
        defectSeconds: (defect) => (defect === differenceDefect('docs', 1) ? seconds : 0),
      },
    )
  t.strictSame(plan(299), { ...waiting(message), differs: 'docs/1' })
  const reason = refused(
    'ReplicasDiffer',
    `${message}, and node 2 is updated next: if clients add or delete points all the time, pause them for a minute; otherwise drop the replica with missing points, which is created again, or ${WAY_OUT}`,
  )
  t.strictSame(plan(300), { ...reason, differs: 'docs/1' })
  // Node 0 has no replica of it.
  t.strictSame(plan(300, { ...UPDATE, partition: 1, outdated: [0] }), release(0))
  const accepted = {
    ...UPDATING,
    update: { singleCopies: 'Restart', allowsLastCopy: true } as const,
  }
  t.strictSame(planShards({ ...view, update: UPDATE }, accepted), release(2))
  t.end()
})

t.test('a replica whose points are not counted is not called different', (t) => {
  const view = { ...differing([{ ordinal: 1 }, { ordinal: 2, points: 10 }]), update: UPDATE }
  const message = 'the points of docs/1 are not counted: no answer from node 1'
  t.strictSame(planShards(view, { ...UPDATING, defectSeconds: () => 0 }), {
    ...waiting(message),
    differs: 'docs/1',
  })
  const reason = refused(
    'ReplicasNotCounted',
    `${message}, and node 2 is updated next: look at the log and the load of that node, or ${WAY_OUT}`,
  )
  t.strictSame(planShards(view, UPDATING), { ...reason, differs: 'docs/1' })
  t.strictSame(closedGate(view, UPDATING), {
    ...{ reason: 'ReplicasNotCounted', differs: 'docs/1' },
    message: 'message' in reason ? reason.message : '',
  })
  t.end()
})

/** Of docs/1. */
function differing(difference: readonly CountedReplica[]): ClusterView {
  const view = viewOf(THREE_NODES)
  const collections = view.collections.map((collection) => ({
    ...collection,
    shards: collection.shards.map((shard) => (shard.id === 1 ? { ...shard, difference } : shard)),
  }))
  return { ...view, collections }
}

t.test('nothing is released for work of another kind', (t) => {
  t.strictSame(planShards({ ...viewOf(THREE_NODES), update: UPDATE }, DESIRED), { is: 'done' })
  t.end()
})

t.test('a whole plan updates the nodes from the highest down', (t) => {
  const { steps, end } = planAll({ ...viewOf(THREE_NODES), update: UPDATE }, UPDATING)
  t.strictSame(
    steps.map(({ step }) => step),
    [2, 1, 0].map((ordinal) => ({ do: 'updateNode', ordinal })),
  )
  t.strictSame(end, { is: 'done' })
  t.end()
})

t.test('a whole plan repairs, and then updates', (t) => {
  const shards: Model['shards'] = { 'docs/0': { 1: 'Dead', 3: 'Active' } }
  const { steps, end } = planAll(
    { ...viewOf({ ...THREE_NODES, shards }), update: UPDATE },
    UPDATING,
  )
  t.strictSame(
    steps.map(({ step }) => step.do),
    ['repair', 'updateNode', 'updateNode', 'updateNode'],
  )
  t.strictSame(end, { is: 'done' })
  t.end()
})

t.test('a gate is closed while the repair that opens it is waited for', (t) => {
  const shards: Model['shards'] = { 'docs/0': { 1: 'Dead', 3: 'Active' } }
  const view = { ...viewOf({ ...THREE_NODES, shards }), update: UPDATE }
  const desired = { ...UPDATING, defectSeconds: () => 0 }
  t.match(planShards(view, desired), { is: 'waiting', purpose: 'repair' })
  t.match(closedGate(view, desired), { reason: 'LastCopy', message: /^docs\/0 is Active only on/ })
  t.equal(closedGate({ ...view, unsettled: 'they differ' }, desired), undefined)
  t.equal(closedGate({ ...viewOf(THREE_NODES), update: UPDATE }, desired), undefined)
  t.end()
})
