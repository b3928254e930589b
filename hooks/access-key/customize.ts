/** A VecAccessKey is shown the VecCluster it is for. */
import type { VecAccessKey } from '../../crds/access-key.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'

export function customize({ metadata, spec }: VecAccessKey): RelatedRule[] {
  return [byName(VecCluster, { namespace: metadata.namespace, ...spec.clusterRef })]
}
