/**
 * The volumes of a release: their names, sizes and classes. Also which changes of them are refused, such as a lower size.
 *
 * Growth of the data volumes by spec.persistence.autoGrow. The operator cannot write the spec: the status
 * has the size that the volumes are to have, so that every sync plans the same helm run, and the report of
 * the run has the size that was applied, which stays valid when autoGrow is removed.
 */
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import type { PlannedVolume } from '../../crds/contract/job.ts'
import { releaseName } from '../../crds/contract/names.ts'
import { type StatefulSet, claimTemplate, templateSize } from '../../crds/kubernetes.ts'
import { parseQuantity } from '../../crds/units.ts'
import { isUnfinished } from '../request.ts'
import { usedPercent } from './capacity.ts'
import type { Observed } from './ports.ts'

/**
 * Name of the template of the data volume: of the engine's chart, unless another chart names it
 * differently. The other template is that of the snapshot volume.
 */
export function dataClaimTemplate(statefulSet: StatefulSet | undefined): string {
  return (
    (statefulSet && claimTemplate(statefulSet, 'persistence'))?.metadata.name ?? 'qdrant-storage'
  )
}

/** Names of all claim templates: those of the engine's chart if the StatefulSet is already gone. */
export function claimTemplates(statefulSet: StatefulSet | undefined): string[] {
  const templates = statefulSet?.spec.volumeClaimTemplates
  return templates?.map(({ metadata }) => metadata.name) ?? ['qdrant-storage', 'qdrant-snapshots']
}

/** Size in the claim template of the data volume. */
export function dataTemplateSize(statefulSet: StatefulSet | undefined): string | undefined {
  return statefulSet && templateSize(claimTemplate(statefulSet, 'persistence'))
}

/** What the volumes are to have. */
export function plannedVolumes(
  { persistence, snapshotPersistence }: ClusterSpec,
  dataSize: string,
): PlannedVolume[] {
  const isAutoGrown = dataSize !== persistence.size
  return [
    {
      field: 'persistence',
      size: dataSize,
      ...attributesClass(persistence),
      ...(isAutoGrown && { isAutoGrown }),
    },
    ...(snapshotPersistence.enabled
      ? [
          {
            field: 'snapshotPersistence' as const,
            size: snapshotPersistence.size,
            ...attributesClass(snapshotPersistence),
          },
        ]
      : []),
  ]
}

function attributesClass({
  volumeAttributesClassName,
}: ClusterSpec['persistence' | 'snapshotPersistence']): Pick<PlannedVolume, 'attributesClass'> {
  return volumeAttributesClassName === undefined
    ? {}
    : { attributesClass: volumeAttributesClassName }
}

/** Why no pod would get its volumes: Kubernetes refuses their claims, and says so only in Events of the StatefulSet. */
export function emptyVolumeError(spec: ClusterSpec): string | undefined {
  const empty = plannedVolumes(spec, spec.persistence.size).find(
    ({ size }) => parseQuantity(size) === 0,
  )
  return empty && `spec.${empty.field}.size must be greater than 0`
}

/**
 * Why the volumes of the StatefulSet cannot become what the spec says: helm would fail halfway. Sizes are
 * compared with the StatefulSet, not with the previous spec, so that a raise that the storage refuses can
 * be taken back.
 */
