/** What a Job waits for before it can start, and what it will never get: what is true of every cluster. */
import type { VecCluster } from '../../crds/cluster.ts'
import { requiresApiKey } from '../../crds/contract/connection.ts'
import { ANNOTATIONS, API_KEY_SECRET_KEY, apiKeySecretName } from '../../crds/contract/names.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { isCredentialType, secretKeyAliases, type S3Target } from '../../crds/storage.ts'
import { clusterAccessBlocker, type CrossNamespace } from '../cross-namespace.ts'
import { originalOutcome } from '../request.ts'

export interface Blocker {
  reason: string
  message: string
  /** Waiting would not help. */
  terminal?: true
  /** Of a refusal: the condition shows the message, instead of how much of the work was done. */
  showMessage?: true
}

/**
 * The permission that is missing, else the first refusal, else the first of what is missing. Without
 * permission nothing else is reported of the resources of another namespace, and a refusal must not hide
 * behind a wait.
 */
export function selectBlocker(blockers: readonly (Blocker | undefined)[]): Blocker | undefined {
  const present = blockers.filter((blocker) => blocker !== undefined)
  return (
    present.find(({ reason }) => reason === 'RefNotPermitted') ??
    present.find(({ terminal }) => terminal === true) ??
    present[0]
  )
}

/** Why the cluster of this name cannot be worked on from a namespace; undefined when it can. */
export function clusterBlocker(
  { namespace, name }: { namespace: string; name: string },
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
  const phase = cluster.status?.phase ?? 'not installed'
  const consensus = cluster.status?.conditions?.find(({ type }) => type === 'Consensus')
  if (phase === 'Running' && consensus?.status === 'False') {
    return { reason: 'ClusterNotReady', message: `${label}: ${consensus.message}` }
  }
  if (phase === 'Running') return undefined
  return { reason: 'ClusterNotReady', message: `${label} is ${phase}, not Running` }
}

/** What the pods run is what the engine's chart wrote, or the operator before its first run. */
export function apiKeyBlocker(
  { metadata: { namespace, name }, spec }: VecCluster,
  secret: Secret | undefined,
): Blocker | undefined {
  if (!requiresApiKey(spec)) return undefined
  return secretBlocker({ namespace, name: apiKeySecretName(name) }, [API_KEY_SECRET_KEY], secret)
}

/** Why a bucket cannot be reached: its credentials, in the namespace of who names them. */
export function bucketBlocker(
  { credentialsSecretRef }: Pick<S3Target, 'credentialsSecretRef'>,
  namespace: string,
  secret: Secret | undefined,
): Blocker | undefined {
  const { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey } = credentialsSecretRef
  const typeBlocker = secretTypeBlocker({ namespace, name }, [accessKeyIdKey], secret)
  if (typeBlocker !== undefined) return typeBlocker
  const data = secret?.data ?? {}
  const sessionTokenKeys = sessionTokenKey === undefined ? [] : [sessionTokenKey]
  const missing = [accessKeyIdKey, secretAccessKeyKey, ...sessionTokenKeys].filter(
    (key) => !secretKeyAliases(key).some((alias) => hasValue(data[alias])),
  )
  return secretBlocker({ namespace, name }, missing, secret)
}

/** Why a Secret must not be used as credentials, whatever its keys are called. */
export function secretTypeBlocker(
  { namespace, name }: { namespace: string; name: string },
  keys: readonly string[],
  secret: Secret | undefined,
): Blocker | undefined {
  const type = secret?.type ?? 'Opaque'
  if (isCredentialType(type, keys)) return undefined
  return {
    reason: 'InvalidSecret',
    message: `Secret ${namespace}/${name} is of type ${type}, which is not used as credentials: put them into a Secret of type Opaque`,
  }
}

/** Why a Secret does not serve: it must have a value in each of the keys. */
export function secretBlocker(
  { namespace, name }: { namespace: string; name: string },
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

/** Why the address in a field cannot be used; undefined where it can, or where there is none. */
export function endpointBlocker(field: string, address: string | undefined): Blocker | undefined {
  if (address === undefined || URL.canParse(address)) return undefined
  return {
    reason: 'EndpointNotUsable',
    // Quoted: what is wrong with it may be invisible.
    message: `${field} is not an address: ${quotePrintable(address)}`,
    terminal: true,
    showMessage: true,
  }
}

/** With every character that is not printable ASCII as an escape. */
function quotePrintable(text: string): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(text.slice(0, 200)).replaceAll(/[^ -~]/g, escaped)
}

/**
 * A copy of what has ended does not run: it would put the data of its day over those of today. Deleting the
 * annotation first makes it a new resource.
 */
export function copyBlocker(
  resource: Parameters<typeof originalOutcome>[0] & { kind: string },
): Blocker | undefined {
  const original = originalOutcome(resource)
  if (original === undefined) return undefined
  const { uid, state, at } = original
  return {
    reason: 'CopyOfEnded',
    message: `this is a copy of a ${resource.kind} (uid ${uid}) that ended as ${state} at ${at}, and is not run again: to run it, create another ${resource.kind} without the annotation ${ANNOTATIONS.progress}`,
    terminal: true,
    showMessage: true,
  }
}
