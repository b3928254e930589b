/**
 * Events of a VecCluster about steps on its shards that copy nothing: one for each. Replicas may be dropped faster than users
 * can read Events: those of a minute are one.
 */
import type { ClusterStatus, VecCluster } from '../../../crds/cluster.ts'
import type { FinishedSteps } from '../../../crds/contract/shards-job.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { newEvent } from '../../events.ts'
import type { Observed } from '../ports.ts'

type StepEvents = NonNullable<NonNullable<ClusterStatus['shards']>['stepEvents']>

const KINDS = ['drop', 'removePeer', 'scaleDown', 'deleteVolume'] as const
const DROPS_MS = 60_000

/** The steps that are Events, with those of this status. Undefined if no Job has reported any. */
export function stepEventsOf({
  cluster,
  progress,
}: Pick<Observed, 'cluster' | 'progress'>): StepEvents | undefined {
  const previous = cluster.status?.shards?.stepEvents
  const { startedAt: startTime, finished } = progress?.shards ?? {}
  if (progress === undefined || startTime === undefined || finished === undefined) return previous
  const before = recordedOf(cluster, startTime)
  const countOf = (kind: FinishedSteps['step']) =>
    finished.find(({ step }) => step === kind)?.count ?? 0
  const isEnded = progress.verb !== 'shards' || progress.state !== 'Started'
  const sinceLast = Date.parse(progress.at) - Date.parse(before.dropTime ?? '')
  // After the clock was set back, too.
  const isAwaited = !isEnded && sinceLast >= 0 && sinceLast < DROPS_MS
  const isNew = countOf('drop') > before.drop && !isAwaited
  const dropTime = isNew ? progress.at : before.dropTime
  return {
    startTime,
    ...(dropTime !== undefined && { dropTime }),
    drop: isNew ? countOf('drop') : before.drop,
    removePeer: countOf('removePeer'),
    scaleDown: countOf('scaleDown'),
    deleteVolume: countOf('deleteVolume'),
  }
}

/** Of the steps that the status does not have yet. */
export function finishedStepEvents(
  { cluster, progress }: Pick<Observed, 'cluster' | 'progress'>,
  stepEvents: StepEvents | undefined,
  now: Date,
): KubernetesEvent[] {
  const { startedAt, finished = [] } = progress?.shards ?? {}
  if (stepEvents === undefined || stepEvents.startTime !== startedAt) return []
  const before = recordedOf(cluster, startedAt)
  return KINDS.flatMap((kind) => {
    const count = stepEvents[kind]
    const others = count - before[kind] - 1
    const last = finished.find(({ step }) => step === kind)?.last
    if (others < 0 || last === undefined) return []
    const message = others === 0 ? last : `${last}; ${others} more since the last Event`
    const transition = `${startedAt}/${kind}/${count}`
    return [newEvent(cluster, { type: 'Normal', reason: 'ShardStep', message, transition }, now)]
  })
}

/** Each Job counts its own. */
function recordedOf({ status }: VecCluster, startTime: string): Omit<StepEvents, 'startTime'> {
  const recorded = status?.shards?.stepEvents
  if (recorded?.startTime === startTime) return recorded
  return { drop: 0, removePeer: 0, scaleDown: 0, deleteVolume: 0 }
}
