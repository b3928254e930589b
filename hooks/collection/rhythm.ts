/**
 * When a collection is due for a pass. Metacontroller shows all of them at once when it starts, every
 * five minutes and whenever their cluster changes; the passes are spread out.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { conditionOf } from '../conditions.ts'
import { jitterOf } from './jitter.ts'
import type { Outcome } from './outcome.ts'

/** Drift that was made while the service was away is put right within a minute of its start. */
const FIRST_SPREAD_MS = 50_000

/** An outcome and what it is about. */
export interface Result {
  outcome: Outcome
  generation: number
  /** The connection that was used, as text. */
  connection: string
  /** Whether the cluster said of itself that it is ready. */
  clusterReady: boolean
  endedAt: number
}

export type About = Pick<Result, 'connection' | 'clusterReady'>

/** When the next pass is due; at once is a time that is over. */
export function dueAt(
  collection: VecCollection,
  last: Result | undefined,
  about: About,
  firstSeen: number,
): number {
  const { uid } = collection.metadata
  if (last === undefined) {
    return isSettled(collection) ? firstSeen + jitterOf(uid) * FIRST_SPREAD_MS : 0
  }
  if (!isCurrent(collection, last, about)) return 0
  // Who waits for a cluster hears of it when its readiness changes.
  const hasNews = last.outcome.phase === undefined && last.clusterReady !== about.clusterReady
  return hasNews ? 0 : last.endedAt + last.outcome.againAfterSeconds * 1000
}

/** Whether a result is about this spec and this engine. */
export function isCurrent({ metadata }: VecCollection, last: Result, about: About): boolean {
  return last.generation === metadata.generation && last.connection === about.connection
}

/** An earlier service came to a verdict about this very spec; Metacontroller's own generation is no proof. */
function isSettled(collection: VecCollection): boolean {
  const phase = collection.status?.phase
  const ready = conditionOf(collection, 'Ready')
  if (ready?.observedGeneration !== collection.metadata.generation) return false
  return ready.status === 'True' || phase === 'Degraded' || phase === 'Failed'
}