export function volumeError(
  { metadata, spec }: VecCluster,
  statefulSet: StatefulSet,
  dataSize: string,
): string | undefined {
  const release = releaseName(metadata.name)
  const { enabled, storageClassName } = spec.snapshotPersistence
  const snapshots = claimTemplate(statefulSet, 'snapshotPersistence')
  if (enabled !== (snapshots !== undefined)) {
    return `spec.snapshotPersistence.enabled is fixed at creation: StatefulSet ${release} has it ${enabled ? 'off' : 'on'}`
  }
  for (const { field, size, attributesClass } of plannedVolumes(spec, dataSize)) {
    const template = claimTemplate(statefulSet, field)
    const present = template?.spec.volumeAttributesClassName
    if (present !== undefined && attributesClass === undefined) {
      return `spec.${field}.volumeAttributesClassName cannot be removed: StatefulSet ${release} has ${present}`
    }
    const storage = templateSize(template)
    if (storage === undefined && field === 'snapshotPersistence') {
      return `spec.${field}.size is fixed at creation: StatefulSet ${release} has none`
    }
    if (storage !== undefined && parseQuantity(size) < parseQuantity(storage)) {
      return `spec.${field}.size cannot be lowered: StatefulSet ${release} has ${storage}`
    }
  }
  if (snapshots === undefined || storageClassName === undefined) return undefined
  if (snapshots.spec.storageClassName === storageClassName) return undefined
  return `spec.snapshotPersistence.storageClassName is fixed at creation: StatefulSet ${release} has ${snapshots.spec.storageClassName ?? 'the default class'}`
}

/** The first volume whose size differs from that of the StatefulSet. */
export function resizedVolume(
  spec: ClusterSpec,
  statefulSet: StatefulSet,
  dataSize: string,
): (PlannedVolume & { from: string }) | undefined {
  for (const volume of plannedVolumes(spec, dataSize)) {
    const from = templateSize(claimTemplate(statefulSet, volume.field))
    if (from !== undefined && parseQuantity(from) !== parseQuantity(volume.size)) {
      return { ...volume, from }
    }
  }
  return undefined
}

type AutoGrow = NonNullable<ClusterSpec['persistence']['autoGrow']>

/** Size of the data volumes: that of the spec, or what they have grown to. They never become smaller. */
export function dataVolumeSize({ cluster, progress }: Pick<Observed, 'cluster' | 'progress'>) {
  const { size, autoGrow } = cluster.spec.persistence
  const planned = autoGrow && smaller(cluster.status?.volumeSize ?? size, autoGrow.max)
  return [progress?.applied?.grownSize, planned].reduce<string>(
    (largest, grown) => (grown === undefined ? largest : larger(largest, grown)),
    size,
  )
}

/**
 * The size for the status; undefined if it is that of the spec. A volume grows by one step at a time: the
 * next one follows when every volume has the size of the last one. It is not planned while a Job of another plan
 * runs or is about to: the Job would be outdated.
 */
export function plannedVolumeSize(
  observed: Observed,
  { isRunHeld }: { isRunHeld: boolean },
): string | undefined {
  const { cluster, jobs, pendingRun, shards } = observed
  const { size, autoGrow } = cluster.spec.persistence
  const current = dataVolumeSize(observed)
  const isIdle = (pendingRun === undefined || isRunHeld) && !jobs.some(isUnfinished)
  const hasGrown = shards?.nodes.every(
    ({ volumeBytes = 0 }) => volumeBytes >= Math.floor(parseQuantity(current)),
  )
  const isDue =
    autoGrow !== undefined &&
    isIdle &&
    hasGrown === true &&
    shards?.nodes.some((node) => (usedPercent(node) ?? 0) >= autoGrow.above) === true
  const planned = isDue ? larger(current, nextSize(current, autoGrow)) : current
  return parseQuantity(planned) > parseQuantity(size) ? planned : undefined
}

function nextSize(current: string, { by, max }: AutoGrow): string {
  const bytes = parseQuantity(current)
  const step = by.endsWith('%') ? (bytes * Number(by.slice(0, -1))) / 100 : parseQuantity(by)
  return smaller(formatQuantity(bytes + step), max)
}

const MIB = 2 ** 20
const GIB = 2 ** 30

/** Rounded up to whole GiB, or MiB for small volumes. */
function formatQuantity(bytes: number): string {
  return bytes < GIB ? `${Math.ceil(bytes / MIB)}Mi` : `${Math.ceil(bytes / GIB)}Gi`
}

function larger(a: string, b: string): string {
  return parseQuantity(b) > parseQuantity(a) ? b : a
}

function smaller(a: string, b: string): string {
  return parseQuantity(b) < parseQuantity(a) ? b : a
}
