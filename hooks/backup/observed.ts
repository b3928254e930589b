/** All that a decision about a VecBackup knows. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Job, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { Copies } from '../copies.ts'
import type { SeenLease } from '../lease.ts'
import type { ShownJobs } from '../observations.ts'

export interface Observed extends ShownJobs {
  backup: VecBackup
  /** Live, where a Job may be due. */
  cluster?: VecCluster
  statefulSet?: StatefulSet
  /** Bucket credentials, the engine's key and its certificate authority, as far as they exist. */
  secrets: { bucket?: Secret; engine?: Secret; tls?: Secret }
  /** While a Job runs that needs them. */
  copies?: Copies
  /** Live, and only where a Job may be due. */
  liveJobs?: Job[]
  /** Only where a Job may be due, or has not reported yet. */
  leases?: { write: SeenLease; backup: SeenLease }
}
