/** What a restore waits for before its Job can start, and what it will never get. */
import { endpointLack } from '../endpoint.ts'
import { backupRefusal } from '../allow.ts'
import type { CrossNamespace } from '../allow-from.ts'
import { copyLack } from '../copied-resource.ts'
import { bucketLack, clusterLack, foremost, keyLack, type Lack } from '../lack.ts'
import type { Observed } from './observed.ts'
import { backupOf, bucketNamespaceOf, sourceOf, targetOf } from '../../crds/rules/restore-places.ts'

/** The first thing that is missing; undefined when the Job may be made. */
export function lackOf(observed: Observed, settings: CrossNamespace): Lack | undefined {
  const { restore, backup, cluster, secrets } = observed
  const source = sourceOf(restore, backup)
  const from = restore.metadata.namespace
  return foremost([
    copyLack(restore),
    backupLack(observed),
    clusterLack(targetOf(restore), cluster, { from, settings }),
    endpointLack('spec.source.s3.endpoint', restore.spec.source?.s3.endpoint),
    source && bucketLack(source, bucketNamespaceOf(restore), secrets.bucket),
    cluster && keyLack(cluster, secrets.engine),
  ])
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
  const refusal = backupRefusal(backup, restore.metadata.namespace)
  if (refusal !== undefined) return refusal
  const { phase = 'Pending' } = backup.status ?? {}
  if (phase === 'Completed') return undefined
  const message = `backup is ${phase}, not Completed: ${named.namespace}/${named.name}`
  return {
    reason: 'BackupNotCompleted',
    message,
    ...(phase === 'Failed' && { isRefusal: true as const }),
  }
}
