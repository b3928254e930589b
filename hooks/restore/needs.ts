/** What a restore waits for before its Job can start, and what it will never get. */
import { ANNOTATIONS } from '../../crds/names.ts'
import { allows } from '../allow.ts'
import { bucketLack, clusterLack, keyLack, type Lack } from '../lack.ts'
import type { Observed } from './observed.ts'
import { backupOf, bucketNamespaceOf, sourceOf, targetOf } from '../../crds/rules/restore-places.ts'

/** The first thing that is missing; undefined when the Job may be made. */
export function lackOf(observed: Observed): Lack | undefined {
  const { restore, backup, cluster, secrets } = observed
  const source = sourceOf(restore, backup)
  return (
    backupLack(observed) ??
    clusterLack(targetOf(restore), cluster, restore.metadata.namespace) ??
    (source && bucketLack(source, bucketNamespaceOf(restore), secrets.bucket)) ??
    (cluster && keyLack(cluster, secrets.engine))
  )
}

/** A backup that failed never becomes whole; one that is not finished may. */
function backupLack({ restore, backup }: Observed): Lack | undefined {
  const named = backupOf(restore)
  if (named === undefined) return undefined
  const called = `backup ${named.namespace}/${named.name}`
  if (backup === undefined) return { reason: 'BackupNotFound', message: `${called} not found` }
  if (backup.metadata.deletionTimestamp !== undefined) {
    return { reason: 'BackupNotFound', message: `${called} is being deleted` }
  }
  const { namespace } = restore.metadata
  // Its credentials would be lent to whoever may make a VecRestore.
  if (!allows(backup, namespace, '')) {
    const message = `${called} does not allow namespace ${namespace}: its annotation ${ANNOTATIONS.allowFrom}`
    return { reason: 'NotAllowed', message, isRefusal: true }
  }
  const { phase = 'Pending' } = backup.status ?? {}
  if (phase === 'Completed') return undefined
  const message = `backup is ${phase}, not Completed: ${named.namespace}/${named.name}`
  return {
    reason: 'BackupNotCompleted',
    message,
    ...(phase === 'Failed' && { isRefusal: true as const }),
  }
}
