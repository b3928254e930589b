/** The bucket of a resource as the service reaches it, with the credentials of the resource's namespace. */
import type { Logger } from 'pino'
import type { S3Target } from '../crds/storage.ts'
import type { Secret } from '../crds/kubernetes.ts'
import type { AddressGuard } from '../jobs/clients/addresses.ts'
import { credentialsFrom } from '../jobs/clients/s3-credentials.ts'
import type { Bucket } from '../jobs/clients/s3.ts'
import type { Time } from '../jobs/time.ts'
import type { Called } from './counted.ts'

export interface BucketTools {
  /** From a short memory. */
  secret: (namespace: string, name: string) => Promise<Secret | undefined>
  time: Time
  log: Logger
  called?: Called
  /** Tenants choose the address, and the service is nobody's namespace. */
  guard?: AddressGuard | undefined
}

/** A hook is asked again soon: it does not wait for a store that is down. */
const ATTEMPTS = 2

/** Whoever opens it closes it. */
export async function openBucket(
  { secret, time, log, called, guard }: BucketTools,
  namespace: string,
  target: S3Target,
): Promise<Bucket> {
  // Only what touches a bucket pays for the SDK: 0.2 s, and 30 MB of memory.
  const { Bucket: S3Bucket } = await import('../jobs/clients/s3.ts')
  const reference = target.credentialsSecretRef
  const credentials = async () => {
    const { data = {} } = (await secret(namespace, reference.name)) ?? {}
    return credentialsFrom(reference, (key) => decoded(data[key]))
  }
  return new S3Bucket({
    ...{ target, credentials, time, log, guard, attempts: ATTEMPTS },
    ...(called !== undefined && { called }),
  })
}

function decoded(value: string | undefined): string | undefined {
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString()
}
