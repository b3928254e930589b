/** All that a decision about a VecBackup knows. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { SeenLease } from '../lease.ts'
import type { BucketSecrets, ObservedTransfer } from '../transfer-observe.ts'

export interface Observed extends ObservedTransfer {
  backup: VecBackup
  /** Live, where a Job may be due. */
  cluster?: VecCluster
  statefulSet?: StatefulSet
  secrets: BucketSecrets
  /** Of the API server; only where it has expired by our own clock. */
  apiTime?: Date
  /** Only where a Job may be due, or has not reported yet. */
  leases?: { write: SeenLease; backup: SeenLease }
  /** helm Jobs of the cluster that have not ended; read with the Leases. */
  helmJobs?: string[]
}
