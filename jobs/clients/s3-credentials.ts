/** Credentials of a bucket: a Secret's keys, mounted as files for a Job, or as the service reads them. */
import { join } from 'node:path'
import { StorageError } from '../../crds/errors.ts'
import { keyChoices, type S3Target } from '../../crds/storage.ts'
import { mountedFile } from './mounted-file.ts'

export interface BucketCredentials {
  accessKeyId: string
  secretAccessKey: string
  /** Certificate authority of the store, PEM: key `ca.crt` of the same Secret. */
  ca?: string | undefined
}

type Reference = S3Target['credentialsSecretRef']

/** Name of the folder a Job finds the Secret in. */
export const BUCKET_CREDENTIAL = 'bucket'

/** Picks the credentials out of a Secret. Names the key that is missing, never a value. */
export async function credentialsFrom(
  { name, accessKeyIdKey, secretAccessKeyKey }: Reference,
  read: (key: string) => Promise<string | undefined> | string | undefined,
): Promise<BucketCredentials> {
  const value = async (key: string) => {
    for (const choice of keyChoices(key)) {
      const text = (await read(choice))?.trim()
      if (text !== undefined && text !== '') return text
    }
    throw new StorageError(`Secret ${name} has no ${key}`, { reason: 'MissingCredentials' })
  }
  return {
    accessKeyId: await value(accessKeyIdKey),
    secretAccessKey: await value(secretAccessKeyKey),
    ca: (await read('ca.crt')) || undefined,
  }
}

/** As the files say that are mounted now. */
export function mountedBucketCredentials(
  reference: Reference,
  env: NodeJS.ProcessEnv = process.env,
): () => Promise<BucketCredentials> {
  const folder = join(env['VEC_CREDENTIALS'] ?? '/var/run/vec', BUCKET_CREDENTIAL)
  return () => credentialsFrom(reference, (key) => mountedFile(join(folder, key)))
}
