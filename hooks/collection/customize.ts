/** A VecCollection is shown the VecCluster it is in. */
import { VecCluster } from '../../crds/cluster.ts'
import type { VecCollection } from '../../crds/collection.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'
import { clusterOf } from './claims.ts'

export function customize(collection: VecCollection): RelatedRule[] {
  return [byName(VecCluster, clusterOf(collection))]
}
