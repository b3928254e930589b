/** Server-side encryption: what a write asks for, and whether the store has confirmed it. */
import type { ServerSideEncryption } from '@aws-sdk/client-s3'
import { StorageError } from '../../../crds/contract/errors.ts'
import type { BucketTarget } from './connection.ts'

export interface EncryptionParameters {
  ServerSideEncryption?: ServerSideEncryption
  SSEKMSKeyId?: string
}

export function encryptionParameters({ encryption }: BucketTarget): EncryptionParameters {
  if (encryption === undefined) return {}
  const { type: algorithm, kmsKeyId } = encryption
  return {
    ServerSideEncryption: algorithm,
    ...(kmsKeyId !== undefined && { SSEKMSKeyId: kmsKeyId }),
  }
}

/** Throws unless the store confirms the encryption: some stores ignore the header. */
export function requireEncryption(
  { bucket, encryption }: BucketTarget,
  key: string,
  answer: { ServerSideEncryption?: ServerSideEncryption | undefined },
): void {
  if (encryption === undefined || answer.ServerSideEncryption === encryption.type) return
  throw new StorageError(
    `s3://${bucket}/${key}: the store does not confirm the encryption ${encryption.type}: remove spec.storage.s3.encryption, or use a store that supports it`,
    { status: 200, reason: 'EncryptionNotConfirmed' },
  )
}
