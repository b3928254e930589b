/** What the StatefulSet of a release says about its volumes and its update, and a pod about itself. */
import type { PlannedVolume } from './contract/job.ts'
import { REVISION_LABEL } from './contract/names.ts'
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

/** The pods have had two templates, and not all of them are known to have the newest one yet. */
export function hasTwoRevisions({ status }: Pick<StatefulSet, 'status'>): boolean {
  return status?.currentRevision !== status?.updateRevision
}

/**
 * Fewer pods have the newest template than exist. If an update was taken back before its end, both revisions
 * are the former one and only this count shows the pods that are left. A pod that terminates is not in it
 * either: the labels of the pods distinguish them.
 */
export function mayHaveOutdatedPods({ status }: Pick<StatefulSet, 'status'>): boolean {
  return (status?.updatedReplicas ?? 0) < (status?.replicas ?? 0)
}

/** Some pods may not have the newest template. */
export function mayBeUpdating(set: Pick<StatefulSet, 'status'>): boolean {
  return hasTwoRevisions(set) || mayHaveOutdatedPods(set)
}

/** The pod has another template than the newest one. */
export function isOutdated(
  { metadata }: Pick<Pod, 'metadata'>,
  { status }: Pick<StatefulSet, 'status'>,
): boolean {
  const revision = metadata.labels?.[REVISION_LABEL]
  return revision !== undefined && revision !== status?.updateRevision
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
