/** All that a decision about a VecMigration knows. */
import type { Job } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import type { Copies } from '../copies.ts'
import type { SeenLease } from '../lease.ts'
import type { ShownJobs } from '../observations.ts'
import type { Clusters, Secrets } from './credentials.ts'

export interface Observed extends ShownJobs {
  migration: VecMigration
  /** Live, where a Job may be due. */
  clusters: Clusters
  secrets: Secrets
  /** While a Job runs that needs them. */
  copies?: Copies
  /** Live, and only where a Job may be due. */
  liveJobs?: Job[]
  /** The Leases `write` of both clusters; only where a Job may be due. */
  writers?: SeenLease[]
  /** Whether the target answers `/readyz`; only where a Job may be due and nothing else is missing. */
  isReady?: boolean
}
