/** The helm run of a VecCluster: its plan, whether it is due, its RBAC and its Jobs. */
import { isDeepStrictEqual } from 'node:util'
import type { VecCluster } from '../../crds/cluster.ts'
import type { PlannedKeys } from '../../crds/contract/api-keys.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { MonitorTls, Risk, UninstallPlan, UpgradePlan } from '../../crds/contract/job.ts'
import {
  ANNOTATIONS,
  apiKeySecretName,
  readAnnotation,
  releaseName,
  serviceHost,
  shortHash,
} from '../../crds/contract/names.ts'
import { newJob, jobRbac, type JobRbac } from '../job.ts'
import { secondsSinceRecorded } from '../conditions.ts'
import { isUnfinished } from '../request.ts'
import type { Child, Context, Settings } from '../protocol.ts'
import { withBootstrapGuard } from './bootstrap-guard.ts'
import { currentCertificate, hasFormerAuthorities, plannedCertificate } from './certificate.ts'
import { isPartlyApplied } from './keys/partly-applied.ts'
import type { DesiredRun, Observed } from './ports.ts'
import { claimTemplates, dataVolumeSize, plannedVolumes } from './volumes.ts'
import {
  acceptedRisks,
  fingerprints,
  parseAppliedSpec,
  referencedSecrets,
  valueAt,
} from './validation.ts'
import { chartValues } from './values.ts'
import { versionSteps } from './version-steps.ts'
import { podsHash } from './windows.ts'

export function desiredRun(observed: Observed, settings: Settings): DesiredRun {
  const { cluster, secrets } = observed
  const defaultAffinity = hasDefaultAffinity(observed)
  const keys = observed.rotation?.plan
  const { metadata, spec } = cluster
  const startMark = readAnnotation(metadata.annotations, ANNOTATIONS.restartedAt)
  const hasCaCertificate =
    secrets.get(spec.tls.secretRef?.name ?? '')?.data?.['ca.crt'] !== undefined
  const certificate = plannedCertificate(observed)
  const monitorTls = plannedMonitorTls(cluster, hasCaCertificate, settings)
  const values = chartValues(cluster, {
    hasCaCertificate,
    defaultAffinity,
    dataVolumeSize: dataVolumeSize(observed),
    keys,
    certificateMark: certificate?.mark,
  })
  const references = fingerprintedSecrets(spec, keys)
  const target = {
    ...planTarget(cluster),
    release: releaseName(metadata.name),
    chart: settings.chart.name,
    repository: settings.chart.repository,
    version: versionSteps(observed).version,
    values,
    secretFingerprints: fingerprints(references, secrets),
    acceptedRisks: acceptedRisks(cluster).filter((risk) => !RISKS_OUTSIDE_HELM.has(risk)),
    engine: { tls: spec.tls.enabled, p2p: spec.cluster.enabled },
    ...(monitorTls !== undefined && { monitorTls }),
  }
  const guardedValues = withBootstrapGuard(values, cluster)
  const applied = observed.progress?.applied
  const hash = shortHash(JSON.stringify({ ...target, generation: metadata.generation, startMark }))
  return {
    ...target,
    values: guardedValues,
    podsHash: podsHash({ ...target, values: guardedValues, keys, digest: spec.image.digest }),
    ...(keys !== undefined && { keys: plannedKeys(observed, keys, target.secretFingerprints) }),
    ...(certificate !== undefined && { certificate }),
    volumes: plannedVolumes(spec, dataVolumeSize(observed)),
    ...(defaultAffinity && { defaultAffinity }),
    ...(isGated(observed, target.secretFingerprints) && { isGated: true }),
    ...((observed.missingObjects ?? []).length > 0 && { recreatesObjects: true as const }),
    ...(applied?.planHash === hash &&
      applied.publishedKey !== undefined && { appliedKey: applied.publishedKey }),
    generation: metadata.generation,
    ...(startMark !== undefined && { startMark }),
    spec,
    hash,
  }
}

/** The chart's ServiceMonitor has the scheme http, and no value changes it. */
function plannedMonitorTls(
  { metadata, spec }: VecCluster,
  hasCaCertificate: boolean,
  { clusterDomain }: Settings,
): MonitorTls | undefined {
  const { tls, metrics } = spec
  if (!tls.enabled || !metrics.enabled || !metrics.serviceMonitor.enabled) return undefined
  return {
    // All nodes have this name in their certificate, and Prometheus connects to their addresses.
    serverName: serviceHost(metadata, clusterDomain),
    ...(hasCaCertificate && tls.secretRef !== undefined && { caSecret: tls.secretRef.name }),
  }
}

