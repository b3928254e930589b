/** What a backup waits for before its Job can start, and what it will never get. */
import type { VecBackup } from '../../crds/backup.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import type { S3Target } from '../../crds/storage.ts'
import { clusterLack, isSet, keyLack, secretLack, type Lack } from '../lack.ts'
import type { Observed } from './observe.ts'

/** Tried where the Secret lacks a key of the default name. */
const SECOND_CHOICE: Record<string, string> = {
  CLOUD_ACCESS_KEY_ID: 'AWS_ACCESS_KEY_ID',
  CLOUD_SECRET_ACCESS_KEY: 'AWS_SECRET_ACCESS_KEY',
}

/** The first thing that is missing; undefined when the Job may be made. */
export function lackOf({ backup, cluster, secrets }: Observed): Lack | undefined {
  const { namespace: from } = backup.metadata
  const { name, namespace = from } = backup.spec.clusterRef
  return (
    clusterLack({ namespace, name }, cluster, from) ??
    bucketLack(backup, secrets.bucket) ??
    (cluster && keyLack(cluster, secrets.engine))
  )
}

function bucketLack(
  { metadata: { namespace }, spec }: VecBackup,
  secret: Secret | undefined,
): Lack | undefined {
  const { name } = spec.storage.s3.credentialsSecretRef
  return secretLack({ namespace, name }, secret ? missingKeys(secret, spec.storage.s3) : [], secret)
}

function missingKeys({ data = {} }: Secret, { credentialsSecretRef }: S3Target): string[] {
  const { accessKeyIdKey, secretAccessKeyKey } = credentialsSecretRef
  return [accessKeyIdKey, secretAccessKeyKey].filter(
    (key) => !isSet(data[key]) && !isSet(data[SECOND_CHOICE[key] ?? '']),
  )
}
