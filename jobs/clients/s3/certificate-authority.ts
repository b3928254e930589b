/** The certificate authority that a bucket names, as a file in a Job, and how TLS trusts it. */
import { getCACertificates } from 'node:tls'
import { BUCKET_CA, isCertificateBundle } from '../../../crds/certificates.ts'
import { StorageError } from '../../../crds/contract/errors.ts'
import { caRefOf, type BucketAccess } from '../../../crds/storage.ts'
import { credentialFile, readSecretFile } from '../kubernetes/access.ts'
import type { CredentialsReader } from './credentials.ts'

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
