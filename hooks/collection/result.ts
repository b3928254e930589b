/** What a pass over a collection ended with: all that its status is made from. */
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import type { EngineError } from '../../crds/contract/errors.ts'
import {
  COLLECTION_RECONCILE_SECONDS,
  MAX_RETRY_AFTER_SECONDS,
  MIN_RETRY_AFTER_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import { errorMessage } from '../background-task.ts'
import { getCondition, type ConditionUpdate } from '../conditions.ts'
import { jitterOf } from '../jitter.ts'
import { collectionNameOf } from './ownership.ts'

export interface ReconcileResult {
  /** Absent where the pass could not tell: the phase stays as it is. */
  phase?: 'Ready' | 'Degraded' | 'Failed'
  reason: string
  message: string
  /** What was seen and done; absent where the pass did not get so far. */
  fields?: ObservedFields
  replicated?: ConditionUpdate
  /** It had been there, was gone, and was created again. */
  recreated?: true
  /** What ended the pass, where nobody expects that. */
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

/** A reason to wait: nothing is wrong with the spec. */
export function pendingResult(
  reason: string,
  message: string,
  seconds = RETRY_SECONDS,
): ReconcileResult {
  return { reason, message, requeueAfterSeconds: seconds }
}

/** A defect of ours ended the pass. */
export function internalErrorResult(collection: VecCollection, error: unknown): ReconcileResult {
  const message = `collection ${collectionNameOf(collection)}: ${errorMessage(error)}`
  return { ...pendingResult('InternalError', message), failure: { error } }
}

/** When an engine that was too busy is asked again: when it says so, within bounds. */
export function retryDelaySeconds({ retryAfterSeconds = RETRY_SECONDS }: EngineError): number {
  return Math.min(Math.max(retryAfterSeconds, MIN_RETRY_AFTER_SECONDS), MAX_RETRY_AFTER_SECONDS)
}

/** A verdict; it is looked at again with everybody's next turn. */
export function finalResult(
  collection: VecCollection,
  phase: NonNullable<ReconcileResult['phase']>,
  conditionReason: { reason: string; message: string },
): ReconcileResult {
  // A little less than a minute, so that drift is put right within one.
  const requeueAfterSeconds = Math.round(
    COLLECTION_RECONCILE_SECONDS * (1 - jitterOf(collection.metadata.uid) / 6),
  )
  return { phase, ...conditionReason, requeueAfterSeconds }
}

/** What the engine shows of a collection, for the status. */
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

/** Drift that was made while the service was away is put right within a minute of its start. */
const FIRST_SPREAD_MS = 50_000

/** An outcome and what it is about. */
export interface LastReconcile {
  result: ReconcileResult
  generation: number
  /** The connection that was used, as text. */
  connection: string
  /** Whether the cluster said of itself that it is ready. */
  clusterReady: boolean
  endedAt: number
}

export type EngineIdentity = Pick<LastReconcile, 'connection' | 'clusterReady'>

/** When the next pass is due; at once is a time that is over. */
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
  // Who waits for a cluster hears of it when its readiness changes.
  const readinessChanged =
    latest.result.phase === undefined && latest.clusterReady !== identity.clusterReady
  return readinessChanged ? 0 : latest.endedAt + latest.result.requeueAfterSeconds * 1000
}

/** Whether a result is about this spec and this engine. */
export function isCurrent(
  { metadata }: VecCollection,
  latest: LastReconcile,
  identity: EngineIdentity,
): boolean {
  return latest.generation === metadata.generation && latest.connection === identity.connection
}

/** An earlier service came to a verdict about this very spec; Metacontroller's own generation is no proof. */
function hasCurrentResult(collection: VecCollection): boolean {
  const phase = collection.status?.phase
  const ready = getCondition(collection, 'Ready')
  if (ready?.observedGeneration !== collection.metadata.generation) return false
  return ready.status === 'True' || phase === 'Degraded' || phase === 'Failed'
}