/** Risks that the helm run does not check: accepting one of them is no reason for a run. */
const RISKS_OUTSIDE_HELM = new Set<Risk>(['last-copy', 'no-backup', 'split-brain'])

/**
 * Whether the pods are updated one by one by a Job on the shards. It asks all nodes for their shards:
 * pods that run with another key, or with a certificate of another authority, than the spec names do not answer it,
 * and neither do those of a rotation with a gap. The read-only key is for clients alone. A cluster that was never
 * formed has nothing to protect.
 */
function isGated(observed: Observed, secretFingerprints: Record<string, string>): boolean {
  const { cluster, progress, rotation } = observed
  const { spec, status, metadata } = cluster
  if (!spec.cluster.enabled || (status?.formedNodes ?? 0) <= 1) return false
  if (progress?.applied === undefined || rotation?.isGap === true) return false
  const applied = parseAppliedSpec(metadata.annotations?.[ANNOTATIONS.lastAppliedSpec])
  // All nodes accept the published key during a rotation, whatever its source is.
  const isKeyAccepted = rotation !== undefined
  const { secretFingerprints: former, certificate: formerCertificate } = progress.applied
  const certificate = currentCertificate(observed)
  const isVerified =
    certificate !== undefined &&
    formerCertificate !== undefined &&
    hasFormerAuthorities(certificate, formerCertificate)
  const compared = (isKeyAccepted ? [] : Object.keys(former))
    .concat(Object.keys(secretFingerprints))
    .filter((name) => !isReadOnlySecret(name, [applied, spec]))
    .filter((name) => !isVerified || !isCertificateSecret(name, spec))
  return (
    isDeepStrictEqual(only(former, compared), only(secretFingerprints, compared)) &&
    ACCESS_FIELDS.filter((field) => field !== 'apiKey' || !isKeyAccepted).every((field) =>
      isDeepStrictEqual(valueAt(applied, field), valueAt(spec, field)),
    )
  )
}

function only(fingerprints: Record<string, string>, names: string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(fingerprints).filter(([name]) => names.includes(name)))
}

/** The keys of a rotation are compared by themselves. */
function fingerprintedSecrets(spec: VecCluster['spec'], keys: PlannedKeys | undefined) {
  return referencedSecrets(spec).filter(
    ({ field }) => keys === undefined || field !== 'spec.apiKey.secretRef',
  )
}

/** The other keys of the Secret of the pods must be the same for pods to keep running. */
function plannedKeys(
  { progress }: Observed,
  { keepsPods, ...keys }: PlannedKeys,
  secretFingerprints: Record<string, string>,
): PlannedKeys {
  const isSame = isDeepStrictEqual(progress?.applied?.secretFingerprints, secretFingerprints)
  return { ...keys, ...(keepsPods === true && isSame && { keepsPods }) }
}

/** What decides how the nodes are reached. */
const ACCESS_FIELDS = ['tls.enabled', 'tls.secretRef', 'apiKey'] as const

/** Of no API key. */
function isCertificateSecret(name: string, { tls, apiKey }: VecCluster['spec']): boolean {
  return tls.secretRef?.name === name && apiKey?.secretRef?.name !== name
}

/** No node is reached with what the Secret has. */
function isReadOnlySecret(name: string, specs: unknown[]): boolean {
  const isNamedBy = (field: string) =>
    specs.some((spec) => valueAt(spec, `${field}.secretRef.name`) === name)
  return isNamedBy('readOnlyApiKey') && !isNamedBy('tls') && !isNamedBy('apiKey')
}

/**
 * Only clusters that were installed with the default affinity have it: others would be restarted
 * for it.
 */
function hasDefaultAffinity({ cluster, progress }: Observed): boolean {
  const { applied } = progress ?? {}
  if (applied !== undefined) return applied.defaultAffinity === true
  return cluster.status?.helmRelease === undefined
}

