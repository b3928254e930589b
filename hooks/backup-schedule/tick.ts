/**
 * What happens to a schedule at a tick: whether a backup is made, for which slot, and which ones go.
 * Slots and concurrency are decided as a CronJob decides them.
 */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import { LARGE_HISTORY_BYTES, MAX_HISTORY_BYTES } from '../../crds/contract/limits.ts'
import { timestamp, type ConditionUpdate } from '../conditions.ts'
import type { PrunedChild } from '../protocol.ts'
import { backupName, needsPrunedAnnotation, slotOf } from './backups.ts'
import {
  backupContents,
  findLastCopies,
  retainedNames,
  type FinishedBackup,
  type LastCopy,
} from './retention.ts'
import { dueSlot, isPastDeadline, parseCron, type Slots } from './slots.ts'

/** Two clocks may differ so much without a word. */
const CLOCK_TOLERANCE_MS = 60_000

export interface Decision {
  /** The slot to make a backup for. */
  create?: Date
  prune: PrunedChild[]
  /** To be deleted once they carry the annotation that says why. */
  annotate: PrunedChild[]
  /** No rule keeps them, but each is the last one with a collection. */
  lastCopies: LastCopy[]
  /** The slot after this one. */
  nextSlot?: Date
  /** What we saw is not the whole: look again soon. */
  requeueSoon?: boolean
  /** The condition Ready. */
  ready: ConditionUpdate
}

type SlotDecision = Pick<Decision, 'create' | 'requeueSoon' | 'ready'> & { prune?: PrunedChild[] }

export function decide(observed: Observed, now: Date): Decision {
  const { lastSlot } = observed
  if (isStale(observed)) {
    return { prune: [], annotate: [], lastCopies: [], requeueSoon: true, ready: scheduledFinding() }
  }
  const { expired, lastCopies } = applyRetention(observed)
  const slots = parseSchedule(observed)
  if (slots instanceof Rejected) {
    const ready = readyFinding('False', 'InvalidSchedule', slots.message)
    return { ...splitByAnnotation(observed, expired), lastCopies, ready }
  }
  const nextSlot = slots.firstAfter(new Date(Math.max(now.getTime(), lastSlot?.getTime() ?? 0)))
  const slotDecision = decideSlot(observed, slots, now)
  return {
    ...slotDecision,
    nextSlot,
    lastCopies,
    ...splitByAnnotation(observed, [...(slotDecision.prune ?? []), ...expired]),
  }
}

/** What goes at once, and what must be marked first. */
function splitByAnnotation(
  observed: Observed,
  all: PrunedChild[],
): Pick<Decision, 'prune' | 'annotate'> {
  const { schedule, children, live } = observed
  const unannotated = new Set(
    (live?.backups ?? children)
      .filter((backup) => needsPrunedAnnotation(schedule, backup))
      .map(({ metadata }) => metadata.name),
  )
  return {
    prune: all.filter(({ name }) => !unannotated.has(name)),
    annotate: all.filter(({ name }) => unannotated.has(name)),
  }
}

/** Backups that exist, newest first. One that is being deleted is neither active, kept nor newest. */
export function existingBackups(observed: Observed, backups: VecBackup[]): VecBackup[] {
  const { name } = observed.schedule.metadata
  return backups
    .filter((backup) => backup.metadata.deletionTimestamp === undefined)
    .filter((backup) => slotOf(name, backup) !== undefined)
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? 1 : -1))
}

/** Pending or InProgress; one that has not been looked at yet has no phase. */
export function isActive({ status }: VecBackup): boolean {
  return status?.phase !== 'Completed' && status?.phase !== 'Failed'
}

function decideSlot(observed: Observed, slots: Slots, now: Date): SlotDecision {
  const { schedule, lastSlot, live } = observed
  const { metadata, spec } = schedule
  if (spec.suspend) {
    return {
      ready: readyFinding('True', 'Suspended', 'no backup is made while spec.suspend is true'),
    }
  }
  const historyFull = historyLimitFinding(observed)
  if (historyFull !== undefined) return { ready: historyFull }
  const createdAt = new Date(metadata.creationTimestamp)
  const slot = dueSlot(slots, { createdAt, lastSlot, now })
  if (slot === undefined) return { ready: clockSkew(lastSlot, now) ?? scheduledFinding() }
  if (isPastDeadline(slot, spec.startingDeadlineSeconds, now)) {
    const message = `the slot ${timestamp(slot)} was skipped: it was missed by more than spec.startingDeadlineSeconds`
    return { ready: readyFinding('True', 'SlotMissed', message) }
  }
  if (live?.conflictingBackup !== undefined) {
    const message = `VecBackup ${backupName(metadata.name, slot)} is there already and does not belong to this schedule`
    return { ready: readyFinding('False', 'NameConflict', message) }
  }
  return onSlotDue(observed, slot)
}

/** The slot is due: what becomes of it while an earlier backup runs. */
function onSlotDue(observed: Observed, slot: Date): SlotDecision {
  const { schedule, children, live } = observed
  const activeBackups = existingBackups(observed, live?.backups ?? children).filter(isActive)
  const [newest] = activeBackups
  if (newest === undefined) return { create: slot, ready: scheduledFinding() }
  switch (schedule.spec.concurrencyPolicy) {
    case 'Allow':
      return { create: slot, ready: scheduledFinding() }
    case 'Forbid': {
      const message = `the slot ${timestamp(slot)} waits for backup ${newest.metadata.name}: concurrencyPolicy is Forbid`
      return { ready: readyFinding('True', 'BackupAlreadyActive', message) }
    }
    case 'Replace': {
      const prune = deletable(observed, activeBackups, `replaced at the slot ${timestamp(slot)}`)
      // One that Metacontroller does not show yet cannot be dropped yet.
      if (prune.length < activeBackups.length)
        return { requeueSoon: true, ready: scheduledFinding() }
      if (splitByAnnotation(observed, prune).annotate.length > 0)
        return { prune, ready: scheduledFinding() }
      return { create: slot, prune, ready: scheduledFinding() }
    }
  }
}

