/** Events of a VecCluster: one for each condition whose reason or message has changed. */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { Condition } from '../../crds/schema.ts'
import { getCondition } from '../conditions.ts'
import { newEvent } from '../events.ts'
import { HIBERNATED } from './hibernate.ts'
import { isFailureReason } from './helm-result.ts'
import type { Observed } from './ports.ts'
import { RELEASE_INCOMPLETE } from './release-objects.ts'
import { withoutProgress } from './shards/next-step.ts'
import { reshardingEvents } from './shards/resharding-events.ts'
import { isGateReason, isWorkReason } from './shards/status.ts'
import { finishedStepEvents } from './shards/step-events.ts'

/** Length of the minute prefix of a timestamp: `2026-11-21T16:22`. */
const MINUTE_PREFIX_LENGTH = 16

export function eventsOf(
  known: Pick<Observed, 'cluster' | 'progress'>,
  { conditions = [], shards }: ClusterStatus,
  now: Date,
): KubernetesEvent[] {
  const { cluster, progress } = known
  const changes = conditions
    .filter((condition) => isNewEvent(cluster, condition) && !isRepeated(condition, conditions))
    .map((condition) => {
      const { reason, message } = condition
      const type = isWarning(condition) ? 'Warning' : 'Normal'
      return newEvent(cluster, { type, reason, message, transition: transitionOf(condition) }, now)
    })
  const step = stepEvent(cluster, shards?.step, { run: progress?.run, now })
  const finished = finishedStepEvents(known, shards?.stepEvents, now)
  const reshardings = reshardingEvents(cluster, shards?.reshardings ?? [], now)
  return [...changes, ...(step === undefined ? [] : [step]), ...finished, ...reshardings]
}

/** The steps that take long: those that copy a replica or restart a node. Each begins with an Event. */
const LONG_STEP = /: (replicating|repairing) |^updating node /

/** One Event for each such step, without the share of it that is done. */
function stepEvent(
  cluster: VecCluster,
  step: string | undefined,
  { run = 0, now }: { run: number | undefined; now: Date },
): KubernetesEvent | undefined {
  if (step === undefined || !LONG_STEP.test(step)) return undefined
  const message = withoutProgress(step)
  if (withoutProgress(cluster.status?.shards?.step ?? '') === message) return undefined
  const transition = shortHash(String(run), message)
  return newEvent(cluster, { type: 'Normal', reason: 'ShardStep', message, transition }, now)
}

function isNewEvent(cluster: VecCluster, { type, status, reason, message }: Condition): boolean {
  const previous = getCondition(cluster, type)
  if (previous?.reason === reason && previous.message === message) return false
  switch (type) {
    case 'Progressing':
      // The message has numbers that each write changes.
      return reason !== 'ReplicasDiffer' || previous?.reason !== reason
    case 'Consensus':
      return status === 'False'
    case 'Applied':
      // Emit one Event per run, regardless of what the Job reports later.
      if (reason === 'HelmRunning') return previous?.reason !== reason
      return status === 'False' && isFailureReason(reason)
    case 'ShardsPlaced':
      // While nodes do not answer, Ready and Consensus say so.
      if (status === 'Unknown') return false
      if (status === 'True') return previous?.status === 'False'
      // A Job is one Event.
      return !isWorkReason(reason) || previous?.reason !== reason
    case 'Capacity':
      // The message changes with every percent.
      if (status === 'Unknown' || previous?.reason === reason) return false
      return status === 'False' || previous?.status === 'False'
    case 'KeyRotated':
      // The message says how many nodes accept a key.
      return previous?.reason !== reason && (status === 'False' || previous?.status === 'False')
    case 'CertificateInUse':
      return true
    case 'Ready':
      // The condition Progressing has the same reason, and it is one Event.
      if (reason === HIBERNATED) return false
      // A new cluster is never Ready at first; that is not worth an Event.
      return previous !== undefined && previous.status !== status
    default:
      return false
  }
}

/**
 * What keeps nodes from being removed or updated, or is missing of the release, is in several conditions, and one Event.
 */
function isRepeated({ type, reason, message }: Condition, conditions: Condition[]): boolean {
  if (type !== 'ShardsPlaced' && type !== 'Ready') return false
  return conditions.some(
    (other) =>
      (other.type === 'Applied' || other.type === 'Progressing') &&
      other.reason === reason &&
      other.message === message,
  )
}

const KEY_WARNINGS: readonly string[] = ['NoSecondKey', 'TokensNotRenewed', 'ForeignApiKey']

function isWarning({ type, status, reason }: Condition): boolean {
  if (type === 'Progressing') return isGateReason(reason)
  if (type === 'Applied') return isFailureReason(reason)
  if (type === 'ShardsPlaced' && isWorkReason(reason)) return false
  if (type === 'KeyRotated') return KEY_WARNINGS.includes(reason)
  return status !== 'True'
}

/** The same message about the same generation is one occurrence, regardless of how often it repeats. */
function transitionOf(condition: Condition): string {
  const { type, reason, message, lastTransitionTime, observedGeneration = 0 } = condition
  // The message contains the run number, so it is reported once even if the spec changes meanwhile.
  if (type === 'Progressing' || reason === 'HelmRunning') return shortHash(message)
  // The message says how far the start of the Job is, and a lagging cache shows none yet.
  if (type === 'ShardsPlaced' && isWorkReason(reason)) {
    return shortHash(reason, lastTransitionTime.slice(0, MINUTE_PREFIX_LENGTH))
  }
  const occurrence = `${observedGeneration}/${shortHash(message)}`
  // Each change of readiness, and each deletion, is a separate occurrence, but flapping causes at most one per minute.
  return type === 'Ready' || reason === RELEASE_INCOMPLETE
    ? `${occurrence}/${lastTransitionTime.slice(0, MINUTE_PREFIX_LENGTH)}`
    : occurrence
}
