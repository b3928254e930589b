/** Which errors end an attempt with a report, and which are crashes. */
import { EngineError, Rejected, StorageError } from '../crds/errors.ts'

/** What a person can mend is told; anything else is a crash, and tried again. */
export function isTold(error: unknown): error is Rejected | StorageError | EngineError {
  return error instanceof Rejected || error instanceof StorageError || error instanceof EngineError
}

/** A word for the report. */
export function reasonOf(error: Rejected | StorageError | EngineError): string {
  switch (error.code) {
    case 'Rejected':
      return 'Rejected'
    case 'StorageError':
      return 'BucketFailed'
    case 'EngineError':
      return 'EngineFailed'
  }
}
