/** A VecRestore is shown its target VecCluster and its VecBackup, by name and namespace. */
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { backupOf, targetOf } from '../../crds/rules/restore-places.ts'
import { byName } from '../observations.ts'
import type { RelatedRule } from '../protocol.ts'

export function customize(restore: VecRestore): RelatedRule[] {
  const backup = backupOf(restore)
  return [
    byName(VecCluster, targetOf(restore)),
    ...(backup === undefined ? [] : [byName(VecBackup, backup)]),
  ]
}
