/** Names of the volumes of a release. */
import type { StatefulSet } from '../../crds/kubernetes.ts'

/**
 * Name of the template of the data volume: of the engine's chart, unless another chart names it
 * differently. The other template is that of the snapshot volume.
 */
export function dataClaimTemplate(statefulSet: StatefulSet | undefined): string {
  const names = statefulSet?.spec.volumeClaimTemplates?.map(({ metadata }) => metadata.name)
  return names?.find((name) => name.endsWith('storage')) ?? 'qdrant-storage'
}
