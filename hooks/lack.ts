/** What a Job waits for before it can start, and what it will never get: what is true of every cluster. */
import type { VecCluster } from '../crds/cluster.ts'
import { hasKey } from '../crds/connection.ts'
import type { Secret } from '../crds/kubernetes.ts'
import { KEY_SECRET_KEY, keySecretName } from '../crds/names.ts'
import { isCredentialType } from '../crds/rules/secret-type.ts'
import { keyChoices, type S3Target } from '../crds/storage.ts'
import { clusterRefusal } from './allow.ts'
import type { CrossNamespace } from './allow-from.ts'

export interface Lack {
  reason: string
  message: string
  /** Waiting would not help. */
  isRefusal?: true
  /** Of a refusal: the condition shows the message, instead of how much of the work was done. */
  isShown?: true
}

/**
 * The permission that is missing, else the first refusal, else the first of what is missing. Without
 * permission nothing else is reported of the resources of another namespace, and a refusal must not hide
 * behind a wait.
 */
export function foremost(lacks: readonly (Lack | undefined)[]): Lack | undefined {
  const found = lacks.filter((lack) => lack !== undefined)
  return (
    found.find(({ reason }) => reason === 'NotAllowed') ??
    found.find(({ isRefusal }) => isRefusal === true) ??
    found[0]
  )
}

/** Why the cluster of this name cannot be worked on from a namespace; undefined when it can. */
export function clusterLack(
  { namespace, name }: { namespace: string; name: string },
  cluster: VecCluster | undefined,
  { from, settings }: { from: string; settings: CrossNamespace },
): Lack | undefined {
  const called = `cluster ${namespace}/${name}`
  if (cluster === undefined) return { reason: 'ClusterNotFound', message: `${called} not found` }
  const refusal = clusterRefusal(cluster, from, settings)
  if (refusal !== undefined) return refusal
  if (cluster.metadata.deletionTimestamp !== undefined) {
    return { reason: 'ClusterNotFound', message: `${called} is being deleted` }
  }
  const phase = cluster.status?.phase ?? 'not installed'
  const consensus = cluster.status?.conditions?.find(({ type }) => type === 'Consensus')
  if (phase === 'Running' && consensus?.status === 'False') {
    return { reason: 'ClusterNotReady', message: `${called}: ${consensus.message}` }
  }
  if (phase === 'Running') return undefined
  return { reason: 'ClusterNotReady', message: `${called} is ${phase}, not Running` }
}

/** What the pods run is what the engine's chart wrote, or the operator before its first run. */
export function keyLack(
  { metadata: { namespace, name }, spec }: VecCluster,
  secret: Secret | undefined,
): Lack | undefined {
  if (!hasKey(spec)) return undefined
  return secretLack({ namespace, name: keySecretName(name) }, [KEY_SECRET_KEY], secret)
}

/** Why a bucket cannot be reached: its credentials, in the namespace of who names them. */
export function bucketLack(
  { credentialsSecretRef }: Pick<S3Target, 'credentialsSecretRef'>,
  namespace: string,
  secret: Secret | undefined,
): Lack | undefined {
  const { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey } = credentialsSecretRef
  const unsuitable = unsuitableSecret({ namespace, name }, [accessKeyIdKey], secret)
  if (unsuitable !== undefined) return unsuitable
  const data = secret?.data ?? {}
  const named = sessionTokenKey === undefined ? [] : [sessionTokenKey]
  const missing = [accessKeyIdKey, secretAccessKeyKey, ...named].filter(
    (key) => !keyChoices(key).some((choice) => isSet(data[choice])),
  )
  return secretLack({ namespace, name }, missing, secret)
}

/** Why a Secret must not be used as credentials, whatever its keys are called. */
export function unsuitableSecret(
  { namespace, name }: { namespace: string; name: string },
  keys: readonly string[],
  secret: Secret | undefined,
): Lack | undefined {
  const type = secret?.type ?? 'Opaque'
  if (isCredentialType(type, keys)) return undefined
  return {
    reason: 'SecretNotUsable',
    message: `Secret ${namespace}/${name} is of type ${type}, which is not used as credentials: put them into a Secret of type Opaque`,
  }
}

/** Why a Secret does not serve: it must have a value in each of the keys. */
export function secretLack(
  { namespace, name }: { namespace: string; name: string },
  keys: readonly string[],
  secret: Secret | undefined,
): Lack | undefined {
  const called = `Secret ${namespace}/${name}`
  if (secret === undefined) return { reason: 'SecretNotFound', message: `${called} not found` }
  const missing = keys.find((key) => !isSet(secret.data?.[key]))
  return missing === undefined
    ? undefined
    : { reason: 'SecretNotUsable', message: `${called} has no value in key ${missing}` }
}

export function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== ''
}
