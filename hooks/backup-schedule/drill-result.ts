/** How a restore drill has ended, and how the schedule reports it: the condition RestoreTested, and Events. */
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { parseDuration } from '../../crds/units.ts'
import { getCondition, secondsSince, timestamp, type ConditionUpdate } from '../conditions.ts'
import type { AnyObject, KubernetesEvent } from '../../crds/kubernetes.ts'
import { newEvent, warningEvent } from '../events.ts'
import type { Child, PrunedChild } from '../protocol.ts'
import type { DrillStatus, Facts } from './drill-facts.ts'
import type { DrillIdentity } from './drill-objects.ts'

export type LastDrill = NonNullable<BackupScheduleStatus['lastDrill']>

interface DrillObjects {
  run: { backupName: string; slot: string; startTime: string }
  /** Name of the objects. */
  name: string
  timeout: string
  cluster: VecCluster | undefined
  restore: VecRestore | undefined
  backup: VecBackup | undefined
}

/** Maximum length of an error in the status; the VecRestore and its log are deleted with the drill. */
const MAX_ERROR = 900

/** Undefined while the drill is in progress. */
export function drillOutcome(objects: DrillObjects, now: Date): LastDrill | undefined {
  const { run, name, timeout, cluster, restore } = objects
  const { phase, completionTime, error } = restore?.status ?? {}
  const end = { ...run, ...(cluster && { nodes: cluster.spec.replicas }) }
  const failed = (reason: string): LastDrill => ({
    ...end,
    completionTime: completionTime ?? timestamp(now),
    result: 'Failed',
    error: reason.slice(0, MAX_ERROR),
  })
  if (restore !== undefined && phase === 'Completed')
    return completed(objects, restore, end, failed)
  if (restore !== undefined && phase === 'Failed') {
    return failed(
      error ?? getCondition(restore, 'Complete')?.message ?? `VecRestore ${name} failed`,
    )
  }
  if (secondsSince(run.startTime, now) < parseDuration(timeout)) return undefined
  return failed(`not ended within ${timeout}: ${pendingCause(objects)}`)
}

/** The restore has counted the points (docs/kinds/restore.md, "What counts prove"); here its collections are. */
function completed(
  { backup }: DrillObjects,
  { status = {} }: VecRestore,
  end: DrillObjects['run'] & { nodes?: number },
  failed: (reason: string) => LastDrill,
): LastDrill {
  const { startTime, completionTime = '', restoredCollections = [], unlistedCollections } = status
  const collections =
    restoredCollections.filter((one) => one.status === 'Completed').length +
    (unlistedCollections?.completed ?? 0)
  const expected = backup === undefined ? collections : completedCollections(backup)
  if (collections !== expected) {
    return failed(`the backup has ${expected} collections, but ${collections} were restored`)
  }
  const points = restoredCollections.map(({ pointsCount }) => pointsCount)
  const isCounted = unlistedCollections === undefined && !points.includes(undefined)
  return {
    ...end,
    completionTime,
    result: collections === 0 ? 'Empty' : 'Passed',
    restoreSeconds: startTime === undefined ? 0 : secondsSince(startTime, new Date(completionTime)),
    collections,
    ...(isCounted && { points: points.reduce<number>((sum, count) => sum + (count ?? 0), 0) }),
  }
}

function completedCollections({ status }: VecBackup): number {
  const listed = (status?.collections ?? []).filter((one) => one.status === 'Completed')
  return listed.length + (status?.unlistedCollections?.completed ?? 0)
}

/** What was checked, and nothing else: which points a VecRestore counts depends on their number. */
function passedMessage(result: LastDrill): string {
  const { backupName, restoreSeconds = 0, nodes = 0, collections = 0, points } = result
  const counted =
    points === undefined
      ? `collections: ${collections}`
      : `collections: ${collections}, points: ${points}`
  return `backup ${backupName} was restored into a new cluster in ${restoreSeconds} s, and its VecRestore was Completed (nodes: ${nodes}, ${counted})`
}

