/** Presigned URLs, which let anyone read one object for a limited time: they are credentials. */
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { PRESIGNED_URL_SECONDS } from '../../../crds/contract/limits.ts'
import type { S3Connection } from './connection.ts'

export function presignedUrl(
  connection: S3Connection,
  key: string,
  signal?: AbortSignal,
): Promise<string> {
  const command = new GetObjectCommand({ Bucket: connection.target.bucket, Key: key })
  return connection.call('PRESIGN', { key, signal }, (client) =>
    getSignedUrl(client, command, { expiresIn: PRESIGNED_URL_SECONDS }),
  )
}
