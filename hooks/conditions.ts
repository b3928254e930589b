/**
 * Status conditions: `lastTransitionTime` changes only on a transition. Also the conditions that
 * tools read without knowing our kinds (kubectl wait, Flux, Argo CD): `Reconciling` while work is
 * in progress, `Stalled` while a user must act, and on backups, restores and migrations `Failed`.
 * Each of these exists only while it is True. And the times that a sync records: a clock that was ahead
 * may have been set back since, and what it recorded does not count, otherwise it would hold until the
 * clock is there again.
 */
import { shortHash } from '../crds/contract/names.ts'
import type { Condition, ConditionReason } from '../crds/schema.ts'

export interface ConditionUpdate extends ConditionReason {
  type: string
  status: Condition['status']
  /** Generation that the condition describes, if it was found out earlier and not checked again. */
  observedGeneration?: number
}

interface Parent {
  metadata: { generation: number }
  status?: { conditions?: Condition[] }
}

/**
 * Converts the updates to conditions. None of their fields depends on time alone: a status that
 * changes on every sync would be written on every sync.
 */
export function setConditions(parent: Parent, updates: ConditionUpdate[], now: Date): Condition[] {
  // Only these fields: a cause may have others, and a status with unknown fields is written in every sync.
  return updates.map(({ type, status, reason, message, ...update }) => {
    const previous = getCondition(parent, type)
    const lastTransitionTime =
      previous?.status === status ? previous.lastTransitionTime : timestamp(now)
    const { observedGeneration = parent.metadata.generation } = update
    return { type, status, reason, message, lastTransitionTime, observedGeneration }
  })
}

/** Of a child that an answer before has created and that does not exist: only Metacontroller knows why. */
export function notCreatedMessage(child: string, command: string): string {
  return `${child} could not be created: ${command} shows the cause in an Event, such as a quota or an admission webhook`
}

export function getCondition(parent: Parent, type: string): Condition | undefined {
  return parent.status?.conditions?.find((condition) => condition.type === type)
}

