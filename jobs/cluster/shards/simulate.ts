/** What a view becomes after a step, to show a whole plan and to estimate what is left of it. */
import type { ShardPurpose, ReshardingRecord } from '../../../crds/contract/shards-job.ts'
import { planShards } from './plan.ts'
import { isReshardingStep, type Plan, type Step, type ReshardingStep } from './step.ts'
import type {
  ClusterView,
  DesiredShards,
  Move,
  ReplicaView,
  UpdateView,
  CollectionView,
  ShardView,
} from './view.ts'
import { recordAfterStep, streamedKey } from './resharding.ts'

export interface PlannedStep {
  step: Step
  purpose: ShardPurpose
  /** Bytes that the step copies. */
  bytes: number
}

export interface WholePlan {
  steps: PlannedStep[]
  /** How it ends: `waiting` or `refused` if a step has to wait for something, or cannot be planned. */
  end: Exclude<Plan, { is: 'step' }>
}

const MAX_STEPS = 10_000

/** All steps, or the first of them, if each of them succeeds and nothing else changes. */
export function planAll(
  view: ClusterView,
  desired: DesiredShards,
  maxSteps = MAX_STEPS,
): WholePlan {
  const steps: PlannedStep[] = []
  let [currentView, currentDesired] = [view, desired]
  while (steps.length < maxSteps) {
    const plan = planShards(currentView, currentDesired)
    if (plan.is !== 'step') return { steps, end: plan }
    const { step, purpose, bytes } = plan
    steps.push({ step, purpose, bytes })
    currentView = viewAfter(currentView, step)
    currentDesired = desiredAfter(currentDesired, step)
  }
  return { steps, end: { is: 'waiting', purpose: 'transfer', message: 'more steps follow' } }
}

/** The view once the step is complete. */
export function viewAfter(view: ClusterView, step: Step): ClusterView {
  if (isReshardingStep(step)) return afterResharding(view, step)
  switch (step.do) {
    case 'replicate':
      return withReplicas(view, step, (replicas) => [
        ...replicas,
        { peer: step.to, state: 'Active' },
      ])
    case 'repair':
      return withReplicas(view, step, (replicas) =>
        replicas.map((replica) =>
          replica.peer === step.to ? { ...replica, state: 'Active' } : replica,
        ),
      )
    case 'drop':
      return withReplicas(view, step, (replicas) =>
        replicas.filter(({ peer }) => peer !== step.peer),
      )
    case 'removePeer':
      return {
        ...view,
        peers: view.peers.filter(({ id }) => id !== step.peer),
        ...(step.isUnlisted === true && { collections: withoutPeer(view.collections, step.peer) }),
      }
    case 'scaleDown':
      return { ...view, nodes: step.nodes }
    case 'updateNode':
      return { ...view, ...(view.update && { update: updateAfter(view.update, step.ordinal) }) }
  }
}

function withoutPeer(collections: readonly CollectionView[], peer: number): CollectionView[] {
  return collections.map((collection) => ({
    ...collection,
    shards: collection.shards.map((shard) => ({
      ...shard,
      replicas: shard.replicas.filter((replica) => replica.peer !== peer),
    })),
  }))
}

function updateAfter(update: UpdateView, ordinal: number): UpdateView {
  const isOther = (one: number) => one !== ordinal
  return {
    ...update,
    partition: ordinal,
    outdated: update.outdated.filter(isOther),
    unready: update.unready.filter(isOther),
  }
}

/** A move has ended once a replica of its shard is dropped. */
export function desiredAfter(desired: DesiredShards, step: Step): DesiredShards {
  if (step.do === 'replicate' && step.move !== undefined) {
    return { ...desired, moves: [...desired.moves, step.move] }
  }
  if (step.do !== 'drop') return { ...desired, ...recordAfter(desired, step) }
  const isOther = (move: Move) => move.collection !== step.collection || move.shard !== step.shard
  return { ...desired, moves: desired.moves.filter(isOther) }
}

