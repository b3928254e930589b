/** Properties of the plans for generated clusters, whatever their state is. */
import fc from 'fast-check'
import t from 'tap'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import { desiredAfter, planAll, viewAfter } from '../../../../jobs/cluster/shards/simulate.ts'
import type { Step } from '../../../../jobs/cluster/shards/step.ts'
import type {
  ClusterView,
  DesiredShards,
  ReplicaState,
  ShardView,
} from '../../../../jobs/cluster/shards/view.ts'

const DEFECTIVE = ['Dead', 'Incomplete', 'Unreadable', 'Disputed'] as const
const STATES: ReplicaState[] = ['Active', 'Active', 'Active', ...DEFECTIVE]

const replicaState = fc.constantFrom(...STATES)

function shard(peers: number, states: fc.Arbitrary<ReplicaState>): fc.Arbitrary<ShardView> {
  return fc.record({
    id: fc.integer({ min: 0, max: 1000 }),
    bytes: fc.integer({ min: 1, max: 1000 }),
    replicas: fc.uniqueArray(
      fc.record({ peer: fc.integer({ min: 1, max: peers }), state: states }),
      {
        selector: ({ peer }) => peer,
        minLength: 1,
        maxLength: 3,
      },
    ),
  })
}

function clusterView(states: fc.Arbitrary<ReplicaState>, isMember: fc.Arbitrary<boolean>) {
  return fc.integer({ min: 1, max: 6 }).chain((nodes) =>
    fc.record<ClusterView>({
      nodes: fc.constant(nodes),
      peers: fc.tuple(
        ...Array.from({ length: nodes }, (_, ordinal) =>
          fc.record({
            id: fc.constant(ordinal + 1),
            ordinal: fc.constant(ordinal),
            isMember,
            zone: fc.constantFrom('a', 'b', 'c'),
          }),
        ),
      ),
      collections: fc.uniqueArray(
        fc.record({
          name: fc.constantFrom('docs', 'pictures', 'users'),
          factor: fc.integer({ min: 1, max: 3 }),
          shards: fc.uniqueArray(shard(nodes, states), {
            selector: ({ id }) => id,
            maxLength: 6,
          }),
        }),
        { selector: ({ name }) => name, maxLength: 3 },
      ),
      transfers: fc.constant([]),
    }),
  )
}

const desiredShards: fc.Arbitrary<DesiredShards> = fc.record({
  nodes: fc.integer({ min: 1, max: 6 }),
  repair: fc.boolean(),
  allowsFewerReplicas: fc.boolean(),
  balance: fc.boolean(),
  lost: fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 2 }),
  maxTransfers: fc.integer({ min: 1, max: 3 }),
  moves: fc.constant([]),
  defectSeconds: fc.constantFrom(0, 60, 3600).map((seconds) => () => seconds),
})

const anyView = clusterView(replicaState, fc.boolean())
const healthyView = clusterView(fc.constant('Active'), fc.constant(true))

t.test('every plan ends', (t) => {
  fc.assert(
    fc.property(
      anyView,
      desiredShards,
      (view, desired) => planAll(view, desired).steps.length < 500,
    ),
    { numRuns: 3000 },
  )
  t.end()
})

everyStep(
  'no step leaves a shard with fewer Active replicas than it needs',
  (before, step, desired) => {
    if (step.do !== 'drop') return true
    const [had, left] = [before, viewAfter(before, step)].map((at) => activeReplicas(at, step))
    const factor = before.collections.find(({ name }) => name === step.collection)?.factor ?? 1
    const needed = Math.min(factor, desired.nodes, before.nodes)
    if (left === undefined || had === undefined) return false
    return left >= 1 && (left >= had || left >= needed)
  },
)

everyStep(
  'a replica is copied from an Active one on a node that answers, to a node that answers',
  (before, step) => {
    if (step.do !== 'replicate' && step.do !== 'repair') return true
    const replicas = replicasOf(before, step)
    const isMember = (peer: number) => before.peers.find(({ id }) => id === peer)?.isMember === true
    const source = replicas.find(({ peer }) => peer === step.from)
    const target = replicas.find(({ peer }) => peer === step.to)
    if (source?.state !== 'Active' || !isMember(step.from) || !isMember(step.to)) return false
    if (step.do === 'replicate') return target === undefined
    return target?.state === 'Dead' || target?.state === 'Incomplete'
  },
)

everyStep(
  'a peer is removed once it holds nothing, and a pod once its peer is removed',
  (before, step) => {
    if (step.do === 'removePeer') return heldBy(before, step.peer) === 0
    if (step.do !== 'scaleDown') return true
    return (
      step.nodes === before.nodes - 1 && !before.peers.some(({ ordinal }) => ordinal === step.nodes)
    )
  },
)

t.test('a healthy cluster becomes exactly as desired, unless nodes are too few', (t) => {
  fc.assert(
    fc.property(healthyView, desiredShards, (view, options) => {
      const desired = { ...options, repair: true, lost: [], defectSeconds: () => 3600 }
      const { end } = planAll(view, desired)
      const target = Math.min(desired.nodes, view.nodes)
      if (end.is === 'refused') {
        return (
          end.reason === 'NotEnoughNodes' &&
          !desired.allowsFewerReplicas &&
          view.collections.some(({ factor }) => Math.min(factor, view.nodes) > target)
        )
      }
      const last = finalView(view, desired)
      return (
        end.is === 'done' &&
        last.nodes === target &&
        last.peers.length === target &&
        last.collections.every(({ factor, shards }) =>
          shards.every(({ replicas }) => replicas.length >= Math.min(factor, target)),
        )
      )
    }),
    { numRuns: 3000 },
  )
  t.end()
})

