/** What a view becomes after a step, to show a whole plan and to estimate what is left of it. */
import type { ShardPurpose } from '../../../crds/contract/shards-job.ts'
import { planShards } from './plan.ts'
import { afterResharding, recordAfter } from './resharding-simulation.ts'
import { isReshardingStep, type Plan, type Step } from './step.ts'
import type { ClusterView, DesiredShards, Move, ReplicaView, UpdateView } from './view.ts'

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

/** All steps, if each of them succeeds and nothing else changes. */
export function planAll(view: ClusterView, desired: DesiredShards): WholePlan {
  const steps: PlannedStep[] = []
  let [currentView, currentDesired] = [view, desired]
  while (steps.length < MAX_STEPS) {
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
      return { ...view, peers: view.peers.filter(({ id }) => id !== step.peer) }
    case 'scaleDown':
      return { ...view, nodes: step.nodes }
    case 'updateNode':
      return { ...view, ...(view.update && { update: updateAfter(view.update, step.ordinal) }) }
  }
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
