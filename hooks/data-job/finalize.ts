/**
 * Deletion of a VecRestore or a VecMigration: only its Job is stopped. Written data stays, and
 * secret copies are deleted with their Job.
 */
import { REQUEUE_SOON_SECONDS } from '../../crds/contract/limits.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { Condition } from '../../crds/schema.ts'
import { setConditions } from '../conditions.ts'
import { type DataJobDecision, unfinishedCondition } from './decision.ts'
import {
  isUnfinished,
  unchanged,
  jobsToDelete,
  observedJobs,
  type ObservedJobs,
} from '../request.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { type DataJobPorts, isFinished } from './observe.ts'

interface Parent<Status> {
  metadata: {
    namespace: string
    uid: string
    generation: number
    annotations?: Record<string, string>
  }
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

export function finalize<Status extends { phase?: string; conditions?: Condition[] }>(
  { parent, children, liveJobs }: Deletion<Status>,
  { now }: Pick<Context, 'now'>,
): DataJobDecision<Partial<Status>> {
  const { status = {} } = parent
  const decision = { status, children: children.map(unchanged) }
  const unfinished = liveJobs.find(isUnfinished)
  if (unfinished === undefined) return { ...decision, finalized: true }
  // A Job that has reported an outcome is only about to exit.
  const stopping = isFinished(parent) ? status : stoppingStatus(parent, unfinished, now)
  return {
    ...decision,
    status: stopping,
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    deleteJobs: jobsToDelete(liveJobs),
  }
}

/** The pod of a node that does not answer stops only when the node is back. */
function stoppingStatus<Status extends { conditions?: Condition[] }>(
  parent: Parent<Status>,
  { metadata: { name } }: Job,
  now: Date,
): Partial<Status> {
  const message = `waiting for Job ${name} to stop`
  const stopping = unfinishedCondition({ reason: 'StoppingJob', message })
  const others = parent.status?.conditions?.filter(({ type }) => type !== stopping.type) ?? []
  const conditions = [...others, ...setConditions(parent, [stopping], now)]
  return { ...parent.status, conditions } as Partial<Status>
}
