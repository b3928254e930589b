/**
 * What happens to a schedule at a tick: whether a backup is made, for which slot, and which ones go.
 * Slots and concurrency are decided as a CronJob decides them.
 */
import type { VecBackup } from '../../crds/backup.ts'
import { Rejected } from '../../crds/errors.ts'
import { timestamp, type Finding } from '../conditions.ts'
import type { Dropped } from '../protocol.ts'
import { backupName, needsMark, slotOf } from './children.ts'
import { fullHistory } from './history.ts'
import type { Observed } from './observed.ts'
import { contentsOf, lastHolders, type Held } from './contents.ts'
import { keptNames, type Finished } from './retention.ts'
import { isTooOld, missedSlot, slotsOf, type Slots } from './slots.ts'

/** Two clocks may differ so much without a word. */
const CLOCK_TOLERANCE_MS = 60_000

export interface Decision {
  /** The slot to make a backup for. */
  create?: Date
  drop: Dropped[]
  /** To be deleted once they carry the annotation that says why. */
  mark: Dropped[]
  /** No rule keeps them, but each is the last one with a collection. */
  held: Held[]
  /** The slot after this one. */
  next?: Date
  /** What we saw is not the whole: look again soon. */
  isEarly?: boolean
  /** The condition Ready. */
  ready: Finding
}

type Turn = Pick<Decision, 'create' | 'isEarly' | 'ready'> & { drop?: Dropped[] }

export function decide(observed: Observed, now: Date): Decision {
  const { doneUntil } = observed
  if (isOutdated(observed)) {
    return { drop: [], mark: [], held: [], isEarly: true, ready: scheduled() }
  }
  const { surplus, held } = retention(observed)
  const slots = parsedSlots(observed)
  if (slots instanceof Rejected) {
    const ready = finding('False', 'InvalidSchedule', slots.message)
    return { ...marked(observed, surplus), held, ready }
  }
  const next = slots.firstAfter(new Date(Math.max(now.getTime(), doneUntil?.getTime() ?? 0)))
  const turn = turnOf(observed, slots, now)
  return { ...turn, next, held, ...marked(observed, [...(turn.drop ?? []), ...surplus]) }
}

/** What goes at once, and what must be marked first. */
function marked(observed: Observed, all: Dropped[]): Pick<Decision, 'drop' | 'mark'> {
  const { schedule, children, live } = observed
  const bare = new Set(
    (live?.backups ?? children)
      .filter((backup) => needsMark(schedule, backup))
      .map(({ metadata }) => metadata.name),
  )
  return {
    drop: all.filter(({ name }) => !bare.has(name)),
    mark: all.filter(({ name }) => bare.has(name)),
  }
}

/** Backups that exist, newest first. One that is being deleted is neither active, kept nor newest. */
export function standing(observed: Observed, backups: VecBackup[]): VecBackup[] {
  const { name } = observed.schedule.metadata
  return backups
    .filter((backup) => backup.metadata.deletionTimestamp === undefined)
    .filter((backup) => slotOf(name, backup) !== undefined)
    .toSorted((one, other) => (one.metadata.name < other.metadata.name ? 1 : -1))
}

/** Pending or InProgress; one that has not been looked at yet has no phase. */
export function isActive({ status }: VecBackup): boolean {
  return status?.phase !== 'Completed' && status?.phase !== 'Failed'
}

function turnOf(observed: Observed, slots: Slots, now: Date): Turn {
  const { schedule, doneUntil, live } = observed
  const { metadata, spec } = schedule
  if (spec.suspend) {
    return { ready: finding('True', 'Suspended', 'no backup is made while spec.suspend is true') }
  }
  const full = fullHistory(observed)
  if (full !== undefined) return { ready: full }
  const createdAt = new Date(metadata.creationTimestamp)
  const slot = missedSlot(slots, { createdAt, doneUntil, now })
  if (slot === undefined) return { ready: clockBehind(doneUntil, now) ?? scheduled() }
  if (isTooOld(slot, spec.startingDeadlineSeconds, now)) {
    const message = `the slot ${timestamp(slot)} was skipped: it was missed by more than spec.startingDeadlineSeconds`
    return { ready: finding('True', 'SlotMissed', message) }
  }
  if (live?.namesake !== undefined) {
    const message = `VecBackup ${backupName(metadata.name, slot)} is there already and does not belong to this schedule`
    return { ready: finding('False', 'BackupNameTaken', message) }
  }
  return atSlot(observed, slot)
}

