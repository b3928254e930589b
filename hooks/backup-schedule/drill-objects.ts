/** The objects of a restore drill: a temporary VecCluster like that of the backups, and the VecRestore into it. */
import type { BackupScheduleSpec, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { nodesOf, type VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { MAX_CLUSTER_NAME } from '../../crds/contract/limits.ts'
import { ANNOTATIONS, API_VERSION, LABELS, shortHash } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { VecRestore } from '../../crds/restore.ts'
import { parseQuantity } from '../../crds/units.ts'
import { chartVersion } from '../../crds/versions.ts'
import { childKind } from '../answer-validation.ts'
import { unchanged } from '../request.ts'
import type { Child, PrunedChild } from '../protocol.ts'

export type DrillSpec = NonNullable<BackupScheduleSpec['drill']>

export type WithDrill = VecBackupSchedule & { spec: { drill: DrillSpec } }

export const DRILL_CHILD_KINDS = [
  childKind(API_VERSION, VecCluster.kind),
  childKind(API_VERSION, VecRestore.kind),
] as const

const SUFFIX = '-drill'

/** Name of both objects. Names of VecClusters are shorter than those of schedules, and have no dots. */
export function drillName(schedule: string): string {
  const name = `${schedule}${SUFFIX}`
  if (name.length <= MAX_CLUSTER_NAME && !schedule.includes('.')) return name
  const end = `-${shortHash(schedule)}${SUFFIX}`
  return schedule.replaceAll('.', '-').slice(0, MAX_CLUSTER_NAME - end.length) + end
}

/** What identifies a drill; `slot` as in the status. */
export interface DrillIdentity {
  backupName: string
  slot: string
}

/** The drill that an object was created for; undefined if the annotation is missing or was changed. */
export function drillOf(object: Pick<AnyObject, 'metadata'>): DrillIdentity | undefined {
  const [backupName = '', slot = '', ...rest] =
    object.metadata.annotations?.[ANNOTATIONS.drill]?.split(' ') ?? []
  const isValid = rest.length === 0 && backupName !== '' && !Number.isNaN(Date.parse(slot))
  return isValid ? { backupName, slot } : undefined
}

/** How many nodes the temporary cluster has. A backup by node fits only as many as it was made of. */
export function drillNodes(
  { replicas }: DrillSpec,
  { spec }: VecCluster,
  backup: VecBackup | undefined,
): number {
  if (backup?.spec.method === 'Shard') return replicas ?? spec.replicas
  return (backup && nodesOf(backup)) ?? spec.replicas
}

export function drillCluster(
  schedule: WithDrill,
  drill: DrillIdentity,
  source: VecCluster,
  nodes: number,
): Child {
  return {
    ...child(schedule, drill, VecCluster.kind),
    spec: clusterSpec(schedule.spec.drill, source, nodes),
  }
}

export function drillRestore(schedule: VecBackupSchedule, drill: DrillIdentity): Child {
  const spec = {
    backupRef: { name: drill.backupName },
    targetClusterRef: { name: drillName(schedule.metadata.name) },
  }
  return { ...child(schedule, drill, VecRestore.kind), spec }
}

/**
 * The objects of a drill that is deleted. The VecRestore is deleted first: its Job uses the cluster. A live one may be
 * missing in the cache.
 */
export function withoutDrill(
  objects: AnyObject[],
  reason: string,
  hasLiveRestore = false,
): { children: Child[]; pruned: PrunedChild[] } {
  const isRestore = ({ kind }: AnyObject) => kind === VecRestore.kind
  const hasRestore = hasLiveRestore || objects.some(isRestore)
  const pruned = objects.filter((object) => isRestore(object) || !hasRestore)
  return {
    children: objects.filter((object) => !pruned.includes(object)).map(unchanged),
    pruned: pruned.map(({ kind, metadata }) => ({ kind, name: metadata.name, reason })),
  }
}

function child({ metadata }: VecBackupSchedule, drill: DrillIdentity, kind: string): Child {
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: {
      name: drillName(metadata.name),
      labels: { [LABELS.schedule]: metadata.name },
      annotations: { [ANNOTATIONS.drill]: `${drill.backupName} ${drill.slot}` },
    },
  }
}

/** Fields that are the same in both clusters. */
const SAME_FIELDS = [
  ...(['snapshotPersistence', 'nodeSelector', 'tolerations', 'affinity'] as const),
  ...([
    'topologySpreadConstraints',
    'priorityClassName',
    'imagePullSecrets',
    'securityContext',
  ] as const),
  ...(['podLabels', 'podAnnotations'] as const),
  'terminationGracePeriodSeconds',
] as const

/**
 * Without TLS, windows, metrics or a budget: nothing but the restore uses the temporary cluster. Its volumes are
 * deleted with it. Absent fields get their default values.
 */
function clusterSpec(
  { resources, persistence }: DrillSpec,
  { spec, status }: VecCluster,
  nodes: number,
): object {
  const { storageClassName, volumeAttributesClassName, accessModes } = spec.persistence
  // What runs there, not what is to run there.
  const version = status?.version ?? spec.version
  return {
    version,
    replicas: nodes,
    ...Object.fromEntries(
      SAME_FIELDS.flatMap((field) => (spec[field] === undefined ? [] : [[field, spec[field]]])),
    ),
    image: imageOf(spec, version),
    resources: resources ?? spec.resources,
    persistence: {
      size: largest(spec.persistence.size, status?.volumeSize),
      accessModes,
      ...(storageClassName !== undefined && { storageClassName }),
      ...(volumeAttributesClassName !== undefined && { volumeAttributesClassName }),
      ...persistence,
      onDelete: 'Delete',
    },
    cluster: {
      enabled: spec.cluster.enabled || nodes > 1,
      p2p: { port: spec.cluster.p2p.port },
    },
    apiKey: { autoGenerate: true },
    podDisruptionBudget: { enabled: false },
    config: without(spec.config, ''),
  }
}

/** The digest is that of the image of spec.version. */
function imageOf({ image, version: target }: VecCluster['spec'], version: string): object {
  if (chartVersion(version) === chartVersion(target)) return image
  const { digest: _, ...rest } = image
  return rest
}

function largest(size: string, grown: string | undefined): string {
  return grown !== undefined && parseQuantity(grown) > parseQuantity(size) ? grown : size
}

/** Entries that must agree with fields of the spec that the temporary cluster does not have. */
const ACCESS_ENTRIES: Record<string, readonly string[]> = {
  '': ['tls'],
  service: ['enable_tls', 'jwt_rbac'],
  cluster: ['resharding_enabled'],
  'cluster.p2p': ['enable_tls'],
}

function without(config: Record<string, unknown>, path: string): Record<string, unknown> {
  const dropped = ACCESS_ENTRIES[path] ?? []
  return Object.fromEntries(
    Object.entries(config)
      .filter(([key]) => !dropped.includes(key))
      .map(([key, value]) => {
        const inner = path === '' ? key : `${path}.${key}`
        return [key, isMap(value) ? without(value, inner) : value]
      }),
  )
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
