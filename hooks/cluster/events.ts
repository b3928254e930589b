/** Events about a VecCluster: one for each condition that came to say something new. */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import type { Condition } from '../../crds/schema.ts'
import { conditionOf } from '../conditions.ts'
import { eventOn } from '../events.ts'
import { isTrouble } from './failure.ts'

/** `2026-11-21T16:22`, of an instant. */
const TO_THE_MINUTE = 16

export function eventsOf(
  cluster: VecCluster,
  { conditions = [] }: ClusterStatus,
  now: Date,
): KubernetesEvent[] {
  return conditions
    .filter((condition) => isNews(cluster, condition))
    .map((condition) => {
      const { reason, message } = condition
      const type = isBad(condition) ? 'Warning' : 'Normal'
      return eventOn(cluster, { type, reason, message, transition: transitionOf(condition) }, now)
    })
}

function isNews(cluster: VecCluster, { type, status, reason, message }: Condition): boolean {
  const before = conditionOf(cluster, type)
  if (before?.reason === reason && before.message === message) return false
  switch (type) {
    case 'Progressing':
      return true
    case 'Consensus':
      return status === 'False'
    case 'Applied':
      // The work is a Job's now: once a run, whatever the Job says of itself later.
      if (reason === 'HelmRunning') return before?.reason !== reason
      return status === 'False' && isTrouble(reason)
    case 'Ready':
      // A cluster that is made is not Ready at first: that is no news.
      return before !== undefined && before.status !== status
    default:
      return false
  }
}

function isBad({ type, status, reason }: Condition): boolean {
  if (type === 'Applied') return isTrouble(reason)
  return type !== 'Progressing' && status !== 'True'
}

/** The same words about the same generation are the same occurrence, however often repeated. */
function transitionOf(condition: Condition): string {
  const { type, reason, message, lastTransitionTime, observedGeneration = 0 } = condition
  // A run has a number of its own: what it did is told once, though the spec changes meanwhile.
  if (type === 'Progressing' || reason === 'HelmRunning') return shortHash(message)
  const words = `${observedGeneration}/${shortHash(message)}`
  // Pods come and go: each time is one of its own, but a pod that flaps is told of once a minute.
  return type === 'Ready' ? `${words}/${lastTransitionTime.slice(0, TO_THE_MINUTE)}` : words
}
