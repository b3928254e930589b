/**
 * Preconditions of the access to a bucket: the Secret with its credentials, or the ServiceAccount
 * whose cloud identity replaces them.
 */
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { AnyObject, Secret } from '../../crds/kubernetes.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import {
  secretKeyAliases,
  type BucketAccess,
  type CredentialsSecretRef,
} from '../../crds/storage.ts'
import { hasValue, secretBlocker, secretTypeBlocker, type Blocker } from './preconditions.ts'

/** What was read of the access to a bucket. */
export interface ObservedAccess {
  secret: Secret | undefined
  account: AnyObject | undefined
}

/**
 * Why a bucket cannot be accessed: its credentials, or the ServiceAccount whose identity replaces
 * them, in the namespace of the resource that names them.
 */
export function bucketBlocker(
  field: string,
  { credentialsSecretRef, serviceAccountName }: BucketAccess,
  namespace: string,
  { secret, account }: ObservedAccess,
): Blocker | undefined {
  const fields = `${field}.credentialsSecretRef and ${field}.serviceAccountName`
  if ((credentialsSecretRef === undefined) === (serviceAccountName === undefined)) {
    return {
      reason: 'InvalidAccess',
      message: `exactly one of ${fields} is required`,
      terminal: true,
      showMessage: true,
    }
  }
  return credentialsSecretRef === undefined
    ? accountBlocker({ namespace, name: serviceAccountName ?? '' }, account)
    : bucketSecretBlocker(credentialsSecretRef, namespace, secret)
}

/**
 * Why Jobs must not run under a ServiceAccount: the author of a VecBackup may not be allowed to run
 * pods under it, so that it has to permit data Jobs itself.
 */
export function accountBlocker(
  { namespace, name }: NamespacedName,
  account: AnyObject | undefined,
): Blocker | undefined {
  const label = `ServiceAccount ${namespace}/${name}`
  if (account === undefined || account.metadata.deletionTimestamp !== undefined) {
    return { reason: 'ServiceAccountNotFound', message: `${label} not found` }
  }
  if (account.metadata.annotations?.[ANNOTATIONS.dataJobs] === 'allow') return undefined
  return {
    reason: 'ServiceAccountNotAllowed',
    message: `${label} does not allow data Jobs: set its annotation ${ANNOTATIONS.dataJobs} to allow`,
  }
}

function bucketSecretBlocker(
  reference: CredentialsSecretRef,
  namespace: string,
  secret: Secret | undefined,
): Blocker | undefined {
  const { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey } = reference
  const typeBlocker = secretTypeBlocker({ namespace, name }, [accessKeyIdKey], secret)
  if (typeBlocker !== undefined) return typeBlocker
  const data = secret?.data ?? {}
  const sessionTokenKeys = sessionTokenKey === undefined ? [] : [sessionTokenKey]
  const missing = [accessKeyIdKey, secretAccessKeyKey, ...sessionTokenKeys].filter(
    (key) => !secretKeyAliases(key).some((alias) => hasValue(data[alias])),
  )
  return secretBlocker({ namespace, name }, missing, secret)
}
