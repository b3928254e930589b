/**
 * The restart of nodes after a renewal of their certificate. The engine reads a renewed certificate again for HTTPS
 * only; gRPC and the connections between nodes use it after a restart (docs/engine-notes.md). An annotation of the
 * pods has a hash of the certificate, so that a renewal changes their template, and they are restarted one by one like
 * for an update.
 *
 * During that update, nodes with the former and with the new certificate must accept each other. What is recorded is
 * therefore the certificate that the nodes were last restarted with, and not what the Secret has since then.
 */
import { X509Certificate } from 'node:crypto'
import type { ClusterStatus } from '../../crds/cluster.ts'
import type { AppliedCertificate } from '../../crds/contract/job.ts'
import { ANNOTATIONS, shortHash } from '../../crds/contract/names.ts'
import { secretValue, type Secret } from '../../crds/kubernetes.ts'
import { timestamp, type ConditionUpdate } from '../conditions.ts'
import { isHibernated } from './hibernate.ts'
import type { Observed } from './ports.ts'
import { isRolledOut } from './rollout.ts'

/** What a helm run applies and records; undefined without TLS, or without a certificate. */
export function plannedCertificate({
  cluster,
  progress,
  secrets,
}: Pick<Observed, 'cluster' | 'progress' | 'secrets'>): AppliedCertificate | undefined {
  const current = currentCertificate({ cluster, secrets })
  if (current === undefined) return undefined
  const former = progress?.applied?.certificate
  const mark = hashOf(current)
  if (former === undefined) {
    const { helmRelease } = cluster.status ?? {}
    const isInstallation = progress?.applied === undefined && helmRelease === undefined
    // Nodes of a release without the annotation are not restarted only to have it.
    return isInstallation ? { ...current, mark } : current
  }
  // A user restarts the nodes: they get what the Secret has, whatever its authority is.
  if (current.restart !== former.restart) {
    return { ...current, ...(former.mark !== undefined && { mark: former.mark }) }
  }
  const isRenewed = hashOf(current) !== hashOf(former)
  const restarts = isRenewed && cluster.spec.tls.restartOnRenewal !== false
  return restarts && isAcceptedByNodes(current, former) ? { ...current, mark } : former
}

/** What the Secret has now. */
export function currentCertificate({
  cluster: { metadata, spec },
  secrets,
}: Pick<Observed, 'cluster' | 'secrets'>): AppliedCertificate | undefined {
  const secret = secrets.get(spec.tls.secretRef?.name ?? '')
  const certificate = secretValue(secret, 'tls.crt')
  if (!spec.tls.enabled || certificate === undefined) return undefined
  const parts = ['tls.crt', 'tls.key'].map((key) => secret?.data?.[key] ?? null)
  const restart = metadata.annotations?.[ANNOTATIONS.restart]
  return {
    fingerprint: shortHash('certificate', JSON.stringify(parts)),
    authorities: authoritiesIn(secret, certificate).toSorted(),
    ...(restart !== undefined && { restart: shortHash(restart) }),
    ...expiryOf(certificate),
  }
}

/**
 * A renewed certificate that no helm run restarts the nodes for. Another change of their template restarts them as
 * well: the revision shows whether all pods were started since it was first seen.
 */
export function pendingCertificate(
  observed: Observed,
): NonNullable<ClusterStatus['pendingCertificate']> | undefined {
  const { cluster, statefulSet, progress } = observed
  const current = currentCertificate(observed)
  const former = progress?.applied?.certificate
  if (!cluster.spec.tls.enabled || former === undefined) return undefined
  // The Secret is missing for now.
  if (current === undefined) return cluster.status?.pendingCertificate
  const hash = hashOf(current)
  const planned = plannedCertificate(observed) ?? current
  if (hash === hashOf(former) || hash === hashOf(planned)) return undefined
  // Pods that are started later read the renewed one.
  if (isHibernated(observed)) return { hash }
  const revision = statefulSet?.status?.updateRevision
  const recorded = cluster.status?.pendingCertificate
  if (recorded?.hash !== hash) return revision === undefined ? undefined : { hash, revision }
  const isRestarted = revision !== undefined && revision !== recorded.revision
  return isRestarted && isRolledOut(observed) ? { hash } : recorded
}

/** Present only while nodes use a certificate that was renewed, and no helm run restarts them. */
export function certificateCondition(
  observed: Observed,
  pending: ClusterStatus['pendingCertificate'],
): ConditionUpdate | undefined {
  if (pending?.revision === undefined) return undefined
  const current = currentCertificate(observed)
  const former = observed.progress?.applied?.certificate
  if (current === undefined || former === undefined) return undefined
  const { tls, cluster } = observed.cluster.spec
  const connections = cluster.p2p.enableTls ? 'gRPC and the connections between nodes' : 'gRPC'
  const expiry = former.expiresAt === undefined ? '' : ` at ${former.expiresAt}`
  const renewal = `Secret ${tls.secretRef?.name ?? ''} has another certificate: nodes that were not restarted since then use the former one for ${connections} until it expires${expiry}`
  const annotation = `set the annotation ${ANNOTATIONS.restart} to another value`
  const update = { type: 'CertificateInUse', status: 'False' } as const
  return isAcceptedByNodes(current, former)
    ? {
        ...update,
        reason: 'RestartDisabled',
        message: `${renewal}; spec.tls.restartOnRenewal is false: to restart them one by one, ${annotation}`,
      }
    : {
        ...update,
        reason: 'AuthorityChanged',
        message: `${renewal}; its authorities have changed as well, so they are restarted only on request: ${annotation}`,
      }
}

/** Whether what trusts these authorities also verifies nodes that still have the former certificate. */
export function hasFormerAuthorities(
  { authorities }: AppliedCertificate,
  former: AppliedCertificate,
): boolean {
  return former.authorities.every((authority) => authorities.includes(authority))
}

/**
 * Whether nodes with either certificate accept each other. An authority that is new may have signed the new
 * certificate, and nodes that were not restarted yet do not know it.
 */
function isAcceptedByNodes(current: AppliedCertificate, former: AppliedCertificate): boolean {
  const isSameCertificate = current.fingerprint === former.fingerprint
  return (
    hasFormerAuthorities(current, former) &&
    (isSameCertificate || hasFormerAuthorities(former, current))
  )
}

function hashOf({ fingerprint, authorities }: AppliedCertificate): string {
  return shortHash(fingerprint, ...authorities)
}

/** Nothing for a text that is no certificate: the engine says so. */
function expiryOf(certificate: string): Pick<AppliedCertificate, 'expiresAt'> {
  try {
    return { expiresAt: timestamp(new Date(new X509Certificate(certificate).validTo)) }
  } catch {
    return {}
  }
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
