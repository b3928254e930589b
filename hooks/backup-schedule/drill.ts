/**
 * Restore drills (`spec.drill`): when one is due, what it does next, and how it has ended.
 *
 * A drill is what its objects say: they exist while it is in progress, and their annotation names backup and
 * slot. It has ended once the live status has its result, and only then are the objects deleted: a status write
 * that is lost repeats nothing. All decisions are made on live objects, because a cache that lags would start a
 * drill a second time.
 */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import { REQUEUE_SOON_SECONDS, RETRY_SECONDS } from '../../crds/contract/limits.ts'
import { VecRestore } from '../../crds/restore.ts'
import { isFromTheFuture, timestamp } from '../conditions.ts'
import { unchanged } from '../request.ts'
import { awaitedWindowMessage } from '../maintenance-windows.ts'
import type { Child } from '../protocol.ts'
import { slotOf } from './backups.ts'
import {
  event,
  idle,
  nameConflict,
  refused,
  resultCondition,
  unknown,
  waiting,
  type DrillDecision,
  drillOutcome,
  isReadyForRestore,
  type LastDrill,
} from './drill-result.ts'
import {
  factsOf,
  foreignObject,
  identityOf,
  isStale,
  runOf,
  type DrillInputs,
  type Facts,
} from './drill-facts.ts'
import {
  drillCluster,
  drillName,
  drillNodes,
  drillRestore,
  withoutDrill,
  type DrillIdentity,
  type WithDrill,
} from './drill-objects.ts'
import { dueSlot, parseCron } from './slots.ts'
import { FAR_AHEAD_MS } from './tick.ts'

export function decideDrill(inputs: DrillInputs, now: Date): DrillDecision {
  const { schedule, drill } = inputs
  const { children = [], live } = drill ?? {}
  if (live === undefined) return { children: [], pruned: [], status: {}, events: [] }
  const facts = factsOf(inputs, live, now)
  if (isStale(schedule, live.schedule)) {
    return {
      ...idle(facts),
      children: children.map(unchanged),
      status: facts.status,
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    }
  }
  const { cluster, restore, cached } = facts
  const identity = identityOf(facts)
  const ended = endReason(facts, identity)
  const hasObjects = cluster !== undefined || restore !== undefined || cached.length > 0
  if (ended !== undefined && hasObjects) return removeObjects(facts, identity, ended)
  if (ended === undefined && identity !== undefined && isDrillDesired(schedule)) {
    return proceed({ ...facts, schedule }, identity)
  }
  return nextDrill(facts)
}

/** The slot that is due by the live status; undefined if none is. Throws `Rejected`. */
function dueDrill({ spec, metadata, status }: VecBackupSchedule, now: Date): Date | undefined {
  if (spec.drill === undefined) return undefined
  const slots = parseCron(spec.drill.schedule, { field: 'spec.drill.schedule' })
  const { lastDrill } = status ?? {}
  // Without this, no drill would start until the clock is there again.
  const isRecorded = lastDrill !== undefined && !isFarAhead(lastDrill, now)
  const lastSlot = isRecorded ? new Date(lastDrill.slot) : undefined
  return dueSlot(slots, { createdAt: new Date(metadata.creationTimestamp), lastSlot, now })
}

function isDrillDesired(schedule: VecBackupSchedule): schedule is WithDrill {
  return schedule.spec.drill !== undefined && !schedule.spec.suspend
}

interface DrillEnd {
  reason: string
  /** The result is not recorded: there is none. */
  isCanceled: boolean
}

function endReason(
  { schedule, status, now }: Facts,
  identity: DrillIdentity | undefined,
): DrillEnd | undefined {
  if (identity === undefined)
    return { reason: 'no restore drill is in progress', isCanceled: false }
  const { lastDrill } = status
  if (lastDrill !== undefined && hasEnded(identity, lastDrill, now)) {
    return { reason: 'the restore drill has ended', isCanceled: false }
  }
  if (schedule.spec.drill === undefined)
    return { reason: 'spec.drill was removed', isCanceled: true }
  return schedule.spec.suspend ? { reason: 'spec.suspend is true', isCanceled: true } : undefined
}

