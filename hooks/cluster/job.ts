/**
 * The helm run of a VecCluster: its plan, whether it is due, its RBAC and its Jobs.
 *
 * The values of a run keep node 0 from founding a second cluster. The chart starts node 0 without an address to join, so
 * node 0 with an empty volume would found a cluster of its own behind the same Service
 * (docs/engine-notes.md). Once the cluster was formed, which consensus.ts records in a ConfigMap, node 0
 * with a volume that knows no other node joins one of them instead.
 */
import { isDeepStrictEqual } from 'node:util'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Risk, UninstallPlan, UpgradePlan } from '../../crds/contract/job.ts'
import {
  ANNOTATIONS,
  apiKeySecretName,
  readAnnotation,
  releaseName,
  shortHash,
  FORMATION_NODES_KEY,
  formationConfigMapName,
} from '../../crds/contract/names.ts'
import { isUnfinished, newJob } from '../job.ts'
import type { Child, Settings } from '../protocol.ts'
import { jobRbac, type JobRbac } from '../rbac.ts'
import type { DesiredRun, Observed } from './observed.ts'
import { dataVolumeSize } from './capacity.ts'
import { plannedVolumes } from './volumes.ts'
import {
  acceptedRisks,
  fingerprints,
  parseAppliedSpec,
  referencedSecrets,
  valueAt,
} from './validation.ts'
import { chartValues, isMap } from './values.ts'
import { versionSteps } from './version-steps.ts'

export function desiredRun(observed: Observed, settings: Settings): DesiredRun {
  const { cluster, secrets } = observed
  const defaultAffinity = hasDefaultAffinity(observed)
  const { metadata, spec } = cluster
  const startMark = readAnnotation(metadata.annotations, ANNOTATIONS.restartedAt)
  const values = chartValues(cluster, {
    hasCaCertificate: secrets.get(spec.tls.secretRef?.name ?? '')?.data?.['ca.crt'] !== undefined,
    defaultAffinity,
    dataVolumeSize: dataVolumeSize(observed),
  })
  const target = {
    ...planTarget(cluster),
    release: releaseName(metadata.name),
    chart: settings.chart.name,
    repository: settings.chart.repository,
    version: versionSteps(observed).version,
    values,
    secretFingerprints: fingerprints(referencedSecrets(spec), secrets),
    acceptedRisks: acceptedRisks(cluster).filter((risk) => !RISKS_OUTSIDE_HELM.has(risk)),
    engine: { tls: spec.tls.enabled, p2p: spec.cluster.enabled },
  }
  const guardedValues = withBootstrapGuard(values, cluster)
  return {
    ...target,
    values: guardedValues,
    podsHash: podsHash({ ...target, values: guardedValues }),
    volumes: plannedVolumes(spec, dataVolumeSize(observed)),
    ...(defaultAffinity && { defaultAffinity }),
    ...(isGated(observed, target.secretFingerprints) && { isGated: true }),
    generation: metadata.generation,
    ...(startMark !== undefined && { startMark }),
    spec,
    hash: shortHash(JSON.stringify({ ...target, generation: metadata.generation, startMark })),
  }
}

/** Risks that the helm run does not check: accepting one of them is no reason for a run. */
const RISKS_OUTSIDE_HELM = new Set<Risk>(['last-copy', 'no-backup'])

/** Values of the chart that are no part of the template of the pods. Volumes grow while the pods run. */
const VALUES_OUTSIDE_PODS = new Set([
  ...['replicaCount', 'podDisruptionBudget', 'metrics'],
  ...['persistence', 'snapshotPersistence'],
])

/** Two runs with the same hash leave the pods as they are, apart from their number. */
function podsHash({
  chart,
  repository,
  version,
  values,
  secretFingerprints,
}: Pick<DesiredRun, 'chart' | 'repository' | 'version' | 'values' | 'secretFingerprints'>): string {
  const ofPods = Object.entries(values).filter(([name]) => !VALUES_OUTSIDE_PODS.has(name))
  return shortHash('pods', JSON.stringify([chart, repository, version, ofPods, secretFingerprints]))
}

/**
 * Whether the pods are updated one by one by a Job on the shards. It asks all nodes for their shards:
 * pods that run with another key or certificate than the spec names do not answer it. A cluster that
 * was never formed has nothing to protect.
 */