/** The phase Running with the condition Ready, both for its spec. */
export function isReadyForRestore(cluster: VecCluster): boolean {
  const { metadata, status } = cluster
  const ready = getCondition(cluster, 'Ready')
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === 'Running' &&
    ready?.status === 'True' &&
    ready.observedGeneration === metadata.generation
  )
}

function pendingCause({ name, cluster, restore }: DrillObjects): string {
  if (restore !== undefined) {
    const message = getCondition(restore, 'Complete')?.message ?? 'it has not started'
    return `VecRestore ${name} is ${restore.status?.phase ?? 'Pending'}: ${message}`
  }
  if (cluster === undefined) return `VecCluster ${name} does not exist`
  const unmet = ['Applied', 'Ready', 'Consensus'].flatMap((type) => {
    const condition = getCondition(cluster, type)
    return condition?.status === 'False' ? [condition.message] : []
  })
  return `VecCluster ${name} is not Ready: ${unmet.join('; ') || 'it has not been installed'}`
}

const TYPE = 'RestoreTested'

export interface DrillDecision {
  children: Child[]
  pruned: PrunedChild[]
  status: DrillStatus
  condition?: ConditionUpdate
  events: KubernetesEvent[]
  resyncAfterSeconds?: number
}

export function idle(facts: Facts): DrillDecision {
  const { schedule, others, status } = facts
  const { lastDrill } = status
  const condition =
    schedule.spec.drill === undefined
      ? undefined
      : (resultCondition(lastDrill) ?? unknown('DrillPending', 'no restore drill has ended yet'))
  return {
    children: others,
    pruned: [],
    status: lastDrill === undefined ? {} : { lastDrill },
    ...(condition && { condition }),
    events: [],
  }
}

/** The condition keeps the last result: a wait is no reason to forget a failure. */
export function waiting(facts: Facts, message: string): DrillDecision {
  const result = resultCondition(facts.status.lastDrill)
  const condition =
    result === undefined
      ? unknown('DrillPending', message)
      : { ...result, message: `${result.message}; ${message}` }
  return { ...idle(facts), condition }
}

export function refused(facts: Facts, reason: string, message: string): DrillDecision {
  const { schedule, now } = facts
  const condition: ConditionUpdate = { type: TYPE, status: 'False', reason, message }
  const isNew = getCondition(schedule, TYPE)?.message !== message
  return {
    ...idle(facts),
    condition,
    events: isNew ? [warningEvent(schedule, condition, now)] : [],
  }
}

export function nameConflict(facts: Facts, { kind, metadata }: AnyObject): DrillDecision {
  const message = `${kind} ${metadata.name} already exists and does not belong to this schedule`
  return refused(facts, 'DrillNameConflict', message)
}

export function resultCondition(result: LastDrill): ConditionUpdate
export function resultCondition(result: LastDrill | undefined): ConditionUpdate | undefined
export function resultCondition(result: LastDrill | undefined): ConditionUpdate | undefined {
  if (result === undefined) return undefined
  const { backupName, collections, error = 'unknown' } = result
  if (result.result !== 'Failed' && collections === 0) {
    const nothing = `backup ${backupName} has no collections: its restore drill has proved nothing`
    return unknown('DrillEmpty', nothing)
  }
  if (result.result !== 'Failed') {
    return { type: TYPE, status: 'True', reason: 'DrillPassed', message: passedMessage(result) }
  }
  const message = `the restore drill of backup ${backupName} failed: ${error}`
  return { type: TYPE, status: 'False', reason: 'DrillFailed', message }
}

export function unknown(reason: string, message: string): ConditionUpdate {
  return { type: TYPE, status: 'Unknown', reason, message }
}

/** Once for each slot. */
export function event(
  schedule: VecBackupSchedule,
  { slot }: DrillIdentity,
  now: Date,
  { reason, message }: { reason: string; message: string },
): KubernetesEvent {
  const type = reason === 'DrillFailed' ? 'Warning' : 'Normal'
  return newEvent(schedule, { type, reason, message, transition: slot }, now)
}