/** Formats an instant as Kubernetes writes it: whole seconds. */
export function timestamp(instant: Date): string {
  return instant.toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/**
 * A number from 0 to 1, constant per resource: spreads the reconciles of a thousand collections that
 * were first observed at the same time.
 */
export function jitterOf(uid: string): number {
  return Number.parseInt(shortHash(uid).slice(0, 8), 16) / 2 ** 32
}

/** Seconds from one instant to another; negative if it is in the future. */
export function secondsSince(earlier: string, now: Date): number {
  return (now.getTime() - Date.parse(earlier)) / 1000
}

/** Clocks of the nodes of a Kubernetes cluster differ by less than this. */
const MAX_CLOCK_SKEW_SECONDS = 600

/**
 * Seconds from a time that another clock may have recorded. One that is far ahead does not count: infinitely
 * many have passed, otherwise a wait would last until this clock is there.
 */
export function secondsSinceRecorded(recorded: string, now: Date): number {
  const seconds = secondsSince(recorded, now)
  return seconds < -MAX_CLOCK_SKEW_SECONDS ? Infinity : seconds
}

/** Whether less than this long has passed since a time that was recorded, in milliseconds. */
export function isRecent(recordedAt: number, maxAgeMs: number, now: number): boolean {
  return !isFromTheFuture(recordedAt, now) && now - recordedAt < maxAgeMs
}

/** Whether a clock that was ahead recorded this time, by more than the tolerance. */
export function isFromTheFuture(recordedAt: number, now: number, toleranceMs = 0): boolean {
  return recordedAt - now > toleranceMs
}

interface KstatusFields {
  phase?: string
  error?: string
  /** Of a finished data job. */
  completionTime?: string
  conditions?: Condition[]
}

interface KstatusParent {
  kind: string
  metadata: { generation: number }
  status?: KstatusFields
}

const KSTATUS_TYPES = ['Reconciling', 'Stalled', 'Failed'] as const

type KstatusType = (typeof KSTATUS_TYPES)[number]

/** Reasons that only a user's change resolves; the operator retries every other reason. */
const USER_ACTION_REASONS = new Set([
  ...['InvalidSpec', 'InvalidSecret', 'ShardsWouldBeLost', 'VersionDowngraded', 'VersionSkipped'],
  ...['SplitBrain', 'ConsensusStopped', 'VolumeKept', 'VolumeNotExpandable', 'VolumeNotModifiable'],
  ...['HibernationBackupFailed', 'BackupScheduleInvalid'],
  // Why nodes cannot be removed, and nodes that a user decides about.
  ...['NotEnoughNodes', 'NoCapacity', 'NoActiveReplica', 'LastReplicaLost', 'LostNode'],
  'VolumeIntact',
  // Why a pod is not updated.
  'SingleCopies',
  ...['ApiKeyMissing', 'JwtRbacDisabled', 'InvalidSchedule', 'HistoryTooLarge'],
])

/** Those of them that need a user even while a helm run is due or in progress. */
const NODE_REASONS = new Set(['LostNode', 'VolumeIntact'])

/** Returns the status with these conditions as they are now, whatever earlier ones it carries. */
export function withKstatus<S extends object>(parent: KstatusParent, status: S, now: Date): S {
  // A finished status may be recorded again, from a cached resource that was not finished.
  const { conditions = [], completionTime = timestamp(now) } = status as KstatusFields
  const ownConditions = conditions.filter(({ type }) => !isKstatusType(type))
  const kstatusConditions = Object.entries(
    kstatusOf(parent, { ...status, conditions: ownConditions }),
  ).map(([type, { reason, message }]) => ({
    ...{ type, status: 'True' as const, reason, message },
    lastTransitionTime: getCondition(parent, type)?.lastTransitionTime ?? completionTime,
    observedGeneration: parent.metadata.generation,
  }))
  if (ownConditions.length === conditions.length && kstatusConditions.length === 0) return status
  return { ...status, conditions: [...ownConditions, ...kstatusConditions] }
}

export function isKstatusType(type: string): boolean {
  return KSTATUS_TYPES.some((kstatusType) => kstatusType === type)
}

function kstatusOf(
  { kind, metadata }: KstatusParent,
  status: KstatusFields,
): Partial<Record<KstatusType, ConditionReason>> {
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

function clusterState(status: KstatusFields): Partial<Record<KstatusType, ConditionReason>> {
  const consensus = findCondition(status, 'Consensus', 'False')
  if (consensus !== undefined && USER_ACTION_REASONS.has(consensus.reason))
    return { Stalled: consensus }
  const placed = findCondition(status, 'ShardsPlaced', 'False')
  if (placed !== undefined && NODE_REASONS.has(placed.reason)) return { Stalled: placed }
  const pending = findCondition(status, 'Applied', 'False')
  if (pending !== undefined) {
    return USER_ACTION_REASONS.has(pending.reason) ? { Stalled: pending } : { Reconciling: pending }
  }
  const rolling = findCondition(status, 'Progressing', 'True') ?? heldUpdate(status)
  if (rolling === undefined) return {}
  return USER_ACTION_REASONS.has(rolling.reason) ? { Stalled: rolling } : { Reconciling: rolling }
}

/** Reasons of Progressing while no pod is to be updated. */
const ROLLED_OUT_REASONS = new Set(['RolloutComplete', 'Hibernated'])

/** All pods may be ready, and some of them have the former template. */
function heldUpdate(status: KstatusFields): Condition | undefined {
  const held = findCondition(status, 'Progressing', 'False')
  return held === undefined || ROLLED_OUT_REASONS.has(held.reason) ? undefined : held
}

function dataState(status: KstatusFields): Partial<Record<KstatusType, ConditionReason>> {
  const { phase, error, conditions = [] } = status
  if (phase === 'Completed') return {}
  const complete = conditions.find(({ type }) => type === 'Complete')
  if (phase !== 'Failed') return complete === undefined ? {} : { Reconciling: complete }
  const failed = { reason: complete?.reason ?? 'Failed', message: error ?? complete?.message ?? '' }
  return { Stalled: failed, Failed: failed }
}

function readyState(
  status: KstatusFields,
  generation: number,
): Partial<Record<KstatusType, ConditionReason>> {
  const ready = status.conditions?.find(({ type }) => type === 'Ready')
  // The condition describes an earlier spec: the engine has not been compared with this one yet.
  if (ready?.observedGeneration !== undefined && ready.observedGeneration < generation) {
    const message = `generation ${generation} is not applied yet`
    return { Reconciling: { reason: 'SpecChanged', message } }
  }
  if (ready?.status !== 'False') return {}
  const isTerminal = status.phase === 'Failed' || status.phase === 'Degraded'
  return isTerminal || USER_ACTION_REASONS.has(ready.reason)
    ? { Stalled: ready }
    : { Reconciling: ready }
}

function findCondition(
  { conditions = [] }: KstatusFields,
  conditionType: string,
  value: Condition['status'],
) {
  return conditions.find(({ type, status }) => type === conditionType && status === value)
}