function isGated({ cluster, progress }: Observed, secretFingerprints: object): boolean {
  const { spec, status, metadata } = cluster
  if (!spec.cluster.enabled || (status?.formedNodes ?? 0) <= 1) return false
  if (progress?.applied === undefined) return false
  const applied = parseAppliedSpec(metadata.annotations?.[ANNOTATIONS.lastAppliedSpec])
  return (
    isDeepStrictEqual(progress.applied.secretFingerprints, secretFingerprints) &&
    ACCESS_FIELDS.every((field) => isDeepStrictEqual(valueAt(applied, field), spec[field]))
  )
}

/** What decides how the nodes are reached. */
const ACCESS_FIELDS = ['tls', 'apiKey', 'readOnlyApiKey'] as const

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
export function uninstallRun(cluster: VecCluster): Omit<UninstallPlan, 'run'> {
  const release = releaseName(cluster.metadata.name)
  return { ...planTarget(cluster), release, hash: shortHash('uninstall', cluster.metadata.uid) }
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
  return observed.progress?.applied?.planHash === desired.hash ? undefined : desired
}

/** The run that creates a missing StatefulSet again, with the values that were applied. */
export function recreationRun(observed: Observed, settings: Settings): DesiredRun | undefined {
  const { statefulSet, progress, jobs } = observed
  if (statefulSet !== undefined || progress?.applied === undefined) return undefined
  return jobs.some(isUnfinished) ? undefined : desiredRun(observed, settings)
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

type Values = Record<string, unknown>

const VOLUME = 'formation'
const DIRECTORY = '/qdrant/formation'

/**
 * Adds the guard to the values of a release. The hash of a plan does not cover it: a cluster that was
 * installed without it gets it with its next helm run, not with a restart of its own.
 */
export function withBootstrapGuard(values: Values, { metadata, spec }: VecCluster): Values {
  if (!spec.cluster.enabled) return values
  const configMap = { name: formationConfigMapName(metadata.name), optional: true }
  return {
    ...values,
    args: [guardScript({ metadata, spec })],
    additionalVolumes: [...listOf(values['additionalVolumes']), { name: VOLUME, configMap }],
    additionalVolumeMounts: [
      ...listOf(values['additionalVolumeMounts']),
      { name: VOLUME, mountPath: DIRECTORY, readOnly: true },
    ],
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

/**
 * Runs in bash, before the start script of the chart, and uses nothing but bash and `sleep`. A volume that
 * names another node in its consensus state belongs to the cluster. A file without another node does not:
 * a refused join leaves one behind. The record is read again in every round, so that removing the
 * ConfigMap lets node 0 found a new cluster when every volume is lost.
 */
function guardScript({ metadata, spec }: Pick<VecCluster, 'metadata' | 'spec'>): string {
  const release = releaseName(metadata.name)
  const { port, enableTls } = spec.cluster.p2p
  return `formed_nodes() { nodes=$(<${DIRECTORY}/${FORMATION_NODES_KEY}); [[ $nodes =~ ^[0-9]{1,4}$ ]] || nodes=0; } 2>/dev/null
knows_others() { [[ $(<${storagePath(spec.config)}/raft_state.json) =~ ${release}-[1-9][0-9]*[.] ]]; } 2>/dev/null
answers() {
  (exec 3<>"/dev/tcp/$1/${port}") 2>/dev/null &
  local check=$!
  for _ in 1 2 3 4 5; do kill -0 $check 2>/dev/null || break; sleep 0.4; done
  kill $check 2>/dev/null
  wait $check 2>/dev/null
}
if [ "\${HOSTNAME##*-}" = 0 ]; then
  formed_nodes
  while [ $nodes -gt 1 ] && ! knows_others; do
    for ((i = 1; i < nodes; i++)); do
      host=${release}-$i.${release}-headless
      if answers $host; then
        echo "the volume of node 0 names no other node: joining the formed cluster through $host"
        export QDRANT_BOOTSTRAP=${enableTls ? 'https' : 'http'}://$host:${port}
        break 2
      fi
    done
    echo "the volume of node 0 names no other node, and the cluster was formed with $nodes nodes: waiting for another node"
    sleep 2
    formed_nodes
  done
fi
exec ./config/initialize.sh
`
}

/** Where the engine stores its consensus state, relative to its working directory. */
function storagePath(config: Values): string {
  const { storage } = config
  const path = isMap(storage) ? storage['storage_path'] : undefined
  return typeof path === 'string' && /^[\w./-]+$/.test(path) ? path : './storage'
}
