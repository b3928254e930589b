/** Events about a VecCluster: one for each condition that came to say something new. */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { Condition } from '../../crds/schema.ts'
import { getCondition } from '../conditions.ts'
import { newEvent } from '../events.ts'
import { isFailureReason } from './helm-result.ts'

/** `2026-11-21T16:22`, of an instant. */
const MINUTE_PREFIX_LENGTH = 16

export function eventsOf(
  cluster: VecCluster,
  { conditions = [] }: ClusterStatus,
  now: Date,
): KubernetesEvent[] {
  return conditions
    .filter((condition) => isNewEvent(cluster, condition))
    .map((condition) => {
      const { reason, message } = condition
      const type = isWarning(condition) ? 'Warning' : 'Normal'
      return newEvent(cluster, { type, reason, message, transition: transitionOf(condition) }, now)
    })
}

function isNewEvent(cluster: VecCluster, { type, status, reason, message }: Condition): boolean {
  const previous = getCondition(cluster, type)
  if (previous?.reason === reason && previous.message === message) return false
  switch (type) {
    case 'Progressing':
      return true
    case 'Consensus':
      return status === 'False'
    case 'Applied':
      // The work is a Job's now: once a run, whatever the Job says of itself later.
      if (reason === 'HelmRunning') return previous?.reason !== reason
      return status === 'False' && isFailureReason(reason)
    case 'Ready':
      // A cluster that is made is not Ready at first: that is no news.
      return previous !== undefined && previous.status !== status
    default:
      return false
  }
}

function isWarning({ type, status, reason }: Condition): boolean {
  if (type === 'Applied') return isFailureReason(reason)
  return type !== 'Progressing' && status !== 'True'
}

/** The same words about the same generation are the same occurrence, however often repeated. */
function transitionOf(condition: Condition): string {
  const { type, reason, message, lastTransitionTime, observedGeneration = 0 } = condition
  // A run has a number of its own: what it did is told once, though the spec changes meanwhile.
  if (type === 'Progressing' || reason === 'HelmRunning') return shortHash(message)
  const occurrence = `${observedGeneration}/${shortHash(message)}`
  // Pods come and go: each time is one of its own, but a pod that flaps is told of once a minute.
  return type === 'Ready'
    ? `${occurrence}/${lastTransitionTime.slice(0, MINUTE_PREFIX_LENGTH)}`
    : occurrence
}
