/**
 * Deletion of a VecRestore or a VecMigration: only its Job is stopped. Written data stays, and
 * secret copies are deleted with their Job.
 */
import { REQUEUE_SOON_SECONDS } from '../../crds/contract/limits.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { DataJobDecision } from './decision.ts'
import { isUnfinished, unchanged, jobsToDelete } from '../job.ts'
import { observedJobs, type ObservedJobs } from '../request.ts'
import type { HookRequest } from '../protocol.ts'
import type { DataJobPorts } from './observe.ts'

interface Parent<Status> {
  metadata: { namespace: string; uid: string; annotations?: Record<string, string> }
  status?: Status
}

/** Input of the `finalize` decision. */
export interface Deletion<Status> extends Pick<ObservedJobs, 'children'> {
  parent: Parent<Status>
  liveJobs: Job[]
}

export async function observeDeletion<Status>(
  request: HookRequest<Parent<Status>>,
  ports: Pick<DataJobPorts, 'jobsOf'>,
): Promise<Deletion<Status>> {
  const { parent } = request
  const { namespace, uid } = parent.metadata
  const { children } = observedJobs(request)
  return { parent, children, liveJobs: await ports.jobsOf(namespace, uid) }
}

export function finalize<Status extends object>({
  parent,
  children,
  liveJobs,
}: Deletion<Status>): DataJobDecision<Partial<Status>> {
  const decision = { status: parent.status ?? {}, children: children.map(unchanged) }
  if (!liveJobs.some(isUnfinished)) return { ...decision, finalized: true }
  return {
    ...decision,
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    deleteJobs: jobsToDelete(liveJobs),
  }
}
