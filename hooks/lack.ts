/** What a Job waits for before it can start, and what it will never get: what is true of every cluster. */
import type { VecCluster } from '../crds/cluster.ts'
import { hasKey } from '../crds/connection.ts'
import type { Secret } from '../crds/kubernetes.ts'
import { ANNOTATIONS, KEY_SECRET_KEY, keySecretName } from '../crds/names.ts'
import { keyChoices, type S3Target } from '../crds/storage.ts'
import { allows } from './allow.ts'

export interface Lack {
  reason: string
  message: string
  /** Waiting would not help. */
  isRefusal?: true
}

/** Why the cluster of this name cannot be worked on from a namespace; undefined when it can. */
export function clusterLack(
  { namespace, name }: { namespace: string; name: string },
  cluster: VecCluster | undefined,
  from: string,
): Lack | undefined {
  const called = `cluster ${namespace}/${name}`
  if (cluster === undefined) return { reason: 'ClusterNotFound', message: `${called} not found` }
  if (cluster.metadata.deletionTimestamp !== undefined) {
    return { reason: 'ClusterNotFound', message: `${called} is being deleted` }
  }
  if (!allows(cluster, from, '*')) {
    const message = `${called} does not allow namespace ${from}: its annotation ${ANNOTATIONS.allowFrom}`
    return { reason: 'NotAllowed', message, isRefusal: true }
  }
  const phase = cluster.status?.phase ?? 'not installed'
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
  const { name, accessKeyIdKey, secretAccessKeyKey } = credentialsSecretRef
  const data = secret?.data ?? {}
  const missing = [accessKeyIdKey, secretAccessKeyKey].filter(
    (key) => !keyChoices(key).some((choice) => isSet(data[choice])),
  )
  return secretLack({ namespace, name }, missing, secret)
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
