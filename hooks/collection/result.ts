/** The result of a reconcile, from which the status is built, and when the next reconcile is due. */
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import type { EngineError } from '../../crds/contract/errors.ts'
import {
  COLLECTION_RECONCILE_SECONDS,
  MAX_RETRY_AFTER_SECONDS,
  MIN_RETRY_AFTER_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { errorMessage } from '../background-task.ts'
import { getCondition, type ConditionUpdate, jitterOf } from '../conditions.ts'
import { collectionNameOf } from '../../crds/collection-ownership.ts'

export interface ReconcileResult extends ConditionReason {
  /** Absent if the reconcile could not determine it: the phase does not change. */
  phase?: 'Ready' | 'Degraded' | 'Failed'
  /** Observed values and changes; absent if the reconcile did not get that far. */
  fields?: ObservedFields
  replicated?: ConditionUpdate
  /** The engine cannot be asked, or has no such collection: what was found out about its replicas is outdated. */
  isUnobserved?: true
  /** Number of shards in the engine; only if the cluster may change it. */
  liveShards?: number
  /** The collection had existed, was missing, and was recreated. */
  recreated?: true
  /** The unexpected error that ended the reconcile. */
  failure?: { error: unknown }
  requeueAfterSeconds: number
}

export type ObservedFields = Pick<
  CollectionStatus,
  | 'health'
  | 'pointsCount'
  | 'indexedVectorsCount'
  | 'segmentsCount'
  | 'payloadIndexes'
  | 'aliases'
  | 'ignored'
>

/** A reason to wait that is not an error in the spec. */
export function pendingResult(
  reason: string,
  message: string,
  seconds = RETRY_SECONDS,
): ReconcileResult {
  return { reason, message, requeueAfterSeconds: seconds }
}

/** The reconcile ended with an internal error of the operator. */
export function internalErrorResult(collection: VecCollection, error: unknown): ReconcileResult {
  const message = `collection ${collectionNameOf(collection)}: ${errorMessage(error)}`
  return { ...pendingResult('InternalError', message), failure: { error } }
}

/** Seconds until a busy engine is called again: its Retry-After, within bounds. */
export function retryDelaySeconds({ retryAfterSeconds = RETRY_SECONDS }: EngineError): number {
  return Math.min(Math.max(retryAfterSeconds, MIN_RETRY_AFTER_SECONDS), MAX_RETRY_AFTER_SECONDS)
}

/** A final result; it is checked again at the regular interval. */
export function finalResult(
  collection: VecCollection,
  phase: NonNullable<ReconcileResult['phase']>,
  conditionReason: ConditionReason,
): ReconcileResult {
  // A little less than a minute, so that drift is corrected within one minute.
  const requeueAfterSeconds = Math.round(
    COLLECTION_RECONCILE_SECONDS * (1 - jitterOf(collection.metadata.uid) / 6),
  )
  return { phase, ...conditionReason, requeueAfterSeconds }
}

/** The status fields that the engine reports for a collection. */
export function observedFields(info: CollectionInfo): ObservedFields {
  const counts = {
    pointsCount: info.points_count,
    indexedVectorsCount: info.indexed_vectors_count,
    segmentsCount: info.segments_count,
  }
  const reportedCounts = Object.entries(counts).filter(([, count]) => typeof count === 'number')
  const health = HEALTH_VALUES.find((value) => value === info.status)
  return { ...(health !== undefined && { health }), ...Object.fromEntries(reportedCounts) }
}

const HEALTH_VALUES = ['green', 'yellow', 'grey', 'red'] as const

/** Drift that occurred while the service was down is corrected within a minute of its start. */
const FIRST_SPREAD_MS = 50_000

/** A result and the state it refers to. */
export interface LastReconcile {
  result: ReconcileResult
  generation: number
  /** The connection that was used, as JSON. */
  connection: string
  /** Whether the cluster's condition Ready was True. */
  clusterReady: boolean
  endedAt: number
}

export type EngineIdentity = Pick<LastReconcile, 'connection' | 'clusterReady'>

/**
 * When the next reconcile is due; a time in the past means immediately. Metacontroller syncs all collections
 * together when it starts, every five minutes and whenever their cluster changes, so the reconciles are
 * spread out.
 */
export function nextReconcileAt(
  collection: VecCollection,
  latest: LastReconcile | undefined,
  identity: EngineIdentity,
  firstObserved: number,
): number {
  const { uid } = collection.metadata
  if (latest === undefined) {
    return hasCurrentResult(collection) ? firstObserved + jitterOf(uid) * FIRST_SPREAD_MS : 0
  }
  if (!isCurrent(collection, latest, identity)) return 0
  // A collection that waits for its cluster is reconciled when the readiness of the cluster changes.
  const readinessChanged =
    latest.result.phase === undefined && latest.clusterReady !== identity.clusterReady
  return readinessChanged ? 0 : latest.endedAt + latest.result.requeueAfterSeconds * 1000
}

/** Whether a result refers to the current spec and engine. */
export function isCurrent(
  { metadata }: VecCollection,
  latest: LastReconcile,
  identity: EngineIdentity,
): boolean {
  return latest.generation === metadata.generation && latest.connection === identity.connection
}

/**
 * The status holds a final result for the current spec, from before the service started. The generation in
 * the condition proves it; `status.observedGeneration` is written by Metacontroller and does not.
 */
function hasCurrentResult(collection: VecCollection): boolean {
  const phase = collection.status?.phase
  const ready = getCondition(collection, 'Ready')
  if (ready?.observedGeneration !== collection.metadata.generation) return false
  return ready.status === 'True' || phase === 'Degraded' || phase === 'Failed'
}
