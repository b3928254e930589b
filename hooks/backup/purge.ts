/**
 * Deletes a backup's objects in batches, as tasks that outlast a hook call, and decides which
 * restore a purge waits for. A restore in a namespace that the VecBackup does not allow can name
 * the backup, or its location in a bucket, without reading anything there: it must not keep the
 * objects forever.
 */
import type { VecBackup } from '../../crds/backup.ts'
import { FOREIGN_READER_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { errorMessage, isExpected } from '../background-task.ts'
import { secondsSince } from '../conditions.ts'
import { isBlockingJob, isNamespaceAllowed } from '../cross-namespace.ts'
import type { Context } from '../protocol.ts'
import type { BackupPorts, BackupReader, PurgeResult } from './observe.ts'

export interface Purge extends PurgeResult {
  /** Why the newest batch failed; it is retried. */
  error?: string
  /** The error, if it is unexpected. */
  defect?: unknown
}

/** Deletes the batch after `last`. A failure is a result: it is reported and retried. */
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

/** Number of remaining objects, for the condition; empty if it is unknown. */
export function remainingObjects({ survey }: Purge): string {
  return survey === undefined ? '' : `; ${survey.left} objects remain`
}

/** The restore as messages name it; undefined if no restore reads the backup. */
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
 * A restore by location needs no permission of the backup, so its Job must be older than the
 * deletion, which bounds the wait. If it may write to the bucket, the purge also finds its record
 * there (jobs/backup/readers.ts).
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
