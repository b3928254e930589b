/** A VecMigration that has not ended is shown the VecClusters it copies from and to, by name and namespace. */
import { VecCluster } from '../../crds/cluster.ts'
import type { VecMigration } from '../../crds/migration.ts'
import { isFinal } from '../ending.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'
import { sourceClusterOf, targetOf } from './places.ts'

export function customize(migration: VecMigration): RelatedRule[] {
  // What has ended needs nothing more of it, and every change of a cluster would sync it again.
  if (isFinal(migration)) return []
  const source = sourceClusterOf(migration)
  const target = targetOf(migration)
  const isBoth = source?.namespace === target.namespace && source.name === target.name
  const clusters = source === undefined || isBoth ? [target] : [target, source]
  return clusters.map((cluster) => byName(VecCluster, cluster))
}
