/**
 * The end of a VecRestore: its Job is stopped, and that is all. What was restored stays; the Leases are
 * free once no Job of it is left, and copies of Secrets go with their Job.
 */
import { SOON_SECONDS } from '../../crds/limits.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { isUnfinished, kept, toStop } from '../job.ts'
import type { HookRequest } from '../protocol.ts'
import { fromRequest } from './observe.ts'
import type { Observed } from './observed.ts'
import type { RestorePorts } from './ports.ts'
import type { Decision } from './sync.ts'

/** All that `finalize` decides on. */
export interface End extends Pick<Observed, 'restore' | 'children'> {
  liveJobs: Job[]
}

export async function observeEnd(
  request: HookRequest<VecRestore>,
  ports: Pick<RestorePorts, 'jobsOf'>,
): Promise<End> {
  const { restore, children } = fromRequest(request)
  const { namespace, uid } = restore.metadata
  return { restore, children, liveJobs: await ports.jobsOf(namespace, uid) }
}

export function finalize({ restore, children, liveJobs }: End): Decision {
  const answer = { status: restore.status ?? {}, children: children.map(kept) }
  if (!liveJobs.some(isUnfinished)) return { ...answer, finalized: true }
  return { ...answer, resyncAfterSeconds: SOON_SECONDS, stop: toStop(liveJobs) }
}
