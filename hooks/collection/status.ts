/** Phase, conditions and every other field of a VecCollection's status (specification: states). */
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import { conditionOf, conditionsOf, type Finding } from '../conditions.ts'
import { collectionNameOf } from './claims.ts'
import type { Facts, Outcome } from './outcome.ts'

/** A condition shows no more than this; `error` has the whole text. */
const MAX_MESSAGE = 1024
const MAX_ERROR = 32 * 1024

/** The status after a pass. What the pass could not tell stays as it was. */
export function collectionStatus(
  collection: VecCollection,
  outcome: Outcome,
  now: Date,
): CollectionStatus {
  const { status: before = {} } = collection
  const phase = outcome.phase ?? before.phase ?? 'Pending'
  const error = outcome.phase === undefined ? before.error : errorOf(outcome)
  return {
    phase,
    collectionName: collectionNameOf(collection),
    ...(outcome.facts ?? factsOf(before)),
    ...(error !== undefined && { error }),
    conditions: conditionsOf(collection, findings(collection, outcome), now),
  }
}

function errorOf({ phase, message }: Outcome): string | undefined {
  return phase === 'Ready' ? undefined : message.slice(0, MAX_ERROR)
}

function factsOf(before: CollectionStatus): Facts {
  const names = [
    'health',
    'pointsCount',
    'indexedVectorsCount',
    'segmentsCount',
    'payloadIndexes',
    'aliases',
    'ignored',
  ] as const
  return Object.fromEntries(
    names.flatMap((name) => (before[name] === undefined ? [] : [[name, before[name]]])),
  )
}

function findings(collection: VecCollection, outcome: Outcome): Finding[] {
  const { phase, reason, message } = outcome
  const ready: Finding = {
    type: 'Ready',
    status: phase === 'Ready' ? 'True' : 'False',
    reason,
    message: message.slice(0, MAX_MESSAGE),
  }
  const replicated = outcome.replicated ?? replicatedBefore(collection)
  return replicated === undefined ? [ready] : [ready, replicated]
}

/** Not looked at this time: what was found before still holds, if it is still asked for. */
function replicatedBefore(collection: VecCollection): Finding | undefined {
  const before = conditionOf(collection, 'Replicated')
  const isWanted = collection.spec.replicationFactor !== undefined
  if (before === undefined || !isWanted) return undefined
  const { type, status, reason, message } = before
  return { type, status, reason, message }
}
