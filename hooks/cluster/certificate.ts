/**
 * The restart of nodes after a renewal of their certificate. The engine reads a renewed certificate again for HTTPS
 * only; gRPC and the connections between nodes use it after a restart (docs/engine-notes.md). An annotation of the
 * pods has the fingerprint of the certificate, so that a renewal changes their template, and they are restarted one
 * by one like for an update.
 *
 * During that update, nodes with the former and with the new certificate must accept each other, and the Job that
 * releases them must accept both. So nothing is restarted if a certificate authority has disappeared.
 */
import type { AppliedCertificate } from '../../crds/contract/job.ts'
import { shortHash } from '../../crds/contract/names.ts'
import { secretValue, type Secret } from '../../crds/kubernetes.ts'
import type { Observed } from './ports.ts'

/** What a helm run applies and records; undefined without TLS, or without a certificate. */
export function plannedCertificate({
  cluster: { spec, status },
  progress,
  secrets,
}: Pick<Observed, 'cluster' | 'progress' | 'secrets'>): AppliedCertificate | undefined {
  const secret = secrets.get(spec.tls.secretRef?.name ?? '')
  const certificate = secretValue(secret, 'tls.crt')
  if (!spec.tls.enabled || certificate === undefined) return undefined
  const parts = ['tls.crt', 'tls.key', 'ca.crt'].map((key) => secret?.data?.[key] ?? null)
  const fingerprint = shortHash('certificate', JSON.stringify(parts))
  const planned = { fingerprint, authorities: authoritiesIn(secret, certificate) }
  const former = progress?.applied?.certificate
  const isInstallation = progress?.applied === undefined && status?.helmRelease === undefined
  const isRenewed = former !== undefined && former.fingerprint !== fingerprint
  const restarts =
    isRenewed && spec.tls.restartOnRenewal !== false && isTrusted(planned, former.authorities)
  // Nodes of a release without the annotation are not restarted only to have it.
  const mark = isInstallation || restarts ? fingerprint : former?.mark
  return { ...planned, ...(mark !== undefined && { mark }) }
}

/** Whether all nodes and clients that trust the former authorities may continue to trust only these. */
export function isTrusted(
  { authorities }: Pick<AppliedCertificate, 'authorities'>,
  former: readonly string[],
): boolean {
  return former.every((authority) => authorities.includes(authority))
}

/** Of `ca.crt`. Without it, nodes trust what is in `tls.crt`: the certificates after their own, or that one. */
function authoritiesIn(secret: Secret | undefined, certificate: string): string[] {
  const own = certificatesIn(secretValue(secret, 'ca.crt') ?? '')
  if (own.length > 0) return own
  const [first, ...chain] = certificatesIn(certificate)
  if (first === undefined) return []
  return chain.length > 0 ? chain : [first]
}

function certificatesIn(pem: string): string[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  const hashes = blocks.map((block) => shortHash(block.replaceAll(/\s/g, '')))
  return hashes.length > MAX_AUTHORITIES ? [shortHash(...hashes)] : hashes
}

/** More are compared as a whole: the report of a helm run has a limit. */
const MAX_AUTHORITIES = 32
