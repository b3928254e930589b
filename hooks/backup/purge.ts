/** Deleting a backup's objects, batch by batch, in passes that outlast a hook call. */
import type { VecBackup } from '../../crds/backup.ts'
import { FOREIGN_READER_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { errorMessage, isExpected } from '../background-task.ts'
import { secondsSince } from '../conditions.ts'
import { isBlockingJob, isNamespaceAllowed } from '../cross-namespace.ts'
import type { Context } from '../protocol.ts'
import type { BackupPorts, BackupReader, PurgeResult } from './observe.ts'

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
  { previous, signal }: { previous: Purge | undefined; signal: AbortSignal },
): Promise<Purge> {
  const { namespace, name, uid } = metadata
  try {
    const target = { storage: spec.storage.s3, namespace, name, uid, survey: previous?.survey }
    return await ports.purge(target, signal)
  } catch (error) {
    signal.throwIfAborted()
    const defect = isExpected(error) ? {} : { defect: error }
    return { done: false, error: errorMessage(error), ...defect }
  }
}

/** How many objects are left, for the condition; empty where that is not known. */
export function remainingObjects({ survey }: Purge): string {
  return survey === undefined ? '' : `, ${survey.left} objects are left`
}

/** As messages name it; undefined when no restore reads the backup. */
export async function activeReader(
  backup: VecBackup,
  ports: Pick<BackupPorts, 'restoresReading' | 'jobsOf'>,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): Promise<string | undefined> {
  const { metadata, spec } = backup
  const isAllowed = (namespace: string) => isNamespaceAllowed(backup, namespace)
  const rules = { isAllowed, jobKeys: settings.jobKeys, now }
  const { namespace, name } = metadata
  for (const restore of await ports.restoresReading({
    namespace,
    name,
    storage: spec.storage.s3,
  })) {
    const needsNoPermission = restore.by === 'place' && !isAllowed(restore.namespace)
    const jobs = await ports.jobsOf(restore.namespace, restore.uid)
    const blockingJobs = jobs.filter((job) => isBlockingJob(job, rules))
    if (blockingJobs.some((job) => !needsNoPermission || blocksByLocation(job, backup, now)))
      return formatReader(restore)
  }
  return undefined
}

/**
 * It needs no permission of the backup, so its Job must be older than the deletion, which ends the wait. Where it
 * may write in the bucket, the purge finds its record there besides (jobs/backup/readers.ts).
 */
function blocksByLocation({ metadata }: Job, backup: VecBackup, now: Date): boolean {
  const deletedAt = backup.metadata.deletionTimestamp
  if (deletedAt === undefined) return true
  const isOlder = Date.parse(metadata.creationTimestamp ?? '') <= Date.parse(deletedAt)
  return isOlder && secondsSince(deletedAt, now) < FOREIGN_READER_TIMEOUT_SECONDS
}

function formatReader({ namespace, name }: BackupReader): string {
  return `VecRestore ${namespace}/${name}`
}
