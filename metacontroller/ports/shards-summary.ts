/** What decisions about a VecCluster need of a view of its shards: counts, and the planner's answer to each target. */
import type {
  PlanOutcome,
  ShardFacts,
  ShardsQuery,
  ShardsSummary,
  ShardsTarget,
} from '../../hooks/cluster/shards/summary.ts'
import type { Defects } from '../../jobs/cluster/shards/defects.ts'
import { planShards } from '../../jobs/cluster/shards/plan.ts'
import { closedGate } from '../../jobs/cluster/shards/update.ts'
import {
  activeHolders,
  describeShard,
  requiredReplicas,
  shardsOf,
} from '../../jobs/cluster/shards/queries.ts'
import { copiedPoints, currentResharding, endOf } from '../../jobs/cluster/shards/resharding.ts'
import { reshardingOwner } from '../../jobs/cluster/shards/resharding-steps.ts'
import { isListed, withStalled } from '../../jobs/cluster/shards/transfers.ts'
import type { ClusterView, DesiredShards } from '../../jobs/cluster/shards/view.ts'

interface SummaryFacts extends Pick<ShardFacts, 'nodes' | 'shardNumbers'> {
  /** Those that were observed up to now. */
  defects: Defects
}

type Known = Pick<ShardsQuery, 'moves' | 'uid' | 'resharding'> &
  Pick<DesiredShards, 'defectSeconds'>

/** What decisions need of a view, with a plan for each target. */
export function summaryOf(
  query: Pick<ShardsQuery, 'moves' | 'transfers' | 'targets' | 'uid' | 'resharding'>,
  { nodes, shardNumbers, defects }: SummaryFacts,
  observed: ClusterView,
  now: Date,
): ShardsSummary {
  const { transfers = [] } = query
  const view = withStalled(observed, transfers, { defects, nowMs: now.getTime(), now })
  const isTransferLeft = view.unsettled === undefined && isListed(view, transfers)
  const peers = view.peers.map(({ id, ordinal, isMember }) => ({
    ...{ id, isMember },
    ...(ordinal !== undefined && { ordinal }),
  }))
  const numbers = shardNumbers !== undefined && { shardNumbers }
  const targets = query.targets({ nodes, peers, ...numbers })
  const known = {
    ...query,
    defectSeconds: (defect: string) => defects.secondsOf(defect, now.getTime()),
  }
  const plan = (target: ShardsTarget) => outcomeOf(view, target, known)
  const resharding = reportedResharding(view, desiredOf(targets.repair, known))
  const gate = targets.update && closedGate(view, desiredOf(targets.update, known))
  return {
    at: now.toISOString(),
    ...{ nodes, peers, targets, ...numbers },
    collections: view.collections.length,
    ...countReplicas(view),
    defects: defects.list(now.getTime()),
    ...(resharding !== undefined && { resharding }),
    ...endedResharding(view, query.resharding, resharding),
    ...(isTransferLeft && { isTransferLeft }),
    ...(view.broken !== undefined && { obstruction: view.broken }),
    plans: {
      repair: plan(targets.repair),
      ...(targets.drain && { drain: plan(targets.drain) }),
      ...(targets.update && { update: plan(targets.update) }),
      ...(targets.reshard && { reshard: plan(targets.reshard) }),
      ...(targets.balance && { balance: plan(targets.balance) }),
    },
    ...(gate !== undefined && { closedGate: gate }),
    onlyOn: shardsWithoutSource(view),
    backups: [],
  }
}

function reportedResharding(
  view: ClusterView,
  desired: DesiredShards,
): ShardsSummary['resharding'] {
  const record = currentResharding(view, desired)
  if (record === undefined) return undefined
  const { points: _, ...current } = record
  const points = copiedPoints(view, record)
  return { ...current, ...(points !== undefined && { points }) }
}

function endedResharding(
  view: ClusterView,
  last: ShardsQuery['resharding'],
  current: ShardsSummary['resharding'],
): Pick<ShardsSummary, 'endedResharding'> {
  const isKnown = view.unsettled === undefined && view.broken === undefined
  if (!isKnown || last === undefined || last.uuid === current?.uuid) return {}
  return { endedResharding: { uuid: last.uuid, stage: endOf(view, last) } }
}

function outcomeOf(view: ClusterView, target: ShardsTarget, known: Known): PlanOutcome {
  const plan = planShards(view, desiredOf(target, known))
  return plan.is === 'step' ? { is: 'step', purpose: plan.purpose } : plan
}

/** One that is in progress is always completed, or aborted. */
function desiredOf(
  { resharding, ...target }: ShardsTarget,
  { moves, uid, resharding: current, defectSeconds }: Known,
): DesiredShards {
  const { numbers = [], mayStart = false } = resharding ?? {}
  const owner = reshardingOwner(uid)
  return {
    ...target,
    moves,
    defectSeconds,
    resharding: { owner, numbers, mayStart, ...(current !== undefined && { current }) },
  }
}

function countReplicas(view: ClusterView): Pick<ShardsSummary, 'replicas' | 'activeReplicas'> {
  let replicas = 0
  let activeReplicas = 0
  for (const shard of shardsOf(view)) {
    const required = requiredReplicas(view, shard, view.nodes)
    replicas += required
    activeReplicas += Math.min(required, activeHolders(view, shard).length)
  }
  return { replicas, activeReplicas }
}

/** By silent peer: the shards of which no node that answers has an Active replica. */
function shardsWithoutSource(view: ClusterView): ShardsSummary['onlyOn'] {
  const found = new Map<number, string[]>()
  for (const shard of shardsOf(view)) {
    if (activeHolders(view, shard).length > 0) continue
    for (const { peer } of shard.replicas) {
      if (view.peers.some(({ id, isMember }) => id === peer && isMember)) continue
      found.set(peer, [...(found.get(peer) ?? []), describeShard(shard)])
    }
  }
  return [...found].map(([peer, shards]) => ({ peer, shards }))
}
