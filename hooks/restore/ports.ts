/** What the VecRestore room needs from outside; metacontroller/restore-ports.ts implements it. */
import type { VecBackup } from '../../crds/backup.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { VecRestore } from '../../crds/restore.ts'
import type { WorkRules } from '../at-work.ts'
import type { TransferPorts } from '../transfer-ports.ts'

export interface RestorePorts extends TransferPorts {
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The VecBackup, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** The resource itself, read live. */
  restore(namespace: string, name: string): Promise<VecRestore | undefined>
  /**
   * Who works on a cluster without a Lease, for people: its helm Jobs and migrations (from or to it)
   * that have not ended, read live, and passes of this service that write to its collections.
   * Migrations of namespaces that the cluster does not allow count by the rules alone.
   */
  othersAt(cluster: { namespace: string; name: string }, rules: WorkRules): Promise<string[]>
}
