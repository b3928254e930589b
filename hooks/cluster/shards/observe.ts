/** Asks the nodes of a VecCluster for their shards, as a background task. */
import { clusterConnection } from '../../../crds/contract/connection.ts'
import { MAX_SHARDS_CHECK_SECONDS, SHARDS_CHECK_SECONDS } from '../../../crds/contract/limits.ts'
import type { BackgroundTasks } from '../../background-task.ts'
import { secondsSinceRecorded } from '../../conditions.ts'
import { namespaceCheck } from '../../cross-namespace.ts'
import { isUnfinished } from '../../request.ts'
import type { Context } from '../../protocol.ts'
import { isReshardingOn } from '../validation.ts'
import { lastFailure } from '../helm-result.ts'
import type { Observed } from '../ports.ts'
import { canQueryPods, isUpdateGated } from '../rollout.ts'
import { isCurrent, shardTargets } from './next-step.ts'
import { volumeBytesOf } from './job.ts'
import type { ShardPorts, ShardsQuery, ShardsSummary } from './summary.ts'
import { dataClaimTemplate } from '../volumes.ts'

/**
 * No Job is unfinished, and pods answer. A helm run that fails because a pod is not ready must not
 * hide why it is not.
 */
export function canQueryShards(observed: Observed, context: Context): boolean {
  const { cluster, jobs, statefulSet, progress } = observed
  if (!cluster.spec.cluster.enabled || progress?.applied === undefined) return false
  if (jobs.some(isUnfinished)) return false
  if (canQueryPods(observed) || isUpdateGated(observed)) return true
  const hasReadyPod = (statefulSet?.status?.readyReplicas ?? 0) > 0
  return hasReadyPod && lastFailure(observed, context) !== undefined
}

/** The newest summary, and what is known about the query in progress. */
export async function observeShards(
  observed: Observed,
  { ports, tasks }: { ports: Pick<ShardPorts, 'shards'>; tasks: BackgroundTasks<ShardsSummary> },
  context: Context,
): Promise<Pick<Observed, 'shards' | 'shardsFailure' | 'shardsResyncSeconds'>> {
  const { uid } = observed.cluster.metadata
  const query = queryOf(observed, context)
  const isLatestCurrent = (latest: ShardsSummary | undefined) =>
    latest === undefined || isCurrent(latest, query.targets(latest))
  const previous = tasks.latest(uid)
  // The spec asks for something else now: plans for the former spec are worth nothing.
  if (!isLatestCurrent(previous)) await tasks.abort(uid)
  const isDue = previous === undefined || !isLatestCurrent(previous) || isOld(previous, context.now)
  const answer = await tasks.run(uid, context.now, (signal) => ports.shards(query, signal), {
    isDue,
  })
  return {
    ...(answer.value !== undefined && { shards: answer.value }),
    ...(answer.failure !== undefined && { shardsFailure: answer.failure }),
    ...(answer.requeueAfterSeconds !== undefined && {
      shardsResyncSeconds: answer.requeueAfterSeconds,
    }),
  }
}

/** A cluster with many collections is asked less often: each of them costs every node several calls. */
function isOld({ at, collections }: ShardsSummary, now: Date): boolean {
  const seconds = Math.min(Math.max(collections, SHARDS_CHECK_SECONDS), MAX_SHARDS_CHECK_SECONDS)
  return secondsSinceRecorded(at, now) >= seconds
}

function queryOf(observed: Observed, context: Context): ShardsQuery {
  const { cluster, statefulSet, progress } = observed
  const volumeBytes = volumeBytesOf(cluster, statefulSet)
  return {
    connection: { ...clusterConnection(cluster), replicas: statefulSet?.spec.replicas ?? 1 },
    claimTemplate: dataClaimTemplate(statefulSet),
    ...(volumeBytes !== undefined && { volumeBytes }),
    recorded: cluster.status?.nodes ?? [],
    moves: progress?.shards?.moves ?? [],
    transfers: progress?.shards?.transfers ?? [],
    uid: cluster.metadata.uid,
    ...(progress?.shards?.resharding !== undefined && {
      resharding: progress.shards.resharding,
    }),
    ...(isReshardingOn(cluster.spec) && {
      mayReshard: namespaceCheck(cluster, context.settings),
    }),
    ...(statefulSet !== undefined && { statefulSet }),
    targets: (facts) => shardTargets(observed, facts),
  }
}
