/**
 * Preconditions of a data Job: what blocks it for now, and what blocks it for good. They cover the
 * cluster, the bucket and its credentials, the Secrets, addresses (the schema admits some that no
 * client can call, such as one with a space that is not ASCII), and a resource created again from
 * the manifest of a finished one.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { AnyObject, ConfigMap, Secret } from '../../crds/kubernetes.ts'
import {
  caError,
  caRefOf,
  credentialKeys,
  isCredentialType,
  secretKeyAliases,
  serviceAccountError,
  type BucketAccess,
  type CredentialsSecretRef,
} from '../../crds/storage.ts'
import type { ConditionReason, NamespacedName } from '../../crds/schema.ts'
import { formatNames } from '../../crds/units.ts'
import {
  clusterAccessBlocker,
  type CrossNamespace,
  hibernationBlocker,
} from '../cross-namespace.ts'
import { originalOutcome } from '../request.ts'

export interface Blocker extends ConditionReason {
  /** Waiting would not help. */
  terminal?: true
  /** For a terminal blocker: the condition shows the message instead of the amount of work done. */
  showMessage?: true
}

/** Missing permissions: only these also stop a Job that runs. */
const PERMISSION_REASONS = ['RefNotPermitted', 'ServiceAccountNotAllowed']

export function isMissingPermission({ reason }: Blocker): boolean {
  return PERMISSION_REASONS.includes(reason)
}

/** Only a resource without a status is recognized as a copy. */
const COPY_OF_ENDED = 'CopyOfEnded'

/**
 * Selects that the resource is a copy, else the missing permission, else the first terminal blocker, else
 * the first blocker. A copy that waited for permission would run once it has it. Without permission nothing
 * else is reported about the resources of another namespace, and a terminal blocker must not be hidden by a
 * temporary one.
 */
export function selectBlocker(blockers: readonly (Blocker | undefined)[]): Blocker | undefined {
  const present = blockers.filter((blocker) => blocker !== undefined)
  return (
    present.find(({ reason }) => reason === COPY_OF_ENDED) ??
    present.find(isMissingPermission) ??
    present.find(({ terminal }) => terminal === true) ??
    present[0]
  )
}

/** Why a namespace cannot work on the cluster of this name; undefined if it can. */
export function clusterBlocker(
  { namespace, name }: NamespacedName,
  cluster: VecCluster | undefined,
  { from, settings }: { from: string; settings: CrossNamespace },
): Blocker | undefined {
  const label = `cluster ${namespace}/${name}`
  if (cluster === undefined) return { reason: 'ClusterNotFound', message: `${label} not found` }
  const accessBlocker = clusterAccessBlocker(cluster, from, settings)
  if (accessBlocker !== undefined) return accessBlocker
  if (cluster.metadata.deletionTimestamp !== undefined) {
    return { reason: 'ClusterNotFound', message: `${label} is being deleted` }
  }
  const hibernation = hibernationBlocker(cluster)
  if (hibernation !== undefined) return hibernation
  const phase = cluster.status?.phase ?? 'not installed'
  const consensus = cluster.status?.conditions?.find(({ type }) => type === 'Consensus')
  const progressing = cluster.status?.conditions?.find(({ type }) => type === 'Progressing')
  // An update that cannot continue may take long, and a backup is useful before it does, unless it is between
  // two versions (mixedVersionsBlocker).
  const isHeld = phase === 'Upgrading' && progressing?.status === 'False'
  // While nodes are drained, the Leases decide: the work on the shards gives way to other work.
  const isServing = phase === 'Running' || phase === 'Draining' || isHeld
  if (isServing && consensus?.status === 'False') {
    return { reason: 'ClusterNotReady', message: `${label}: ${consensus.message}` }
  }
  if (isServing) return undefined
  return { reason: 'ClusterNotReady', message: `${label} is ${phase}, not Running` }
}

const MAX_LISTED = 5

/**
 * Why a Job that needs one version on all nodes does not start; undefined if it may. An update may be held
 * for days between two nodes, and the Job would fail after its retries.
 */
export function mixedVersionsBlocker(cluster: VecCluster | undefined): Blocker | undefined {
  const { phase, podVersions = [], conditions = [] } = cluster?.status ?? {}
  if (cluster === undefined || podVersions.length < 2) return undefined
  const { namespace, name } = cluster.metadata
  const held = conditions.find(({ type, status }) => type === 'Progressing' && status === 'False')
  // While nodes are drained, it does not describe the update.
  const cause = phase === 'Upgrading' && held !== undefined ? `; ${held.message}` : ''
  return {
    reason: 'ClusterNotReady',
    message: `cluster ${namespace}/${name}: the pods have the versions ${formatNames(podVersions, MAX_LISTED)}${cause}`,
  }
}

/** The pods run what the engine's chart rendered, or the operator before its first helm run. */
export function apiKeyBlocker(
  cluster: VecCluster,
  secret: Secret | undefined,
): Blocker | undefined {
  const { namespace, key } = clusterConnection(cluster)
  return key && secretBlocker({ namespace, name: key.secret }, [key.key], secret)
}

