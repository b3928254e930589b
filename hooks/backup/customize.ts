/** A VecBackup is shown its VecCluster, by name and namespace. */
import type { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'
import { clusterOf } from './observe.ts'

export function customize(backup: VecBackup): RelatedRule[] {
  return [byName(VecCluster, clusterOf(backup))]
}
