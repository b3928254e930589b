/** What stops a helm run before it starts: settings that would do harm or cannot be applied. */
import { IMAGE_REPOSITORY } from '../../crds/cluster-sections.ts'
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { releaseName } from '../../crds/names.ts'
import { amountOf } from '../../crds/quantity.ts'

/** Entries of the engine's configuration that have a field of their own, and that field. */
const FIELDS_OF_CONFIG: readonly (readonly [entry: string, field: string])[] = [
  ['cluster.enabled', 'spec.cluster.enabled'],
  ['cluster.p2p', 'spec.cluster.p2p'],
  ['service.host', 'spec.service'],
  ['service.http_port', 'spec.service'],
  ['service.grpc_port', 'spec.service'],
  ['service.enable_tls', 'spec.tls.enabled'],
  ['service.api_key', 'spec.apiKey'],
  ['service.alt_api_key', 'spec.apiKey'],
  ['service.read_only_api_key', 'spec.readOnlyApiKey'],
  ['service.jwt_rbac', 'spec.apiKey.jwtRbac'],
  ['tls', 'spec.tls'],
]

/** Why no helm run may start with this spec, naming the field; undefined when it may. */
export function obstacleOf(
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
): string | undefined {
  return (
    bypassedField(cluster.spec.config) ??
    templateText(cluster.spec) ??
    unsafeImage(cluster.spec) ??
    (statefulSet && changedSnapshotVolume(cluster, statefulSet))
  )
}

function bypassedField(config: ClusterSpec['config']): string | undefined {
  for (const [entry, field] of FIELDS_OF_CONFIG) {
    if (at(config, entry) !== undefined) {
      return `spec.config.${entry} would bypass ${field}: set that field`
    }
  }
  return undefined
}

function at(config: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (value, key) =>
        typeof value === 'object' && value !== null
          ? (value as Record<string, unknown>)[key]
          : undefined,
      config,
    )
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
