/** What stops a helm run before it starts: settings that would do harm or cannot be applied. */
import { IMAGE_REPOSITORY } from '../../crds/cluster-sections.ts'
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, HTTP_PORT, releaseName } from '../../crds/names.ts'
import { amountOf } from '../../crds/quantity.ts'
import { isMap } from './values.ts'

interface Entry {
  /** Of the engine's configuration. */
  entry: string
  /** What the operator works with. */
  value: (spec: ClusterSpec) => unknown
  /** Where that comes from. */
  source: string
}

/**
 * Entries that the operator itself depends on: where one had another value, Service, probes, status and
 * calls would disagree with the engine. All others are the user's, also those below `tls`.
 */
const FIXED: readonly Entry[] = [
  ...[
    ['cluster.enabled', (spec: ClusterSpec) => spec.cluster.enabled] as const,
    ['cluster.p2p.port', (spec: ClusterSpec) => spec.cluster.p2p.port] as const,
  ].map(([entry, value]) => ({ entry, value, source: `spec.${entry}` })),
  {
    entry: 'cluster.p2p.enable_tls',
    value: ({ cluster }) => cluster.p2p.enableTls,
    source: 'spec.cluster.p2p.enableTls',
  },
  { entry: 'service.enable_tls', value: ({ tls }) => tls.enabled, source: 'spec.tls.enabled' },
  {
    entry: 'service.jwt_rbac',
    value: ({ apiKey }) => apiKey?.jwtRbac ?? false,
    source: 'spec.apiKey.jwtRbac',
  },
  { entry: 'service.http_port', value: () => HTTP_PORT, source: 'the Service of the chart' },
  { entry: 'service.grpc_port', value: () => GRPC_PORT, source: 'the Service of the chart' },
]
const GRPC_PORT = 6334
/** Readable by everybody who may read ConfigMaps, and unknown to the operator. */
const KEYS: readonly (readonly [entry: string, field: string])[] = [
  ['service.api_key', 'spec.apiKey.secretRef'],
  ['service.alt_api_key', 'spec.apiKey.secretRef'],
  ['service.read_only_api_key', 'spec.readOnlyApiKey.secretRef'],
]
/** Anything else in the place of these would remove the entries of the operator in them. */
const MAPS = ['cluster', 'cluster.p2p', 'service', 'tls']

/** Why no helm run may start with this spec, naming the field; undefined when it may. */
export function obstacleOf(
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
): string | undefined {
  return (
    configConflict(cluster.spec) ??
    templateText(cluster.spec) ??
    unsafeImage(cluster.spec) ??
    (statefulSet && (notDistributedYet(cluster) ?? changedSnapshotVolume(cluster, statefulSet)))
  )
}

function configConflict(spec: ClusterSpec): string | undefined {
  const { config } = spec
  for (const entry of MAPS) {
    const value = at(config, entry)
    if (value !== undefined && !isMap(value)) return `spec.config.${entry} must be a map`
  }
  for (const [entry, field] of KEYS) {
    if (at(config, entry) !== undefined) {
      return `spec.config.${entry} would put a key into a ConfigMap: use ${field}`
    }
  }
  for (const { entry, value, source } of FIXED) {
    const [own, theirs] = [value(spec), at(config, entry)]
    if (theirs !== undefined && theirs !== own) {
      return `spec.config.${entry} is ${JSON.stringify(theirs)}, but ${source} has ${JSON.stringify(own)}: remove the entry`
    }
  }
  return undefined
}

function at(config: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((value, key) => (isMap(value) ? value[key] : undefined), config)
}

/** The chart evaluates templates in these two, with helm's rights: a user could read any Secret. */
function templateText({ config, affinity }: ClusterSpec): string | undefined {
  for (const [field, value] of Object.entries({ config, affinity })) {
    if (JSON.stringify(value ?? {}).includes('{{')) {
      return `spec.${field} holds "{{", which the chart would run as a template`
    }
  }
  return undefined
}

/** Checked by the CRD too; an object that an older CRD admitted may hold anything. */
function unsafeImage({ image }: ClusterSpec): string | undefined {
  if (new RegExp(IMAGE_REPOSITORY).test(image.repository)) return undefined
  return 'spec.image.repository must be a registry and path without tag: the chart would read other text as YAML'
}

/**
 * The first node must be distributed before others join it: they are not Ready without it, and the
 * StatefulSet replaces it only once they are.
 */
function notDistributedYet({ metadata, spec }: VecCluster): string | undefined {
  const applied = appliedSpec(metadata.annotations?.[ANNOTATIONS.lastAppliedSpec])
  if (spec.replicas === 1 || at(applied, 'cluster.enabled') !== false) return undefined
  return `spec.replicas is ${spec.replicas}, but spec.cluster.enabled is not applied yet: set spec.replicas to 1 until the cluster is Running with it`
}

/** A user may have changed the annotation. */
function appliedSpec(text = 'null'): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Volume templates of a StatefulSet never change; helm would fail with half of its work done. */
function changedSnapshotVolume(
  { metadata, spec }: VecCluster,
  statefulSet: StatefulSet,
): string | undefined {
  const templates = statefulSet.spec.volumeClaimTemplates ?? []
  const { enabled, size, storageClassName } = spec.snapshotPersistence
  const live = templates.find((template) => template.metadata.name.includes('snapshots'))
  const release = releaseName(metadata.name)
  if (enabled !== (live !== undefined)) {
    return `spec.snapshotPersistence.enabled is fixed at creation: StatefulSet ${release} has it ${enabled ? 'off' : 'on'}`
  }
  if (live === undefined) return undefined
  const { storage } = live.spec.resources?.requests ?? {}
  if (amountOf(storage ?? '') !== amountOf(size)) {
    return `spec.snapshotPersistence.size is fixed at creation: StatefulSet ${release} has ${storage ?? 'none'}`
  }
  if (storageClassName !== undefined && live.spec.storageClassName !== storageClassName) {
    return `spec.snapshotPersistence.storageClassName is fixed at creation: StatefulSet ${release} has ${live.spec.storageClassName ?? 'the default class'}`
  }
  return undefined
}
