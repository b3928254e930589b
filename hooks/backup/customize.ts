/** A VecBackup is shown its VecCluster, by name and namespace. */
import type { VecBackup } from '../../crds/backup.ts'
import { API_VERSION } from '../../crds/names.ts'
import type { RelatedRule } from '../protocol.ts'

export function customize({ metadata, spec }: VecBackup): RelatedRule[] {
  const { name, namespace = metadata.namespace } = spec.clusterRef
  return [{ apiVersion: API_VERSION, resource: 'vecclusters', namespace, names: [name] }]
}