/** A result of a clock that was far ahead is not that of a later drill. */
function hasEnded({ slot }: DrillIdentity, lastDrill: DrillIdentity, now: Date): boolean {
  const [last, current] = [Date.parse(lastDrill.slot), Date.parse(slot)]
  return last === current || (last > current && !isFarAhead(lastDrill, now))
}

function isFarAhead({ slot }: DrillIdentity, now: Date): boolean {
  return isFromTheFuture(Date.parse(slot), now.getTime(), FAR_AHEAD_MS)
}

function removeObjects(
  facts: Facts,
  identity: DrillIdentity | undefined,
  end: DrillEnd,
): DrillDecision {
  const { schedule, cached, others, cluster, restore, status, now } = facts
  const { lastDrill } = status
  const { children, pruned } = withoutDrill(cached, end.reason, restore !== undefined)
  return {
    ...idle(facts),
    children: [...others, ...children],
    pruned,
    status: {
      ...(identity && {
        drill: { ...runOf(facts, identity), step: 'Deleting' as const },
      }),
      ...(lastDrill && { lastDrill }),
    },
    events:
      end.isCanceled && identity !== undefined && (cluster ?? restore) !== undefined
        ? [
            event(schedule, identity, now, {
              reason: 'DrillCanceled',
              message: `the restore drill of backup ${identity.backupName} is canceled: ${end.reason}`,
            }),
          ]
        : [],
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
  }
}

function proceed(facts: Facts & { schedule: WithDrill }, identity: DrillIdentity): DrillDecision {
  const { schedule, cluster, restore, live, now } = facts
  const run = runOf(facts, identity)
  const backup = live.backups.find(({ metadata }) => metadata.name === identity.backupName)
  const name = drillName(schedule.metadata.name)
  const { timeout } = schedule.spec.drill
  const result = drillOutcome({ run, name, timeout, cluster, restore, backup }, now)
  if (result !== undefined) return record(facts, identity, result)
  const foreign = foreignObject(facts)
  if (foreign !== undefined) {
    const children = [...facts.others, ...facts.cached.map(unchanged)]
    return { ...nameConflict(facts, foreign), children, status: facts.status }
  }
  const isRestoring = restore !== undefined || (cluster !== undefined && isReadyForRestore(cluster))
  const step = isRestoring ? 'Restoring' : 'CreatingCluster'
  const message = isRestoring
    ? `backup ${identity.backupName} is being restored into VecCluster ${name}`
    : `VecCluster ${name} is being created for backup ${identity.backupName}`
  return {
    children: [
      ...facts.others,
      ...clusterChild(facts, identity, backup),
      ...restoreChild(facts, identity, isRestoring),
    ],
    pruned: [],
    status: { ...facts.status, drill: { ...run, step } },
    condition: resultCondition(facts.status.lastDrill) ?? unknown('DrillRunning', message),
    events: [],
    resyncAfterSeconds: RETRY_SECONDS,
  }
}

function clusterChild(
  { schedule, source, cluster, cached }: Facts & { schedule: WithDrill },
  identity: DrillIdentity,
  backup: VecBackup | undefined,
): Child[] {
  const observed = cached.filter(({ kind }) => kind !== VecRestore.kind)
  // It exists: the cache does not have it yet.
  if (observed.length > 0 || cluster !== undefined || source === undefined) {
    return observed.map(unchanged)
  }
  const nodes = drillNodes(schedule.spec.drill, source, backup)
  return [drillCluster(schedule, identity, source, nodes)]
}