/** Finished backups that no retention rule keeps, but for the last ones that have a collection. */
function applyRetention(observed: Observed): { expired: PrunedChild[]; lastCopies: LastCopy[] } {
  const { schedule, children, live } = observed
  const finished = existingBackups(observed, live?.backups ?? children).filter(
    (backup) => !isActive(backup),
  )
  const candidates = finished.flatMap((backup) => asFinished(observed, backup))
  const retained = retainedNames(candidates, schedule.spec.retentionPolicy)
  const completed = finished.filter(({ status }) => status?.phase === 'Completed')
  const lastCopies = findLastCopies(completed.map(backupContents), retained)
  const names = new Set([...retained, ...lastCopies.map(({ name }) => name)])
  const unretained = finished.filter(({ metadata }) => !names.has(metadata.name))
  return {
    expired: deletable(observed, unretained, 'no rule of spec.retentionPolicy keeps it'),
    lastCopies,
  }
}

function asFinished({ schedule }: Observed, backup: VecBackup): FinishedBackup[] {
  const slot = slotOf(schedule.metadata.name, backup)
  const phase = backup.status?.phase === 'Completed' ? 'Completed' : 'Failed'
  return slot === undefined ? [] : [{ name: backup.metadata.name, slot, phase }]
}

/**
 * Only what Metacontroller shows can be dropped, and only once the status that it shows tells of its
 * slot: a backup may be the last witness of that.
 */
function deletable(observed: Observed, backups: VecBackup[], reason: string): PrunedChild[] {
  const { schedule, children } = observed
  const cached = new Set(existingBackups(observed, children).map(({ metadata }) => metadata.uid))
  const reportedSlot = schedule.status?.lastScheduleTime
  if (reportedSlot === undefined) return []
  const limit = backupName(schedule.metadata.name, new Date(reportedSlot))
  return backups
    .filter(({ metadata }) => cached.has(metadata.uid) && metadata.name <= limit)
    .map(({ kind, metadata }) => ({ kind, name: metadata.name, reason }))
}

/** The schedule was changed or deleted after what Metacontroller shows. */
function isStale({ schedule, live }: Observed): boolean {
  if (live === undefined) return false
  const current = live.schedule?.metadata
  return (
    current?.uid !== schedule.metadata.uid ||
    current.deletionTimestamp !== undefined ||
    current.generation !== schedule.metadata.generation
  )
}

function parseSchedule({ schedule }: Observed): Slots | Rejected {
  try {
    return parseCron(schedule.spec.schedule)
  } catch (error) {
    if (error instanceof Rejected) return error
    throw error
  }
}

/** A clock that ran ahead made a backup for a slot that is still to come. */
function clockSkew(lastSlot: Date | undefined, now: Date): ConditionUpdate | undefined {
  if (lastSlot === undefined || lastSlot.getTime() - now.getTime() <= CLOCK_TOLERANCE_MS) {
    return undefined
  }
  const message = `the last slot ${timestamp(lastSlot)} lies ahead of the clock; slots up to it are done`
  return readyFinding('False', 'ClockSkew', message)
}

function scheduledFinding(): ConditionUpdate {
  return readyFinding('True', 'Scheduled', 'backups are made as scheduled')
}

function readyFinding(
  status: ConditionUpdate['status'],
  reason: string,
  message: string,
): ConditionUpdate {
  return { type: 'Ready', status, reason, message }
}

export interface Observed {
  schedule: VecBackupSchedule
  /** Our backups as Metacontroller shows them. */
  children: VecBackup[]
  /** The latest slot of which anything tells that it had its backup. */
  lastSlot?: Date
  /** Size of the request that shows them. */
  bytes?: number
  /** As it is now; only where a backup may have to be made or to go. */
  live?: LiveState
}

export interface LiveState {
  schedule?: VecBackupSchedule
  backups: VecBackup[]
  /** A VecBackup of the wanted name that is not among ours. */
  conflictingBackup?: VecBackup
}

const MIB = 1024 * 1024
const HISTORY_FIX = 'set spec.retentionPolicy, or delete backups that are not needed'

/** Why no more are created. A request that is refused as too large could not even be pruned any more. */
export function historyLimitFinding({ bytes = 0 }: Observed): ConditionUpdate | undefined {
  if (bytes <= MAX_HISTORY_BYTES) return undefined
  const message = `no backup is created: the backups of this schedule take more than ${MAX_HISTORY_BYTES / MIB} MiB of a request to the operator; ${HISTORY_FIX}`
  return { type: 'Ready', status: 'False', reason: 'HistoryTooLarge', message }
}

/** Said long before that. */
export function largeHistoryFindings({ bytes = 0 }: Observed): ConditionUpdate[] {
  if (bytes <= LARGE_HISTORY_BYTES) return []
  const message = `the backups of this schedule take more than ${LARGE_HISTORY_BYTES / MIB} MiB of a request to the operator: above ${MAX_HISTORY_BYTES / MIB} MiB no more are created; ${HISTORY_FIX}`
  return [{ type: 'HistoryBounded', status: 'False', reason: 'HistoryLarge', message }]
}
