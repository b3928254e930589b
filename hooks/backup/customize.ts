/** A VecBackup that has not ended is shown its VecCluster, by name and namespace. */
import type { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { isFinal } from '../ending.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'
import { clusterOf } from './observe.ts'

export function customize(backup: VecBackup): RelatedRule[] {
  // What has ended needs nothing more of it, and every change of a cluster would sync it again.
  if (isFinal(backup)) return []
  return [byName(VecCluster, clusterOf(backup))]
}
