/** The desired state of a VecMigration: its Job, and when it starts. */
import type { MigrationStatus } from '../../crds/migration.ts'
import type { DataJobDecision } from '../data-job/apply.ts'
import { cleanUpFinished, runNumberAfter } from '../data-job/job-watch.ts'
import { isFinished } from '../data-job/outcome.ts'
import {
  blocked,
  blockedBy,
  requeueSoon,
  syncDataJob,
  type DataJobKind,
  type SyncContext,
} from '../data-job/sync.ts'
import { formatHolderName, holderOf } from '../lease.ts'
import type { Context } from '../protocol.ts'
import { allObserved } from '../rbac.ts'
import { copiedCredentials, copySources } from './endpoints.ts'
import { desiredPlan, migrationJob, migrationRbac } from './job.ts'
import { firstBlocker, type Observed } from './observe.ts'
import { activeStatus, finishedStatus, migrationEvents } from './status.ts'

export type Decision = DataJobDecision<MigrationStatus>

export function sync(observed: Observed, context: Context): Decision {
  // A finished migration outlives its clusters. Its Job is retained for its log and never
  // recreated.
  if (isFinished(observed.migration)) {
    const remaining = cleanUpFinished(observed, 'the migration has ended', context)
    return { status: observed.migration.status ?? {}, ...remaining }
  }
  return syncDataJob({ kind: MIGRATION, observed, context })
}

const MIGRATION: DataJobKind<Observed, MigrationStatus> = {
  ...{ activeStatus, finishedStatus, firstBlocker, start },
  startingReason: { reason: 'MigrationStarting' },
  eventsOf: ({ migration }, status, now) => migrationEvents(migration, status, now),
  copiedCredentials: ({ migration }) => copiedCredentials(migration),
  copySources: ({ migration, clusters, secrets }, settings) =>
    copySources(migration, clusters, secrets, settings),
  desiredPlanHash: ({ migration, clusters }) => desiredPlan(migration, clusters)?.hash,
  // It holds no Lease: it only waits for the Leases of others.
  leaseReleases: () => [],
  hasStarted: ({ migration }) => migration.status?.startTime !== undefined,
  lostLease: () => false,
}

/** Nothing blocks it: RBAC first, then the Job, which is not created while a restore writes. */
function start(syncContext: SyncContext<Observed, MigrationStatus>): Decision {
  const { observed, context } = syncContext
  const { migration, clusters, progress, writers = [] } = observed
  const rbac = migrationRbac(migration)
  // A Job must not start before it has permission to report.
  if (!allObserved(rbac, observed.children)) {
    return requeueSoon(syncContext, 'the rights of the Job are being made', rbac)
  }
  for (const lease of writers) {
    const holder = holderOf(lease, context.now)
    if (holder !== undefined) return blockedBy(syncContext, formatHolderName(holder))
  }
  const desired = desiredPlan(migration, clusters)
  if (desired === undefined) return blocked(syncContext)
  const plan = { ...desired, run: runNumberAfter(progress) }
  const job = migrationJob(observed, plan, context.settings)
  return requeueSoon(syncContext, `Job ${job.metadata.name} was started`, [job])
}