/** What was read of the access to a bucket: its Secret, or its ServiceAccount, and its authority. */
export interface ObservedAccess {
  secret: Secret | undefined
  account: AnyObject | undefined
  /** The object with its certificate authority. */
  ca: Secret | ConfigMap | undefined
}

/**
 * Why a bucket cannot be accessed: its credentials, or the ServiceAccount whose identity replaces
 * them, or its certificate authority, in the namespace of the resource that names them.
 */
export function bucketBlocker(
  field: string,
  access: BucketAccess,
  namespace: string,
  { secret, account, ca }: ObservedAccess,
): Blocker | undefined {
  const { credentialsSecretRef, serviceAccountName, caSecretRef, caConfigMapRef } = access
  if ((credentialsSecretRef === undefined) === (serviceAccountName === undefined)) {
    const fields = `${field}.credentialsSecretRef and ${field}.serviceAccountName`
    return invalidAccess(`exactly one of ${fields} is required`)
  }
  if (caSecretRef !== undefined && caConfigMapRef !== undefined) {
    const fields = `${field}.caSecretRef and ${field}.caConfigMapRef`
    return invalidAccess(`at most one of ${fields} is allowed`)
  }
  const blocker =
    credentialsSecretRef === undefined
      ? serviceAccountError({ namespace, name: serviceAccountName ?? '' }, account)
      : bucketSecretBlocker(credentialsSecretRef, namespace, secret)
  if (blocker !== undefined) return blocker
  const reference = caRefOf(access)
  return reference && caError(field, reference, namespace, ca)
}

/** The CRD of another release does not check this. */
function invalidAccess(message: string): Blocker {
  return { reason: 'InvalidAccess', message, terminal: true, showMessage: true }
}

/** Why a Secret must not be used as credentials of a bucket, whatever its keys are. */
export function bucketSecretTypeBlocker(
  reference: CredentialsSecretRef,
  namespace: string,
  secret: Secret | undefined,
): Blocker | undefined {
  const { name } = reference
  return secretTypeBlocker({ namespace, name }, credentialKeys(reference), secret)
}

/** Why a Secret must not be used as credentials, whatever its keys are. */
export function secretTypeBlocker(
  { namespace, name }: NamespacedName,
  keys: readonly string[],
  secret: Secret | undefined,
): Blocker | undefined {
  const type = secret?.type ?? 'Opaque'
  if (isCredentialType(type, keys)) return undefined
  return {
    reason: 'InvalidSecret',
    message: `Secret ${namespace}/${name} is of type ${type}, which cannot hold credentials; use a Secret of type Opaque`,
  }
}

/** Why a Secret is unusable: each of the keys must have a value. */
export function secretBlocker(
  { namespace, name }: NamespacedName,
  keys: readonly string[],
  secret: Secret | undefined,
): Blocker | undefined {
  const label = `Secret ${namespace}/${name}`
  if (secret === undefined) return { reason: 'SecretNotFound', message: `${label} not found` }
  const missing = keys.find((key) => !hasValue(secret.data?.[key]))
  return missing === undefined
    ? undefined
    : { reason: 'InvalidSecret', message: `${label} has no value in key ${missing}` }
}

export function hasValue(value: string | undefined): boolean {
  return value !== undefined && value !== ''
}

/** Why the address in a field cannot be used; undefined if it can, or if there is none. */
export function endpointBlocker(field: string, address: string | undefined): Blocker | undefined {
  if (address === undefined || URL.canParse(address)) return undefined
  return {
    reason: 'EndpointNotUsable',
    // Quoted: the invalid character may be invisible.
    message: `${field} is not a valid address: ${quotePrintable(address)}`,
    terminal: true,
    showMessage: true,
  }
}

/**
 * Blocks a copy of a finished resource: it would overwrite current data with old data. With the
 * annotation removed it is a new resource.
 */
export function copyBlocker(
  resource: Parameters<typeof originalOutcome>[0] & { kind: string },
): Blocker | undefined {
  const original = originalOutcome(resource)
  if (original === undefined) return undefined
  const { uid, state, at } = original
  return {
    reason: COPY_OF_ENDED,
    message: `this is a copy of a ${resource.kind} (uid ${uid}) that finished as ${state} at ${at}, and is not run again; to run it, create another ${resource.kind} without the annotation ${ANNOTATIONS.progress}`,
    terminal: true,
    showMessage: true,
  }
}

function bucketSecretBlocker(
  reference: CredentialsSecretRef,
  namespace: string,
  secret: Secret | undefined,
): Blocker | undefined {
  const { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey } = reference
  const typeBlocker = bucketSecretTypeBlocker(reference, namespace, secret)
  if (typeBlocker !== undefined) return typeBlocker
  const data = secret?.data ?? {}
  const sessionTokenKeys = sessionTokenKey === undefined ? [] : [sessionTokenKey]
  const missing = [accessKeyIdKey, secretAccessKeyKey, ...sessionTokenKeys].filter(
    (key) => !secretKeyAliases(key).some((alias) => hasValue(data[alias])),
  )
  return secretBlocker({ namespace, name }, missing, secret)
}

/** Escapes every character that is not printable ASCII. */
function quotePrintable(text: string): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(text.slice(0, 200)).replaceAll(/[^ -~]/g, escaped)
}
