/** What a pass over a collection ended with: all that its status is made from. */
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import type { EngineError } from '../../crds/errors.ts'
import {
  COLLECTION_RECONCILE_SECONDS,
  MAX_RETRY_AFTER_SECONDS,
  MIN_RETRY_AFTER_SECONDS,
  RETRY_SECONDS,
} from '../../crds/limits.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import type { Finding } from '../conditions.ts'
import { wordsOf } from '../failure.ts'
import { collectionNameOf } from './claims.ts'
import { jitterOf } from './jitter.ts'

export interface Outcome {
  /** Absent where the pass could not tell: the phase stays as it is. */
  phase?: 'Ready' | 'Degraded' | 'Failed'
  reason: string
  message: string
  /** What was seen and done; absent where the pass did not get so far. */
  facts?: Facts
  replicated?: Finding
  /** It had been there, was gone, and was created again. */
  recreated?: true
  /** What ended the pass, where nobody expects that. */
  failure?: { error: unknown }
  againAfterSeconds: number
}

export type Facts = Pick<
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
export function waiting(reason: string, message: string, seconds = RETRY_SECONDS): Outcome {
  return { reason, message, againAfterSeconds: seconds }
}

/** A defect of ours ended the pass. */
export function internalError(collection: VecCollection, error: unknown): Outcome {
  const message = `collection ${collectionNameOf(collection)}: ${wordsOf(error)}`
  return { ...waiting('InternalError', message), failure: { error } }
}

/** When an engine that was too busy is asked again: when it says so, within bounds. */
export function retryAfter({ retryAfterSeconds = RETRY_SECONDS }: EngineError): number {
  return Math.min(Math.max(retryAfterSeconds, MIN_RETRY_AFTER_SECONDS), MAX_RETRY_AFTER_SECONDS)
}

/** A verdict; it is looked at again with everybody's next turn. */
export function verdict(
  collection: VecCollection,
  phase: NonNullable<Outcome['phase']>,
  words: { reason: string; message: string },
): Outcome {
  // A little less than a minute, so that drift is put right within one.
  const againAfterSeconds = Math.round(
    COLLECTION_RECONCILE_SECONDS * (1 - jitterOf(collection.metadata.uid) / 6),
  )
  return { phase, ...words, againAfterSeconds }
}

/** What the engine shows of a collection, for the status. */
export function seen(info: CollectionInfo): Facts {
  const counts = {
    pointsCount: info.points_count,
    indexedVectorsCount: info.indexed_vectors_count,
    segmentsCount: info.segments_count,
  }
  const known = Object.entries(counts).filter(([, count]) => typeof count === 'number')
  const health = HEALTHS.find((word) => word === info.status)
  return { ...(health !== undefined && { health }), ...Object.fromEntries(known) }
}

const HEALTHS = ['green', 'yellow', 'grey', 'red'] as const
