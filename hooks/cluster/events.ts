/** Events about a VecCluster: one for each condition that came to say something new. */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import type { Condition } from '../../crds/schema.ts'
import { conditionOf } from '../conditions.ts'
import { eventOn } from '../events.ts'
import { isTrouble } from './failure.ts'

export function eventsOf(
  cluster: VecCluster,
  { conditions = [] }: ClusterStatus,
  now: Date,
): KubernetesEvent[] {
  return conditions
    .filter((condition) => isNews(cluster, condition))
    .map((condition) =>
      eventOn(
        cluster,
        {
          type:
            condition.type !== 'Progressing' && condition.status !== 'True' ? 'Warning' : 'Normal',
          reason: condition.reason,
          message: condition.message,
          // The same words about the same generation are the same occurrence, however often repeated.
          transition: `${condition.observedGeneration ?? 0}/${shortHash(condition.message)}`,
        },
        now,
      ),
    )
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
      return status === 'False' && isTrouble(reason)
    default:
      return false
  }
}
