/**
 * The desired status of a VecCollection, its Events and the next sync. It has no children. What the engine
 * answered, or did not, is the result of a reconcile (reconcile.ts), which outlasts a hook call.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import { RETRY_SECONDS } from '../../crds/contract/limits.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { getCondition, timestamp } from '../conditions.ts'
import {
  clusterAccessBlocker,
  isNamespaceWatched,
  namespaceNotWatched,
  hibernationBlocker,
} from '../cross-namespace.ts'
import { newEvent } from '../events.ts'
import type { Context, Desired } from '../protocol.ts'
import type { Observed } from './observe.ts'
import { clusterNameOf, collectionNameOf } from '../../crds/collection-ownership.ts'
import { finalResult, internalErrorResult, pendingResult, type ReconcileResult } from './result.ts'
import { collectionStatus } from './status.ts'

/** Length of the hour prefix of a timestamp: `2026-11-21T16`. */
const HOUR_PREFIX_LENGTH = 13

export function sync(observed: Observed, context: Context): Desired<CollectionStatus> {
  const { collection, cluster, result, failure, requeueAfterSeconds } = observed
  const { namespace, name } = clusterNameOf(collection)
  const respond = (answer: ReconcileResult, seconds: number) =>
    desiredState({ collection, cluster }, answer, seconds, context)
  const respondUnobserved = (answer: ReconcileResult, seconds = answer.requeueAfterSeconds) =>
    respond({ ...answer, isUnobserved: true }, seconds)
  const clusterLabel = `cluster ${namespace}/${name}`

  if (!isNamespaceWatched(context.settings, namespace)) {
    return respondUnobserved(pendingResult('ClusterNotServed', namespaceNotWatched(clusterLabel)))
  }
  if (cluster === undefined) {
    return respondUnobserved(pendingResult('ClusterNotFound', `${clusterLabel} not found`))
  }
  const forbidden = clusterAccessBlocker(cluster, collection.metadata.namespace, context.settings)
  if (forbidden !== undefined) {
    return respondUnobserved(finalResult(collection, 'Failed', forbidden), RETRY_SECONDS)
  }
  const hibernation = hibernationBlocker(cluster)
  if (hibernation !== undefined) {
    return respondUnobserved(pendingResult(hibernation.reason, hibernation.message))
  }
  if (failure !== undefined) {
    return respond(internalErrorResult(collection, failure.error), requeueAfterSeconds)
  }
  if (result !== undefined) return respond(result, requeueAfterSeconds)

  // No reconcile of this spec has finished: keep the status, whose conditions name their generation.
  if (collection.status?.phase !== undefined) {
    return {
      status: collection.status,
      children: [],
      resyncAfterSeconds: requeueAfterSeconds,
    }
  }
  const started = pendingResult('Reconciling', 'waiting for the first response from the engine')
  return respond(started, requeueAfterSeconds)
}

function desiredState(
  { collection, cluster }: { collection: VecCollection; cluster: VecCluster | undefined },
  result: ReconcileResult,
  resyncAfterSeconds: number,
  { now }: Context,
): Desired<CollectionStatus> {
  const status = collectionStatus(collection, result, { now, cluster })
  const events = [
    ...(result.phase === undefined ? [] : eventsOf(collection, status, now)),
    ...(result.recreated === true ? [recreatedEvent(collection, now)] : []),
  ]
  return {
    ...{ status, children: [], resyncAfterSeconds },
    ...(events.length > 0 && { events }),
    ...(result.failure !== undefined && { failures: [result.failure] }),
  }
}

/** At most one Event per hour, because the result of one reconcile is used in several syncs. */
function recreatedEvent(collection: VecCollection, now: Date): KubernetesEvent {
  const message = `collection ${collectionNameOf(collection)} was missing from the engine and was recreated empty`
  const event = { type: 'Warning' as const, reason: 'CollectionRecreated', message }
  return newEvent(
    collection,
    { ...event, transition: timestamp(now).slice(0, HOUR_PREFIX_LENGTH) },
    now,
  )
}

/** One Event for each final result that is new. Waiting is reported in the condition only. */
function eventsOf(
  collection: VecCollection,
  { conditions = [] }: CollectionStatus,
  now: Date,
): KubernetesEvent[] {
  const previous = getCondition(collection, 'Ready')
  return conditions
    .filter(({ type }) => type === 'Ready')
    .filter(({ reason, message }) => reason !== previous?.reason || message !== previous.message)
    .map(({ status, reason, message, lastTransitionTime }) => {
      const transition = `${collection.metadata.generation}/${shortHash(lastTransitionTime, message)}`
      const type = status === 'True' ? 'Normal' : 'Warning'
      return newEvent(collection, { type, reason, message, transition }, now)
    })
}
