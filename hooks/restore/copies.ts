/**
 * Which credentials the Job of a restore needs as copies (hooks/copies.ts): those of a target in
 * another namespace, and those of the bucket where the backup is in another one.
 */
import { credentialKeys, type S3Source } from '../../crds/storage.ts'
import { backupRefusal } from '../allow.ts'
import type { CrossNamespace } from '../allow-from.ts'
import { CLUSTER_CREDENTIALS, clusterOriginals, type Original } from '../copies.ts'
import type { Observed } from './observed.ts'
import { bucketNamespaceOf, sourceOf, targetOf } from '../../crds/rules/restore-places.ts'

export function copied({ restore }: Pick<Observed, 'restore'>): string[] {
  const { namespace } = restore.metadata
  return [
    ...(bucketNamespaceOf(restore) === namespace ? [] : ['bucket']),
    ...(targetOf(restore).namespace === namespace ? [] : CLUSTER_CREDENTIALS),
  ]
}

/** What the copies are made from. */
export function originalsOf(observed: Observed, settings: CrossNamespace): Original[] {
  const { restore, backup, cluster, secrets } = observed
  const source = sourceOf(restore, backup)
  const { bucket } = secrets
  const from = restore.metadata.namespace
  const all = [
    ...(cluster === undefined ? [] : clusterOriginals(cluster, secrets, { from, settings })),
    // One that was made anew under this name may allow less.
    ...(source === undefined || bucket === undefined || !isAllowed(observed)
      ? []
      : [{ credential: 'bucket', keys: bucketKeys(source), secret: bucket }]),
  ]
  const wanted = copied(observed)
  return all.filter(({ credential }) => wanted.includes(credential))
}

function isAllowed({ restore, backup }: Observed): boolean {
  return backup === undefined || backupRefusal(backup, restore.metadata.namespace) === undefined
}

function bucketKeys({ credentialsSecretRef }: S3Source): string[] {
  return [...credentialKeys(credentialsSecretRef), 'ca.crt']
}
