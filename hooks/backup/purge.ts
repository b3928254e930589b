/** Deleting a backup's objects, batch by batch, in passes that outlast a hook call. */
import type { VecBackup } from '../../crds/backup.ts'
import { Rejected, StorageError } from '../../crds/errors.ts'
import type { BackupPorts, PurgeResult } from './ports.ts'

export interface Purge extends PurgeResult {
  /** What the store answered; it is asked again. */
  error?: string
}

/** The batch after `last`. What the store refuses is a result: it is shown, and tried again. */
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
    if (error instanceof StorageError || error instanceof Rejected) {
      return { done: false, error: error.message }
    }
    throw error
  }
}

/** How many objects are left, for the condition; empty where that is not known. */
export function leftOf({ survey }: Purge): string {
  return survey === undefined ? '' : `, ${survey.left} objects are left`
}
