/**
 * The end of a VecRestore or a VecMigration: its Job is stopped, and that is all. What was written
 * stays, and copies of Secrets go with their Job.
 */
import { SOON_SECONDS } from '../crds/limits.ts'
import type { Job } from '../crds/kubernetes.ts'
import type { Decided } from './carry-out.ts'
import { isUnfinished, kept, toStop } from './job.ts'
import { shownJobs, type ShownJobs } from './observations.ts'
import type { HookRequest } from './protocol.ts'
import type { TransferPorts } from './transfer-ports.ts'

interface Parent<Status> {
  metadata: { namespace: string; uid: string; annotations?: Record<string, string> }
  status?: Status
}

/** All that `finalize` decides on. */
export interface End<Status> extends Pick<ShownJobs, 'children'> {
  parent: Parent<Status>
  liveJobs: Job[]
}

export async function observeEnd<Status>(
  request: HookRequest<Parent<Status>>,
  ports: Pick<TransferPorts, 'jobsOf'>,
): Promise<End<Status>> {
  const { parent } = request
  const { namespace, uid } = parent.metadata
  const { children } = shownJobs(request)
  return { parent, children, liveJobs: await ports.jobsOf(namespace, uid) }
}

export function finalize<Status extends object>({
  parent,
  children,
  liveJobs,
}: End<Status>): Decided<Partial<Status>> {
  const answer = { status: parent.status ?? {}, children: children.map(kept) }
  if (!liveJobs.some(isUnfinished)) return { ...answer, finalized: true }
  return { ...answer, resyncAfterSeconds: SOON_SECONDS, stop: toStop(liveJobs) }
}
