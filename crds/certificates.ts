/** Certificate authorities in PEM: how a bucket names one, and whether a text is one, or a bundle of them. */
import { X509Certificate } from 'node:crypto'

/** The certificate authority that a bucket names. */
export interface CaRef {
  field: 'caSecretRef' | 'caConfigMapRef'
  kind: 'Secret' | 'ConfigMap'
  name: string
  key: string
}

/** Name of the credential with the certificate authority of a bucket: its folder in a Job, and its copy. */
export const BUCKET_CA = 'bucket-ca'

const BEGIN = '-----BEGIN CERTIFICATE-----'
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Whether every certificate of the text can be read, and there is one. TLS would silently ignore all that
 * follow a broken one. Text between certificates is a comment.
 */
export function isCertificateBundle(pem: string): boolean {
  const certificates = pem.match(CERTIFICATE) ?? []
  const isWhole = certificates.length === pem.split(BEGIN).length - 1
  return isWhole && certificates.length > 0 && certificates.every(isCertificate)
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}
