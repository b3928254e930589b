/** A VecCollection is shown the VecCluster it is in. */
import { VecCluster } from '../../crds/cluster.ts'
import type { VecCollection } from '../../crds/collection.ts'
import { API_VERSION } from '../../crds/names.ts'
import type { RelatedRule } from '../protocol.ts'
import { clusterOf } from './claims.ts'

export function customize(collection: VecCollection): RelatedRule[] {
  const { namespace, name } = clusterOf(collection)
  return [{ apiVersion: API_VERSION, resource: VecCluster.plural, namespace, names: [name] }]
}
