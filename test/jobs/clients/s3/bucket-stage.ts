/** A bucket on the double of an S3 server, in virtual time. */
import type { Test } from 'tap'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import type { S3ConnectionOptions } from '../../../../jobs/clients/s3/connection.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { startBucketServer, type BucketServerOptions } from '../../../doubles/bucket/server.ts'
import { instantClock } from '../../job-world.ts'

/** Closed with the test. */
export async function bucketStage(
  t: Test,
  { server, ...options }: Partial<S3ConnectionOptions> & { server?: BucketServerOptions } = {},
) {
  const s3 = await startBucketServer(server)
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    ...options,
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  const store = s3.buckets.get('backups')
  if (store === undefined) throw new Error('there is no bucket')
  return { s3, bucket, store }
}
