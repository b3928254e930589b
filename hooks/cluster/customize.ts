/** A VecCluster is shown its StatefulSet, nothing else. */
import type { VecCluster } from '../../crds/cluster.ts'
import { releaseName } from '../../crds/names.ts'
import type { RelatedRule } from '../protocol.ts'

export function customize({ metadata }: VecCluster): RelatedRule[] {
  return [
    {
      apiVersion: 'apps/v1',
      resource: 'statefulsets',
      namespace: metadata.namespace,
      names: [releaseName(metadata.name)],
    },
  ]
}