function restoreChild(
  { schedule, restore, cached }: Facts,
  identity: DrillIdentity,
  isRestoring: boolean,
): Child[] {
  const observed = cached.filter(({ kind }) => kind === VecRestore.kind)
  if (observed.length > 0 || restore !== undefined || !isRestoring) return observed.map(unchanged)
  return [drillRestore(schedule, identity)]
}

/** The objects stay until the live status shows the result. */
function record(facts: Facts, identity: DrillIdentity, result: LastDrill): DrillDecision {
  const { schedule, cached, others, now } = facts
  const condition = resultCondition(result)
  const { reason, message } = condition
  return {
    children: [...others, ...cached.map(unchanged)],
    pruned: [],
    status: { drill: { ...runOf(facts, identity), step: 'Deleting' }, lastDrill: result },
    condition,
    events: [event(schedule, identity, now, { reason, message })],
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
  }
}

/** No drill is in progress: starts the one that is due, or says what it waits for. */
function nextDrill(facts: Facts): DrillDecision {
  const { schedule, now } = facts
  if (schedule.spec.drill === undefined) return idle(facts)
  if (schedule.spec.suspend) return waiting(facts, 'no drill starts while spec.suspend is true')
  const slot = slotOrError(schedule, facts, now)
  if (typeof slot === 'string') return refused(facts, 'InvalidDrill', slot)
  if (slot === undefined) return idle(facts)
  return start({ ...facts, schedule: schedule as WithDrill }, slot)
}

/** The error names the field. */
function slotOrError(
  schedule: VecBackupSchedule,
  { status }: Facts,
  now: Date,
): Date | string | undefined {
  try {
    return dueDrill({ ...schedule, status }, now)
  } catch (error) {
    if (error instanceof Rejected) return error.message
    throw error
  }
}

function start(facts: Facts & { schedule: WithDrill }, slot: Date): DrillDecision {
  const { schedule, source, live, status, others, now } = facts
  const due = timestamp(slot)
  const wait = (message: string) => waiting(facts, `the drill of ${due} ${message}`)
  if (source === undefined) return wait(`waits: ${facts.sourceBlocker}`)
  const window = awaitedWindowMessage(source, now)
  if (window !== undefined) return wait(window)
  const backup = newestCompleted(schedule, live.backups)
  if (backup === undefined) return wait('waits for a completed backup of this schedule')
  const name = drillName(schedule.metadata.name)
  const foreign = foreignObject(facts)
  if (foreign !== undefined) return nameConflict(facts, foreign)
  const { replicas } = schedule.spec.drill
  if (replicas !== undefined && backup.spec.method !== 'Shard') {
    const message = `spec.drill.replicas is ${replicas}, but backup ${backup.metadata.name} is by node and fits only as many nodes as it was made of: remove the field, or wait for a backup with spec.method Shard`
    return refused(facts, 'InvalidDrill', message)
  }
  const identity = { backupName: backup.metadata.name, slot: due }
  const nodes = drillNodes(schedule.spec.drill, source, backup)
  const message = `VecCluster ${name} is being created for backup ${identity.backupName}`
  return {
    children: [...others, drillCluster(schedule, identity, source, nodes)],
    pruned: [],
    status: {
      ...status,
      drill: { ...identity, startTime: timestamp(now), step: 'CreatingCluster' },
    },
    condition: resultCondition(status.lastDrill) ?? unknown('DrillRunning', message),
    events: [
      event(schedule, identity, now, {
        reason: 'DrillStarted',
        message: `the restore drill of backup ${identity.backupName} for the slot ${due} has started`,
      }),
    ],
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
  }
}

/** The names of backups sort by slot. One that was created otherwise is not of this schedule. */
function newestCompleted(
  { metadata: { name } }: VecBackupSchedule,
  backups: VecBackup[],
): VecBackup | undefined {
  return backups
    .filter((backup) => slotOf(name, backup) !== undefined)
    .filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined && status?.phase === 'Completed',
    )
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? 1 : -1))[0]
}