/** The uninstall run of a release; its hash does not depend on what was applied. */
export function uninstallRun({
  cluster,
  statefulSet,
}: Pick<Observed, 'cluster' | 'statefulSet'>): Omit<UninstallPlan, 'run'> {
  const { metadata, spec } = cluster
  const run = { ...planTarget(cluster), release: releaseName(metadata.name) }
  if (spec.persistence.onDelete !== 'Delete') {
    return { ...run, hash: shortHash('uninstall', metadata.uid) }
  }
  const nodes = Math.max(spec.replicas, statefulSet?.spec.replicas ?? 0)
  return {
    ...run,
    deletedVolumes: { templates: claimTemplates(statefulSet), nodes },
    hash: shortHash('uninstall', metadata.uid, 'Delete'),
  }
}

function planTarget({ metadata: { namespace, name, uid } }: VecCluster) {
  return { resource: 'vecclusters', namespace, name, uid }
}

/**
 * The run that is due: none while a Job is unfinished. The hash covers the values, the generation, the Secrets,
 * the start mark and the accepted risks.
 */
export function findPendingRun(observed: Observed, settings: Settings): DesiredRun | undefined {
  return observed.jobs.some(isUnfinished) ? undefined : unappliedRun(observed, settings)
}

/** The desired run, if and only if it differs from the run that was applied last. */
export function unappliedRun(observed: Observed, settings: Settings): DesiredRun | undefined {
  const desired = desiredRun(observed, settings)
  const isApplied = observed.progress?.applied?.planHash === desired.hash
  return isApplied && !isPartlyApplied(observed) ? undefined : desired
}

/** The run that gives a StatefulSet that was deleted or scaled by others the values that were applied. */
export function recreationRun(
  observed: Observed,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): DesiredRun | undefined {
  const { statefulSet, progress, jobs } = observed
  if (progress?.applied === undefined) return undefined
  if (!isChangedByOthers(observed, statefulSet, now)) return undefined
  return jobs.some(isUnfinished) ? undefined : desiredRun(observed, settings)
}

/** Another client that scales a StatefulSet, or deletes objects, repeatedly must not cause a helm run each time. */
const CHANGED_AGAIN_SECONDS = 300

/** The run that creates the objects of the release that another client has deleted. */
export function missingObjectsRun(
  observed: Observed,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): DesiredRun | undefined {
  const { missingObjects = [], progress, jobs } = observed
  if (missingObjects.length === 0 || jobs.some(isUnfinished)) return undefined
  const { recreatedObjects = false, at = '' } = progress?.applied ?? {}
  const isRepeated = recreatedObjects && secondsSinceRecorded(at, now) < CHANGED_AGAIN_SECONDS
  return isRepeated ? undefined : desiredRun(observed, settings)
}

/**
 * The StatefulSet is missing, or has fewer pods than the spec asks for, or has any while the cluster is hibernated.
 * Pods that are too many otherwise are drained.
 */
export function isChangedByOthers(
  { cluster, progress }: Pick<Observed, 'cluster' | 'progress'>,
  statefulSet: StatefulSet | undefined,
  now: Date,
): boolean {
  if (statefulSet === undefined) return true
  if (secondsSinceRecorded(progress?.applied?.at ?? '', now) < CHANGED_AGAIN_SECONDS) return false
  const { replicas = 1 } = statefulSet.spec
  const { hibernate, replicas: nodes } = cluster.spec
  return hibernate === true ? replicas > 0 : replicas < nodes
}

export function clusterRbac(cluster: VecCluster): JobRbac {
  return jobRbac(cluster, { kind: 'cluster', plural: 'vecclusters', helm: true })
}

export function upgradeJob(
  { metadata, spec }: VecCluster,
  plan: UpgradePlan,
  [account]: JobRbac,
  settings: Settings,
): Child {
  return newJob(
    {
      kind: 'cluster',
      verb: 'upgrade',
      plan,
      largeField: 'spec.config',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.helm,
      release: plan.release,
      chart: settings.chart,
      // The Job asks the engine for its shards before it removes a node.
      credentials: {
        engine: apiKeySecretName(metadata.name),
        ...(spec.tls.enabled && spec.tls.secretRef && { tls: spec.tls.secretRef.name }),
      },
    },
    settings,
  )
}

export function uninstallJob(plan: UninstallPlan, [account]: JobRbac, settings: Settings): Child {
  return newJob(
    {
      kind: 'cluster',
      verb: 'uninstall',
      plan,
      largeField: 'metadata.name',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.helm,
      release: plan.release,
      credentials: {},
    },
    settings,
  )
}
