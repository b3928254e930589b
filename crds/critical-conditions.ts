/**
 * Conditions that mean danger: the metric vec_operator_resource_danger, the alerts on it, and `doctor` use this
 * list.
 */
import type { Condition } from './schema.ts'

/** Both come from closed sets of this operator, never from user input. */
export interface CriticalCondition {
  type: string
  reason: string
}

interface Danger {
  type: string
  /** The status that means danger. */
  status: 'True' | 'False'
  /** Only with this reason; absent for every reason. */
  reason?: string
  /** Not with these reasons. */
  except?: readonly string[]
}

/** Reasons of ShardsPlaced while a Job works on the shards, or is about to, by the purpose of its steps. */
export const SHARD_WORK_REASONS = {
  'lost node': 'ReplacingNode',
  repair: 'Repairing',
  'scale-in': 'Draining',
  update: 'Updating',
  resharding: 'Resharding',
  balance: 'Balancing',
} as const

export const DANGERS: readonly Danger[] = [
  { type: 'Consensus', status: 'False' },
  { type: 'Replicated', status: 'False' },
  { type: 'Capacity', status: 'False' },
  { type: 'CertificateInUse', status: 'False' },
  { type: 'HistoryBounded', status: 'False' },
  { type: 'RestoreTested', status: 'False' },
  {
    ...{ type: 'ShardsPlaced', status: 'False' },
    // Another client works on the shards.
    except: [...Object.values(SHARD_WORK_REASONS), 'ForeignResharding'],
  },
  { type: 'Stalled', status: 'True' },
  { type: 'Reconciling', status: 'True', reason: 'JobSilent' },
  // A finished backup that is being deleted has no condition Reconciling.
  { type: 'Purged', status: 'False', reason: 'JobSilent' },
  { type: 'Purged', status: 'False', reason: 'PurgeFailed' },
]

/** The conditions of a status that mean danger. */
export function criticalConditions<Found extends Pick<Condition, 'type' | 'status' | 'reason'>>(
  conditions: readonly Found[],
): Found[] {
  return conditions.filter((condition) =>
    DANGERS.some(
      ({ type, status, reason = condition.reason, except = [] }) =>
        condition.type === type &&
        condition.status === status &&
        condition.reason === reason &&
        !except.includes(condition.reason),
    ),
  )
}
