/** A bucket as people reach it: with the credentials of a Secret that they may read. */
import type { Secret } from '../../crds/kubernetes.ts'
import type { S3Target } from '../../crds/storage.ts'
import type { Bucket } from '../clients/s3.ts'
import type { PeopleCall } from './command.ts'

export async function bucketWith(
  secret: Secret,
  target: Omit<S3Target, 'prefix'>,
  { log, time }: Pick<PeopleCall, 'log' | 'time'>,
): Promise<Bucket> {
  // Only what touches a bucket pays for the SDK.
  const [{ Bucket }, { credentialsFrom }] = await Promise.all([
    import('../clients/s3.ts'),
    import('../clients/s3-credentials.ts'),
  ])
  const value = (key: string) => {
    const encoded = secret.data?.[key]
    return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString()
  }
  const credentials = () => credentialsFrom(target.credentialsSecretRef, value)
  return new Bucket({ target, credentials, time, log })
}
