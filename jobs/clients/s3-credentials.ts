/** Credentials of a bucket: a Secret's keys, mounted as files for a Job, or as the service reads them. */
import { join } from 'node:path'
import { StorageError } from '../../crds/errors.ts'
import { keyChoices, sessionTokenKeyOf, type S3Target } from '../../crds/storage.ts'
import { mountedFile } from './mounted-file.ts'

export interface BucketCredentials {
  accessKeyId: string
  secretAccessKey: string
  /** Of temporary credentials. */
  sessionToken?: string | undefined
  /** Certificate authority of the store, PEM: key `ca.crt` of the same Secret. */
  ca?: string | undefined
}

type Reference = S3Target['credentialsSecretRef']

/** Name of the folder a Job finds the Secret in. */
export const BUCKET_CREDENTIAL = 'bucket'

/** Picks the credentials out of a Secret. Names the key that is missing, never a value. */
export async function credentialsFrom(
  { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey }: Reference,
  read: (key: string) => Promise<string | undefined> | string | undefined,
): Promise<BucketCredentials> {
  const optional = async (key: string) => (await read(key))?.trim() || undefined
  const found = async (key: string) => {
    for (const choice of keyChoices(key)) {
      const value = await optional(choice)
      if (value !== undefined) return { value, key: choice }
    }
    throw new StorageError(`Secret ${name} has no ${key}`, { reason: 'MissingCredentials' })
  }
  const id = await found(accessKeyIdKey)
  // A token beside other keys than its own would have them refused.
  const defaultToken = sessionTokenKeyOf(id.key)
  const token =
    sessionTokenKey === undefined
      ? defaultToken && (await optional(defaultToken))
      : (await found(sessionTokenKey)).value
  return {
    accessKeyId: id.value,
    secretAccessKey: (await found(secretAccessKeyKey)).value,
    ...(token !== undefined && { sessionToken: token }),
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
