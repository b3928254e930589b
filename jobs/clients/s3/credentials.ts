/** Credentials of a bucket: a Secret's keys, mounted as files for a Job, or as the service reads them. */
import { join } from 'node:path'
import { StorageError } from '../../../crds/contract/errors.ts'
import { secretKeyAliases, defaultSessionTokenKey, type S3Target } from '../../../crds/storage.ts'
import { readSecretFile } from '../kubernetes/access.ts'

export interface BucketCredentials {
  accessKeyId: string
  secretAccessKey: string
  /** Of temporary credentials. */
  sessionToken?: string | undefined
  /** Certificate authority of the store, PEM: key `ca.crt` of the same Secret. */
  ca?: string | undefined
}

type SecretReference = S3Target['credentialsSecretRef']

/** Name of the folder a Job finds the Secret in. */
export const BUCKET_CREDENTIAL = 'bucket'

/** Picks the credentials out of a Secret. Names the key that is missing, never a value. */
export async function parseCredentials(
  { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey }: SecretReference,
  read: (key: string) => Promise<string | undefined> | string | undefined,
): Promise<BucketCredentials> {
  const optional = async (key: string) => (await read(key))?.trim() || undefined
  const required = async (key: string) => {
    for (const candidate of secretKeyAliases(key)) {
      const value = await optional(candidate)
      if (value !== undefined) return { value, key: candidate }
    }
    throw new StorageError(`Secret ${name} has no ${key}`, { reason: 'MissingCredentials' })
  }
  const id = await required(accessKeyIdKey)
  // A token beside other keys than its own would have them refused.
  const defaultToken = defaultSessionTokenKey(id.key)
  const token =
    sessionTokenKey === undefined
      ? defaultToken && (await optional(defaultToken))
      : (await required(sessionTokenKey)).value
  return {
    accessKeyId: id.value,
    secretAccessKey: (await required(secretAccessKeyKey)).value,
    ...(token !== undefined && { sessionToken: token }),
    ca: (await read('ca.crt')) || undefined,
  }
}

/** As the files say that are mounted now. */
export function mountedBucketCredentials(
  reference: SecretReference,
  env: NodeJS.ProcessEnv = process.env,
): () => Promise<BucketCredentials> {
  const folder = join(env['VEC_CREDENTIALS'] ?? '/var/run/vec', BUCKET_CREDENTIAL)
  return () => parseCredentials(reference, (key) => readSecretFile(join(folder, key)))
}
