/** The volumes of a release: their names, sizes and classes. */
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import type { PlannedVolume } from '../../crds/contract/job.ts'
import { releaseName } from '../../crds/contract/names.ts'
import { type StatefulSet, claimTemplate, templateSize } from '../../crds/kubernetes.ts'
import { parseQuantity } from '../../crds/units.ts'

/**
 * Name of the template of the data volume: of the engine's chart, unless another chart names it
 * differently. The other template is that of the snapshot volume.
 */
export function dataClaimTemplate(statefulSet: StatefulSet | undefined): string {
  return (
    (statefulSet && claimTemplate(statefulSet, 'persistence'))?.metadata.name ?? 'qdrant-storage'
  )
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
