/**
 * What a VecBackup carries once it has ended. A schedule is shown all its backups in one request, so what a
 * finished one repeats of the manifest in the bucket must not stay on it for ever.
 */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { BackupResult, Progress } from '../../crds/command.ts'
import { DETAILS_SECONDS } from '../../crds/limits.ts'
import { secondsSince } from '../conditions.ts'
import { unlistedFields } from '../transfer-status.ts'
import { scheduleOf } from './fate.ts'

/** Of the collections of an old backup, so many are listed. */
const MAX_LISTED = 20
const MAX_ERROR = 200

/** The report without the list that the status has too; undefined when there is nothing to leave out. */
export function compactReport(progress: Progress | undefined): Progress | undefined {
  if (progress?.backup === undefined || progress.backup.collections.length === 0) return undefined
  return { ...progress, backup: withoutList(progress.backup) }
}

/**
 * The status a day after the end of a backup of a schedule: its snapshots are named in the manifest, and all
 * its collections are in `collectionHashes`, by which retention knows them.
 */
export function compactStatus(backup: VecBackup, status: BackupStatus, now: Date): BackupStatus {
  const { collections, completionTime = '', collectionHashes } = status
  const isRecent = !(secondsSince(completionTime, now) >= DETAILS_SECONDS)
  if (collections === undefined || isRecent || scheduleOf(backup) === undefined) return status
  const brief = collections.map(({ name, status: phase, size, error }) => ({
    ...{ name, status: phase },
    ...(size !== undefined && { size }),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
  }))
  // Without the hashes the names are all that retention knows of them.
  if (collectionHashes === undefined) return { ...status, collections: brief }
  const failedFirst = brief.toSorted((one, other) => rankOf(one) - rankOf(other))
  const left = failedFirst.slice(MAX_LISTED).map((collection) => collection.status)
  const count = (phase: string) => left.filter((one) => one === phase).length
  const { completed = 0, failed = 0, pending = 0 } = status.unlistedCollections ?? {}
  const [moreCompleted, moreFailed] = [count('Completed'), count('Failed')]
  return {
    ...status,
    collections: failedFirst.slice(0, MAX_LISTED),
    ...unlistedFields({
      completed: completed + moreCompleted,
      failed: failed + moreFailed,
      pending: pending + left.length - moreCompleted - moreFailed,
    }),
  }
}

function rankOf({ status }: { status: string }): number {
  return status === 'Completed' ? 1 : 0
}

function withoutList(result: BackupResult): BackupResult {
  const { total, completed, failed } = result
  const pending = Math.max(0, total - completed - failed)
  return { ...result, collections: [], unlisted: { completed, failed, pending } }
}
