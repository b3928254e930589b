/**
 * Credentials of a bucket: the keys of a Secret, mounted as files in a Job or read by the service.
 */
import { StorageError } from '../../../crds/contract/errors.ts'
import {
  secretKeyAliases,
  defaultSessionTokenKey,
  type CredentialsSecretRef,
} from '../../../crds/storage.ts'
import { credentialFile, readSecretFile } from '../kubernetes/access.ts'

export interface BucketCredentials {
  accessKeyId: string
  secretAccessKey: string
  /** Only for temporary credentials. */
  sessionToken?: string | undefined
  /** Certificate authority of the store, PEM: what the bucket names, or key `ca.crt` of the same Secret. */
  ca?: string | undefined
}

/**
 * Reads the current credentials. `renew` asks for others than those returned before, which the store
 * has rejected; a reader that cannot renew ignores it.
 */
export type CredentialsReader = (options?: { renew: boolean }) => Promise<BucketCredentials>

/** Name of the folder in which a Job finds the Secret. */
export const BUCKET_CREDENTIAL = 'bucket'

/** Extracts the credentials from a Secret. The error names the missing key, never a value. */
export async function parseCredentials(
  { name, accessKeyIdKey, secretAccessKeyKey, sessionTokenKey }: CredentialsSecretRef,
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
  // A token with keys other than its own would be rejected.
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

/** Reads the currently mounted files. */
export function mountedBucketCredentials(
  reference: CredentialsSecretRef,
  env: NodeJS.ProcessEnv = process.env,
): CredentialsReader {
  const read = (key: string) => readSecretFile(credentialFile(env, BUCKET_CREDENTIAL, key))
  return () => parseCredentials(reference, read)
}
