/** Names of the volumes of a release. */
import type { StatefulSet } from '../../crds/kubernetes.ts'

/** Of the engine's chart; the other template is that of the snapshot volume. */
const DATA_TEMPLATE = 'qdrant-storage'

/** Name of the template of the data volume. */
export function dataClaimTemplate(statefulSet: StatefulSet | undefined): string {
  const names = (statefulSet?.spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name)
  return names.find((name) => name === DATA_TEMPLATE || name.endsWith('storage')) ?? DATA_TEMPLATE
}