function withReplicas(
  view: ClusterView,
  { collection, shard }: { collection: string; shard: number },
  change: (replicas: ReplicaView[]) => ReplicaView[],
): ClusterView {
  const collections = view.collections.map((entry) =>
    entry.name === collection
      ? {
          ...entry,
          shards: entry.shards.map((candidate) =>
            candidate.id === shard
              ? { ...candidate, replicas: change(candidate.replicas) }
              : candidate,
          ),
        }
      : entry,
  )
  return { ...view, collections }
}

/** The view once the transfers that are in progress have succeeded. */
export function afterTransfers(view: ClusterView): ClusterView {
  const collections = view.collections.map((collection) => ({
    ...collection,
    shards: collection.shards.map((shard) => ({
      ...shard,
      replicas: shard.replicas.map((replica) =>
        replica.state === 'InTransfer' ? { ...replica, state: 'Active' as const } : replica,
      ),
    })),
  }))
  const { unsettled: _, ...rest } = view
  return { ...rest, collections, transfers: [] }
}

export function afterResharding(view: ClusterView, step: ReshardingStep): ClusterView {
  const collections = view.collections.map((collection) =>
    collection.name === step.collection ? collectionAfter(collection, step) : collection,
  )
  return { ...view, collections }
}

function collectionAfter(collection: CollectionView, step: ReshardingStep): CollectionView {
  const { resharding, ...idle } = collection
  const { shards } = collection
  switch (step.do) {
    case 'startResharding': {
      const { direction, shard, peer } = step
      const started = { uuid: SIMULATED, direction, shard, peer }
      if (direction === 'down') return { ...collection, resharding: started }
      const replicas: ReplicaView[] = [{ peer, state: 'Resharding' }]
      const bytes = Math.ceil(bytesOf(shards) / (shards.length + 1))
      return {
        ...collection,
        resharding: started,
        shards: [...shards, { id: shard, bytes, replicas }],
      }
    }
    case 'streamPoints':
      return withReplica(collection, { shard: step.toShard, peer: step.to, state: 'Resharding' })
    case 'finishMigration':
      return withReplica(collection, { ...step, state: 'Active' })
    case 'finishResharding':
      return resharding?.direction === 'down'
        ? { ...idle, shards: shards.filter(({ id }) => id !== resharding.shard) }
        : idle
    case 'abortResharding':
      return resharding?.direction === 'up'
        ? { ...idle, shards: shards.filter(({ id }) => id !== resharding.shard) }
        : { ...idle, shards: shards.map(activated) }
    case 'commitRead':
    case 'cleanReplica':
    case 'commitWrite':
    case 'checkReplica':
      return collection
  }
}

/** Not the id of a resharding in progress: its record has the same. */
const SIMULATED = 'simulated'

export function recordAfter(
  { resharding }: DesiredShards,
  step: Step,
): Pick<DesiredShards, 'resharding'> {
  if (resharding === undefined) return {}
  const { current, ...rest } = resharding
  const record = nextRecord(current, step)
  return { resharding: { ...rest, ...(record !== undefined && { current: record }) } }
}

function nextRecord(
  current: ReshardingRecord | undefined,
  step: Step,
): ReshardingRecord | undefined {
  if (step.do === 'startResharding') {
    const { collection, direction, shard, peer } = step
    return { collection, uuid: SIMULATED, direction, shard, peer, stage: 'migrate', done: [] }
  }
  if (current === undefined) return undefined
  if (step.do === 'streamPoints') {
    return { ...current, done: [...current.done, streamedKey(current, step)] }
  }
  return recordAfterStep(current, step)
}

function withReplica(
  collection: CollectionView,
  { shard, peer, state }: { shard: number; peer: number; state: ReplicaView['state'] },
): CollectionView {
  const shards = collection.shards.map((one) =>
    one.id === shard
      ? {
          ...one,
          replicas: one.replicas.map((replica) =>
            replica.peer === peer ? { peer, state } : replica,
          ),
        }
      : one,
  )
  return { ...collection, shards }
}

function activated(shard: ShardView): ShardView {
  const replicas = shard.replicas.map(({ peer, state }) => ({
    ...{ peer, state: state === 'Resharding' ? ('Active' as const) : state },
  }))
  return { ...shard, replicas }
}

function bytesOf(shards: readonly ShardView[]): number {
  return shards.reduce((sum, { bytes }) => sum + bytes, 0)
}
