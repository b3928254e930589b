/** All that a decision about a VecMigration knows. */
import type { VecMigration } from '../../crds/migration.ts'
import type { SeenLease } from '../lease.ts'
import type { ObservedTransfer } from '../transfer-observe.ts'
import type { Clusters, Secrets } from './credentials.ts'

export interface Observed extends ObservedTransfer {
  migration: VecMigration
  /** Live, where a Job may be due. */
  clusters: Clusters
  secrets: Secrets
  /** The Leases `write` of both clusters; only where a Job may be due. */
  writers?: SeenLease[]
  /** Whether the target answers `/readyz`; only where a Job may be due and nothing else is missing. */
  isReady?: boolean
}
