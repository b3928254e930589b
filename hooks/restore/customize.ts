/** A VecRestore that has not ended is shown its target VecCluster and its VecBackup, by name and namespace. */
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { backupOf, targetOf } from '../../crds/rules/restore-places.ts'
import { isFinal } from '../ending.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'

export function customize(restore: VecRestore): RelatedRule[] {
  // What has ended needs nothing more of it, and every change of a cluster would sync it again.
  if (isFinal(restore)) return []
  const backup = backupOf(restore)
  return [
    byName(VecCluster, targetOf(restore)),
    ...(backup === undefined ? [] : [byName(VecBackup, backup)]),
  ]
}
