/**
 * Which restore a purge waits for. One of a namespace that the VecBackup does not allow can name the backup, or
 * its place in a bucket, without reading anything there: it must not keep the objects for ever.
 */
import type { VecBackup } from '../../crds/backup.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { FOREIGN_READER_SECONDS } from '../../crds/limits.ts'
import { isNamed } from '../allow-from.ts'
import { isAtWork } from '../at-work.ts'
import { secondsSince } from '../conditions.ts'
import type { Context } from '../protocol.ts'
import type { BackupPorts, Reader } from './ports.ts'

/** As messages name it; undefined when no restore reads the backup. */
export async function readerOf(
  backup: VecBackup,
  ports: Pick<BackupPorts, 'restoresOf' | 'jobsOf'>,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): Promise<string | undefined> {
  const { metadata, spec } = backup
  const isAllowed = (namespace: string) => isNamed(backup, namespace)
  const rules = { isAllowed, jobKeys: settings.jobKeys, now }
  const { namespace, name } = metadata
  for (const restore of await ports.restoresOf({ namespace, name, storage: spec.storage.s3 })) {
    const isForeign = restore.by === 'place' && !isAllowed(restore.namespace)
    const jobs = await ports.jobsOf(restore.namespace, restore.uid)
    const reading = jobs.filter((job) => isAtWork(job, rules))
    if (reading.some((job) => !isForeign || countsAtPlace(job, backup, now))) return called(restore)
  }
  return undefined
}

/**
 * It needs no permission of the backup, so its Job must be older than the deletion, which ends the wait. Where it
 * may write in the bucket, the purge finds its record there besides (jobs/backup/readers.ts).
 */
function countsAtPlace({ metadata }: Job, backup: VecBackup, now: Date): boolean {
  const deletedAt = backup.metadata.deletionTimestamp
  if (deletedAt === undefined) return true
  const isOlder = Date.parse(metadata.creationTimestamp ?? '') <= Date.parse(deletedAt)
  return isOlder && secondsSince(deletedAt, now) < FOREIGN_READER_SECONDS
}

function called({ namespace, name }: Reader): string {
  return `VecRestore ${namespace}/${name}`
}
