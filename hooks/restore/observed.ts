/** All that a decision about a VecRestore knows. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { VecRestore } from '../../crds/restore.ts'
import type { SeenLease } from '../lease.ts'
import type { BucketSecrets, ObservedTransfer } from '../transfer-observe.ts'

export interface Observed extends ObservedTransfer {
  restore: VecRestore
  /** Target and backup: live, where a Job may be due. */
  cluster?: VecCluster
  statefulSet?: StatefulSet
  backup?: VecBackup
  secrets: BucketSecrets
  /** Only where a Job may be due, or has not reported yet. */
  leases?: { write: SeenLease; backup: SeenLease }
  /** Who works on the target without a Lease; read with the Leases. */
  others?: string[]
}
