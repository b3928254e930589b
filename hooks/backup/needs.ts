/** What a backup waits for before its Job can start, and what it will never get. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { hasKey } from '../../crds/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, KEY_SECRET_KEY, keySecretName } from '../../crds/names.ts'
import type { S3Target } from '../../crds/storage.ts'
import { allows } from '../allow.ts'
import type { Observed } from './observe.ts'

export interface Lack {
  reason: string
  message: string
  /** Waiting would not help. */
  isRefusal?: true
}

/** Tried where the Secret lacks a key of the default name. */
const SECOND_CHOICE: Record<string, string> = {
  CLOUD_ACCESS_KEY_ID: 'AWS_ACCESS_KEY_ID',
  CLOUD_SECRET_ACCESS_KEY: 'AWS_SECRET_ACCESS_KEY',
}

/** The first thing that is missing; undefined when the Job may be made. */
export function lackOf({ backup, cluster, secrets }: Observed): Lack | undefined {
  return (
    clusterLack(backup, cluster) ??
    bucketLack(backup, secrets.bucket) ??
    (cluster && engineLack(cluster, secrets.engine))
  )
}

function clusterLack(
  { metadata, spec }: VecBackup,
  cluster: VecCluster | undefined,
): Lack | undefined {
  const { name, namespace = metadata.namespace } = spec.clusterRef
  const called = `cluster ${namespace}/${name}`
  if (cluster === undefined) return { reason: 'ClusterNotFound', message: `${called} not found` }
  if (cluster.metadata.deletionTimestamp !== undefined) {
    return { reason: 'ClusterNotFound', message: `${called} is being deleted` }
  }
  if (!allows(cluster, metadata.namespace, '*')) {
    const message = `${called} does not allow namespace ${metadata.namespace}: its annotation ${ANNOTATIONS.allowFrom}`
    return { reason: 'NotAllowed', message, isRefusal: true }
  }
  const phase = cluster.status?.phase ?? 'not installed'
  if (phase === 'Running') return undefined
  return { reason: 'ClusterNotReady', message: `${called} is ${phase}, not Running` }
}

function bucketLack({ metadata, spec }: VecBackup, secret: Secret | undefined): Lack | undefined {
  const { name } = spec.storage.s3.credentialsSecretRef
  const called = `Secret ${metadata.namespace}/${name}`
  if (secret === undefined) return { reason: 'SecretNotFound', message: `${called} not found` }
  const key = missingKey(secret, spec.storage.s3)
  return key === undefined
    ? undefined
    : { reason: 'SecretNotUsable', message: `${called} has no value in key ${key}` }
}

function missingKey({ data = {} }: Secret, { credentialsSecretRef }: S3Target): string | undefined {
  const { accessKeyIdKey, secretAccessKeyKey } = credentialsSecretRef
  return [accessKeyIdKey, secretAccessKeyKey].find(
    (key) => !isSet(data[key]) && !isSet(data[SECOND_CHOICE[key] ?? '']),
  )
}

/** What the pods run is what the engine's chart wrote, or the operator before its first run. */
function engineLack({ metadata, spec }: VecCluster, secret: Secret | undefined): Lack | undefined {
  if (!hasKey(spec)) return undefined
  const called = `Secret ${metadata.namespace}/${keySecretName(metadata.name)}`
  if (secret === undefined) return { reason: 'SecretNotFound', message: `${called} not found` }
  return isSet(secret.data?.[KEY_SECRET_KEY])
    ? undefined
    : { reason: 'SecretNotUsable', message: `${called} has no value in key ${KEY_SECRET_KEY}` }
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== ''
}
