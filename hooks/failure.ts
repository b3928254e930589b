/** What a pass over an engine or a bucket threw, for conditions and for the log. */
import {
  EngineError,
  HelmError,
  KubernetesError,
  NotReady,
  Rejected,
  StorageError,
} from '../crds/errors.ts'

const EXPECTED = [NotReady, Rejected, EngineError, StorageError, KubernetesError, HelmError]

/** One of the closed set of errors; anything else is a defect, which the log shows with its stack. */
export function isExpected(error: unknown): error is Error {
  return EXPECTED.some((known) => error instanceof known)
}

/** Nothing of a defect but that it happened: its message may hold anything. */
export function wordsOf(error: unknown): string {
  if (isExpected(error)) return error.message
  const name = error instanceof Error ? error.name : typeof error
  return `internal error: ${name}; the log of the service has it`
}
