/**
 * The end of a VecMigration: its Job is stopped, and that is all. What was copied stays, and copies of
 * Secrets go with their Job.
 */
import { SOON_SECONDS } from '../../crds/limits.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import { isUnfinished, kept, toStop } from '../job.ts'
import type { HookRequest } from '../protocol.ts'
import { fromRequest } from './observe.ts'
import type { Observed } from './observed.ts'
import type { MigrationPorts } from './ports.ts'
import type { Decision } from './sync.ts'

/** All that `finalize` decides on. */
export interface End extends Pick<Observed, 'migration' | 'children'> {
  liveJobs: Job[]
}

export async function observeEnd(
  request: HookRequest<VecMigration>,
  ports: Pick<MigrationPorts, 'jobsOf'>,
): Promise<End> {
  const { migration, children } = fromRequest(request)
  const { namespace, uid } = migration.metadata
  return { migration, children, liveJobs: await ports.jobsOf(namespace, uid) }
}

export function finalize({ migration, children, liveJobs }: End): Decision {
  const answer = { status: migration.status ?? {}, children: children.map(kept) }
  if (!liveJobs.some(isUnfinished)) return { ...answer, finalized: true }
  return { ...answer, resyncAfterSeconds: SOON_SECONDS, stop: toStop(liveJobs) }
}
