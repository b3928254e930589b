/** A VecAccessKey is shown the VecCluster it is for. */
import type { VecAccessKey } from '../../crds/access-key.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { API_VERSION } from '../../crds/names.ts'
import type { RelatedRule } from '../protocol.ts'

export function customize({ metadata, spec }: VecAccessKey): RelatedRule[] {
  return [
    {
      apiVersion: API_VERSION,
      resource: VecCluster.plural,
      namespace: spec.clusterRef.namespace ?? metadata.namespace,
      names: [spec.clusterRef.name],
    },
  ]
}