/** The slot is due: what becomes of it while an earlier backup runs. */
function atSlot(observed: Observed, slot: Date): Turn {
  const { schedule, children, live } = observed
  const active = standing(observed, live?.backups ?? children).filter(isActive)
  const [newest] = active
  if (newest === undefined) return { create: slot, ready: scheduled() }
  switch (schedule.spec.concurrencyPolicy) {
    case 'Allow':
      return { create: slot, ready: scheduled() }
    case 'Forbid': {
      const message = `the slot ${timestamp(slot)} waits for backup ${newest.metadata.name}: concurrencyPolicy is Forbid`
      return { ready: finding('True', 'BackupAlreadyActive', message) }
    }
    case 'Replace': {
      const drop = droppable(observed, active, `replaced at the slot ${timestamp(slot)}`)
      // One that Metacontroller does not show yet cannot be dropped yet.
      if (drop.length < active.length) return { isEarly: true, ready: scheduled() }
      if (marked(observed, drop).mark.length > 0) return { drop, ready: scheduled() }
      return { create: slot, drop, ready: scheduled() }
    }
  }
}

/** Finished backups that no retention rule keeps, but for the last ones that have a collection. */
function retention(observed: Observed): { surplus: Dropped[]; held: Held[] } {
  const { schedule, children, live } = observed
  const finished = standing(observed, live?.backups ?? children).filter(
    (backup) => !isActive(backup),
  )
  const known = finished.flatMap((backup) => finishedAs(observed, backup))
  const kept = keptNames(known, schedule.spec.retentionPolicy)
  const completed = finished.filter(({ status }) => status?.phase === 'Completed')
  const held = lastHolders(completed.map(contentsOf), kept)
  const names = new Set([...kept, ...held.map(({ name }) => name)])
  const rest = finished.filter(({ metadata }) => !names.has(metadata.name))
  return { surplus: droppable(observed, rest, 'no rule of spec.retentionPolicy keeps it'), held }
}

function finishedAs({ schedule }: Observed, backup: VecBackup): Finished[] {
  const slot = slotOf(schedule.metadata.name, backup)
  const phase = backup.status?.phase === 'Completed' ? 'Completed' : 'Failed'
  return slot === undefined ? [] : [{ name: backup.metadata.name, slot, phase }]
}

/**
 * Only what Metacontroller shows can be dropped, and only once the status that it shows tells of its
 * slot: a backup may be the last witness of that.
 */
function droppable(observed: Observed, backups: VecBackup[], reason: string): Dropped[] {
  const { schedule, children } = observed
  const shown = new Set(standing(observed, children).map(({ metadata }) => metadata.uid))
  const recorded = schedule.status?.lastScheduleTime
  if (recorded === undefined) return []
  const limit = backupName(schedule.metadata.name, new Date(recorded))
  return backups
    .filter(({ metadata }) => shown.has(metadata.uid) && metadata.name <= limit)
    .map(({ kind, metadata }) => ({ kind, name: metadata.name, reason }))
}

/** The schedule was changed or deleted after what Metacontroller shows. */
function isOutdated({ schedule, live }: Observed): boolean {
  if (live === undefined) return false
  const now = live.schedule?.metadata
  return (
    now?.uid !== schedule.metadata.uid ||
    now.deletionTimestamp !== undefined ||
    now.generation !== schedule.metadata.generation
  )
}

function parsedSlots({ schedule }: Observed): Slots | Rejected {
  try {
    return slotsOf(schedule.spec.schedule)
  } catch (error) {
    if (error instanceof Rejected) return error
    throw error
  }
}

/** A clock that ran ahead made a backup for a slot that is still to come. */
function clockBehind(doneUntil: Date | undefined, now: Date): Finding | undefined {
  if (doneUntil === undefined || doneUntil.getTime() - now.getTime() <= CLOCK_TOLERANCE_MS) {
    return undefined
  }
  const message = `the last slot ${timestamp(doneUntil)} lies ahead of the clock; slots up to it are done`
  return finding('False', 'ClockBehind', message)
}

function scheduled(): Finding {
  return finding('True', 'Scheduled', 'backups are made as scheduled')
}

function finding(status: Finding['status'], reason: string, message: string): Finding {
  return { type: 'Ready', status, reason, message }
}
