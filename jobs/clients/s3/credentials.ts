/**
 * Credentials of a bucket: the keys of a Secret, mounted as files in a Job or read by the service. Also the certificate
 * authority that a bucket names, as a file in a Job, and how TLS trusts it.
 */
import { getCACertificates } from 'node:tls'
import { StorageError } from '../../../crds/contract/errors.ts'
import {
  secretKeyAliases,
  defaultSessionTokenKey,
  type CredentialsSecretRef,
  caRefOf,
  type BucketAccess,
} from '../../../crds/storage.ts'
import { credentialFile, readSecretFile } from '../kubernetes/access.ts'
import { BUCKET_CA, isCertificateBundle } from '../../../crds/certificates.ts'

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
const BUCKET_CREDENTIAL = 'bucket'

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

/** Reads the current authority, in PEM; undefined if the bucket names none. */
export type CaReader = () => string | undefined

/**
 * Reads the currently mounted file. The reader throws `StorageError` while the file is missing or has no
 * certificate: the store would not be trusted.
 */
export function mountedBucketCa(
  access: BucketAccess,
  env: NodeJS.ProcessEnv = process.env,
): CaReader {
  const reference = caRefOf(access)
  if (reference === undefined) return () => undefined
  const { field, kind, name, key } = reference
  const file = credentialFile(env, BUCKET_CA, key)
  let checked: string | undefined
  return () => {
    const pem = readSecretFile(file)
    if (pem !== undefined && pem === checked) return pem
    if (pem !== undefined && isCertificateBundle(pem)) return (checked = pem)
    const problem = (pem ?? '') === '' ? 'no value' : 'no valid certificate (PEM)'
    throw new StorageError(`${field}: ${kind} ${name} has ${problem} in key ${key}`, {
      reason: 'MissingCredentials',
    })
  }
}

/** The same credentials with this authority; without one, that of the Secret remains. */
export function withCa(read: CredentialsReader, readCa: CaReader): CredentialsReader {
  return async (options) => {
    const ca = readCa()
    const credentials = await read(options)
    return ca === undefined ? credentials : { ...credentials, ca }
  }
}

/** Options of TLS: a private authority is trusted in addition to the known ones. */
export function trustOptions(ca: string | undefined): { ca?: string[] } {
  return ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
}
