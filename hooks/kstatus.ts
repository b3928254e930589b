/**
 * The conditions that tools read without knowing our kinds (kubectl wait, Flux, Argo CD): `Reconciling`
 * while work is in progress, `Stalled` while a user must act, and on backups, restores and migrations
 * `Failed`. Each is there only while it is True.
 */
import type { Condition } from '../crds/schema.ts'
import { conditionOf, timestamp } from './conditions.ts'

interface Status {
  phase?: string
  error?: string
  conditions?: Condition[]
}

interface Parent {
  kind: string
  metadata: { generation: number }
  status?: Status
}

type Words = Pick<Condition, 'reason' | 'message'>

export const KSTATUS_TYPES = ['Reconciling', 'Stalled', 'Failed'] as const
type KstatusType = (typeof KSTATUS_TYPES)[number]

/** Reasons that only a change by a user ends; every other reason is retried by the operator. */
const NEEDS_USER = new Set([
  ...['SpecRefused', 'SecretNotUsable', 'ShardsWouldBeLost', 'VersionDowngraded', 'VersionSkipped'],
  ...['SplitBrain', 'ConsensusStopped'],
  ...['ApiKeyMissing', 'JwtRbacDisabled', 'InvalidSchedule', 'HistoryTooLarge'],
])

/** The status with these conditions as they are now, whatever was echoed of former ones. */
export function withKstatus<S extends object>(parent: Parent, status: S, now: Date): S {
  const { conditions = [] } = status as Status
  const specified = conditions.filter(({ type }) => !isOurs(type))
  const added = Object.entries(stateOf(parent, { ...status, conditions: specified })).map(
    ([type, { reason, message }]) => ({
      ...{ type, status: 'True' as const, reason, message },
      lastTransitionTime: conditionOf(parent, type)?.lastTransitionTime ?? timestamp(now),
      observedGeneration: parent.metadata.generation,
    }),
  )
  if (specified.length === conditions.length && added.length === 0) return status
  return { ...status, conditions: [...specified, ...added] }
}

function isOurs(type: string): boolean {
  return KSTATUS_TYPES.some((known) => known === type)
}

function stateOf({ kind, metadata }: Parent, status: Status): Partial<Record<KstatusType, Words>> {
  switch (kind) {
    case 'VecCluster':
      return clusterState(status)
    case 'VecBackup':
    case 'VecRestore':
    case 'VecMigration':
      return dataState(status)
    default:
      return readyState(status, metadata.generation)
  }
}

function clusterState(status: Status): Partial<Record<KstatusType, Words>> {
  const consensus = found(status, 'Consensus', 'False')
  if (consensus !== undefined && NEEDS_USER.has(consensus.reason)) return { Stalled: consensus }
  const pending = found(status, 'Applied', 'False')
  if (pending !== undefined) {
    return NEEDS_USER.has(pending.reason) ? { Stalled: pending } : { Reconciling: pending }
  }
  const rolling = found(status, 'Progressing', 'True')
  return rolling === undefined ? {} : { Reconciling: rolling }
}

function dataState(status: Status): Partial<Record<KstatusType, Words>> {
  const { phase, error, conditions = [] } = status
  if (phase === 'Completed') return {}
  const complete = conditions.find(({ type }) => type === 'Complete')
  if (phase !== 'Failed') return complete === undefined ? {} : { Reconciling: complete }
  const failed = { reason: complete?.reason ?? 'Failed', message: error ?? complete?.message ?? '' }
  return { Stalled: failed, Failed: failed }
}

/** What is said is about an earlier spec: the engine has not been compared with this one yet. */
function outdated(status: Status, generation: number): Partial<Record<KstatusType, Words>> {
  const { observedGeneration = generation } = found(status, 'Ready', 'True') ?? {}
  if (observedGeneration >= generation) return {}
  const message = `generation ${generation} is not applied yet`
  return { Reconciling: { reason: 'SpecChanged', message } }
}

function readyState(status: Status, generation: number): Partial<Record<KstatusType, Words>> {
  const ready = found(status, 'Ready', 'False')
  if (ready === undefined) return outdated(status, generation)
  const isFinal = status.phase === 'Failed' || status.phase === 'Degraded'
  return isFinal || NEEDS_USER.has(ready.reason) ? { Stalled: ready } : { Reconciling: ready }
}

function found({ conditions = [] }: Status, wanted: string, value: Condition['status']) {
  return conditions.find(({ type, status }) => type === wanted && status === value)
}
