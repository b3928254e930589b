/** What the StatefulSet of a release says about its volumes and its update, and a pod about itself. */
import type { PlannedVolume } from './contract/job.ts'
import type { Pod, StatefulSet } from './kubernetes.ts'

type ClaimTemplate = NonNullable<StatefulSet['spec']['volumeClaimTemplates']>[number]

/** The claim template of the volumes of a field of the spec, as the engine's chart names it. */
export function claimTemplate(
  { spec }: Pick<StatefulSet, 'spec'>,
  field: PlannedVolume['field'],
): ClaimTemplate | undefined {
  return spec.volumeClaimTemplates?.find(({ metadata: { name } }) =>
    field === 'persistence' ? name.endsWith('storage') : name.includes('snapshots'),
  )
}

export function templateSize(template: ClaimTemplate | undefined): string | undefined {
  return template?.spec.resources?.requests?.storage
}

/** Pods with a lower ordinal keep their template during an update. */
export function partitionOf({ spec }: Pick<StatefulSet, 'spec'>): number {
  return spec.updateStrategy?.rollingUpdate?.partition ?? 0
}

/**
 * Some pods do not have the newest template yet. False for an update that was taken back before its end,
 * because both revisions are then the former one: only the labels of the pods show it.
 */
export function isUpdating({ status }: Pick<StatefulSet, 'status'>): boolean {
  return status?.currentRevision !== status?.updateRevision
}

export function isReady({ status }: Pick<Pod, 'status'>): boolean {
  return (status?.conditions ?? []).some(
    (condition) => condition.type === 'Ready' && condition.status === 'True',
  )
}

/** The pod exists, is ready and is not about to stop. */
export function isStable(pod: Pod | undefined): boolean {
  return pod !== undefined && pod.metadata.deletionTimestamp === undefined && isReady(pod)
}
