/** Deleting a backup's objects, batch by batch, in passes that outlast a hook call. */
import type { VecBackup } from '../../crds/backup.ts'
import { isExpected, wordsOf } from '../failure.ts'
import type { BackupPorts, PurgeResult } from './ports.ts'

export interface Purge extends PurgeResult {
  /** Why the newest batch failed; it is tried again. */
  error?: string
  /** What it threw, where nobody expects that. */
  defect?: unknown
}

/** The batch after `last`. A failure is a result: it is shown, and tried again. */
export async function purgeBatch(
  { metadata, spec }: VecBackup,
  ports: Pick<BackupPorts, 'purge'>,
  { last, signal }: { last: Purge | undefined; signal: AbortSignal },
): Promise<Purge> {
  const { namespace, name, uid } = metadata
  try {
    const target = { storage: spec.storage.s3, namespace, name, uid, survey: last?.survey }
    return await ports.purge(target, signal)
  } catch (error) {
    signal.throwIfAborted()
    const defect = isExpected(error) ? {} : { defect: error }
    return { done: false, error: wordsOf(error), ...defect }
  }
}

/** How many objects are left, for the condition; empty where that is not known. */
export function leftOf({ survey }: Purge): string {
  return survey === undefined ? '' : `, ${survey.left} objects are left`
}