t.test('after balancing, no single move makes two nodes more alike', (t) => {
  fc.assert(
    fc.property(healthyView, (generated) => {
      // Otherwise shards with too few replicas would stay where they are.
      const view = withFactor(generated, 1)
      const unzoned = {
        ...view,
        peers: view.peers.map(({ id, ordinal, isMember }) => ({
          id,
          ordinal: ordinal ?? 0,
          isMember,
        })),
      }
      const desired = balanceOnly(view)
      // A tenth of what a node holds is no imbalance that is worth a transfer.
      const all = shardsOf(unzoned).map(({ bytes, replicas }) => bytes * replicas.length)
      const minDifference = (0.1 * sum(all)) / unzoned.peers.length
      for (const { before, step } of stepsOf(unzoned, desired)) {
        if (step.do !== 'replicate') continue
        const moved = loadOf(before, step.from) - loadOf(before, step.to)
        if (moved <= minDifference) return false
      }
      const last = finalView(unzoned, desired)
      const load = (peer: number) => loadOf(last, peer)
      for (const { bytes, replicas } of shardsOf(last)) {
        for (const { id: from } of last.peers) {
          for (const { id: to } of last.peers) {
            if (!holds(replicas, from) || holds(replicas, to)) continue
            // 1.2: smaller differences are accepted, so that nothing is moved back and forth.
            if (load(from) - load(to) > Math.max(bytes * 1.2, minDifference)) return false
          }
        }
      }
      return true
    }),
    { numRuns: 1000 },
  )
  t.end()
})

t.test('a move never brings two replicas of a shard into one zone', (t) => {
  fc.assert(
    fc.property(healthyView, (view) => {
      const desired = balanceOnly(view)
      return sharedZones(finalView(view, desired)) <= sharedZones(view)
    }),
    { numRuns: 2000 },
  )
  t.end()
})

t.test('nothing is planned for a view that the nodes do not share', (t) => {
  fc.assert(
    fc.property(anyView, desiredShards, (view, desired) => {
      const unsettled = planShards({ ...view, unsettled: 'nodes 0 and 1 disagree' }, desired)
      const broken = { reason: 'SplitBrain', message: 'the pods form 2 clusters' }
      const split = planShards({ ...view, broken }, desired)
      return unsettled.is === 'waiting' && split.is === 'refused' && split.reason === 'SplitBrain'
    }),
  )
  t.end()
})

function balanceOnly({ nodes }: ClusterView): DesiredShards {
  return {
    ...{ nodes, repair: false, allowsFewerReplicas: false, balance: true },
    ...{ lost: [], maxTransfers: 1, moves: [], defectSeconds: () => 0 },
  }
}

/** Checks each step of the plans for any view and any desired state. */
function everyStep(
  title: string,
  holds: (before: ClusterView, step: Step, desired: DesiredShards) => boolean,
): void {
  t.test(title, (t) => {
    fc.assert(
      fc.property(anyView, desiredShards, (view, desired) =>
        [...stepsOf(view, desired)].every(({ before, step }) => holds(before, step, desired)),
      ),
      { numRuns: 3000 },
    )
    t.end()
  })
}

function withFactor(view: ClusterView, factor: number): ClusterView {
  return { ...view, collections: view.collections.map((entry) => ({ ...entry, factor })) }
}

function* stepsOf(view: ClusterView, desired: DesiredShards) {
  let [before, current] = [view, desired]
  for (let count = 0; count < 500; count += 1) {
    const plan = planShards(before, current)
    if (plan.is !== 'step') return
    yield { before, step: plan.step }
    current = desiredAfter(current, plan.step)
    before = viewAfter(before, plan.step)
  }
}

function finalView(view: ClusterView, desired: DesiredShards): ClusterView {
  let last = view
  for (const { before, step } of stepsOf(view, desired)) last = viewAfter(before, step)
  return last
}

function loadOf(view: ClusterView, peer: number): number {
  return sum(shardsOf(view).map(({ bytes, replicas }) => (holds(replicas, peer) ? bytes : 0)))
}

function shardsOf({ collections }: ClusterView): ShardView[] {
  return collections.flatMap(({ shards }) => shards)
}

function replicasOf(view: ClusterView, step: Extract<Step, { collection: string; shard: number }>) {
  const collection = view.collections.find(({ name }) => name === step.collection)
  return collection?.shards.find(({ id }) => id === step.shard)?.replicas ?? []
}

function activeReplicas(
  view: ClusterView,
  step: Extract<Step, { collection: string; shard: number }>,
): number {
  return replicasOf(view, step).filter(
    ({ peer, state }) =>
      state === 'Active' && view.peers.find(({ id }) => id === peer)?.isMember === true,
  ).length
}

function heldBy(view: ClusterView, peer: number): number {
  return shardsOf(view).filter(({ replicas }) => holds(replicas, peer)).length
}

function holds(replicas: ShardView['replicas'], peer: number): boolean {
  return replicas.some((replica) => replica.peer === peer)
}

/** Replicas that share a zone with another of the same shard. */
function sharedZones(view: ClusterView): number {
  return sum(
    shardsOf(view).map(({ replicas }) => {
      const zones = replicas.map(({ peer }) => view.peers.find(({ id }) => id === peer)?.zone)
      return zones.length - new Set(zones).size
    }),
  )
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
