/**
 * The decision of one tick of a schedule: whether to create a backup, for which slot, and which backups to
 * prune. Slots and concurrency follow the rules of a CronJob.
 */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import { formatRestores, type BackupsToRestore } from '../backup/deletion-policy.ts'
import { HIBERNATION_BACKUP_SECONDS } from '../../crds/contract/limits.ts'
import {
  notCreatedMessage,
  secondsSinceRecorded,
  timestamp,
  type ConditionUpdate,
} from '../conditions.ts'
import { hibernationBlocker } from '../cross-namespace.ts'
import type { PrunedChild } from '../protocol.ts'
import { backupName, historyLimitFinding, slotOf } from './backups.ts'
import { drilledBackups, type ObservedDrill } from './drill-facts.ts'
import {
  backupContents,
  findLastCopies,
  needsPrunedAnnotation,
  retainedNames,
  type FinishedBackup,
  type NeededBackup,
  type RetainedBeyondPolicy,
} from './retention.ts'
import { dueSlot, isPastDeadline, parseCron, type Slots } from './slots.ts'

/** Clock differences up to this are not reported. */
const CLOCK_TOLERANCE_MS = 60_000

/** A slot that is further ahead of the clock counts only while its backup exists. */
export const FAR_AHEAD_MS = 86_400_000

export interface Decision {
  /** The slot to create a backup for. */
  create?: Date
  /** A VecCluster waits for that backup before its pods are stopped; the slot is when it asked for it. */
  isBeforeHibernation?: boolean
  prune: PrunedChild[]
  /** Backups to delete once they carry the annotation with the reason. */
  annotate: PrunedChild[]
  /** Absent if the observed state is stale. */
  retained?: RetainedBeyondPolicy
  /** The slot after this one. */
  nextSlot?: Date
  /** The observed state is incomplete; sync again soon. */
  requeueSoon?: boolean
  /** The condition Ready. */
  ready: ConditionUpdate
}

type SlotDecision = Pick<Decision, 'create' | 'isBeforeHibernation' | 'requeueSoon' | 'ready'> & {
  prune?: PrunedChild[]
}

export function decide(observed: Observed, now: Date): Decision {
  const { lastSlot } = observed
  if (isStale(observed)) {
    const ready = standingFinding(observed.schedule)
    return { prune: [], annotate: [], requeueSoon: true, ready }
  }
  const { expired, retained } = applyRetention(observed)
  const slots = parseSchedule(observed)
  if (slots instanceof Rejected) {
    const ready = readyFinding('False', 'InvalidSchedule', slots.message)
    return { ...splitByAnnotation(observed, expired), retained, ready }
  }
  const nextSlot = slots.firstAfter(new Date(Math.max(now.getTime(), lastSlot?.getTime() ?? 0)))
  const slotDecision = reportRefused(observed, decideSlot(observed, slots, now))
  return {
    ...slotDecision,
    nextSlot,
    retained,
    ...splitByAnnotation(observed, [...(slotDecision.prune ?? []), ...expired]),
  }
}

/** The backup is created again with each sync; only Metacontroller knows why it does not exist. */
function reportRefused({ schedule, live }: Observed, decision: SlotDecision): SlotDecision {
  if (decision.create === undefined || live?.isRefused !== true) return decision
  const { namespace, name } = schedule.metadata
  const message = notCreatedMessage(
    `VecBackup ${backupName(name, decision.create)}`,
    `kubectl describe vecbackupschedule ${name} -n ${namespace}`,
  )
  return { ...decision, ready: readyFinding('False', 'BackupNotCreated', message) }
}

/** Separates backups that can be deleted now from those that must be annotated first. */
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

/** Existing backups, newest first. A backup that is being deleted is neither active, retained nor newest. */
export function existingBackups(observed: Observed, backups: VecBackup[]): VecBackup[] {
  const { name } = observed.schedule.metadata
  return backups
    .filter((backup) => backup.metadata.deletionTimestamp === undefined)
    .filter((backup) => slotOf(name, backup) !== undefined)
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? 1 : -1))
}

/** Pending or InProgress; a backup without a phase has not been synced yet. */
export function isActive({ status }: VecBackup): boolean {
  return status?.phase !== 'Completed' && status?.phase !== 'Failed'
}

function decideSlot(observed: Observed, slots: Slots, now: Date): SlotDecision {
  const { schedule, lastSlot } = observed
  const { metadata, spec } = schedule
  const requested = requestedSlot(observed)
  if (requested !== undefined) return onRequest(observed, requested)
  if (spec.suspend) return { ready: standingFinding(schedule) }
  const historyFull = historyLimitFinding(observed)
  if (historyFull !== undefined) return { ready: historyFull }
  const hibernation = observed.cluster && hibernationBlocker(observed.cluster)
  if (hibernation !== undefined) {
    const message = `no backup is created: ${hibernation.message}`
    return { ready: readyFinding('True', hibernation.reason, message) }
  }
  const createdAt = new Date(metadata.creationTimestamp)
  const slot = dueSlot(slots, { createdAt, lastSlot, now })
  if (slot === undefined) return { ready: clockSkew(observed, now) ?? scheduledFinding() }
  if (isPastDeadline(slot, spec.startingDeadlineSeconds, now)) {
    const message = `the slot ${timestamp(slot)} was skipped: it was missed by more than spec.startingDeadlineSeconds`
    return { ready: readyFinding('True', 'SlotMissed', message) }
  }
  const conflict = nameConflict(observed, slot)
  if (conflict !== undefined) return { ready: conflict }
  return beforeHibernation(observed, slot, now) ?? onSlotDue(observed, slot)
}

/**
 * The backup that a VecCluster waits for before its pods are stopped (hooks/cluster/hibernation-backup.ts);
 * undefined once it was created. It is created whatever runs, because the Lease of the cluster lets backups run
 * one after the other.
 */
function requestedSlot(observed: Observed): Date | undefined {
  const request = openRequest(observed)
  if (request === undefined) return undefined
  const { lastSlot } = observed
  const slot = new Date(request.requestTime)
  return lastSlot !== undefined && lastSlot >= slot ? undefined : slot
}

/** The cluster still waits for the backup. */
function openRequest(observed: Observed) {
  const request = hibernationRequest(observed)
  return request?.completionTime === undefined ? request : undefined
}

function hibernationRequest({ schedule, cluster }: Observed) {
  const { namespace, name } = schedule.metadata
  const request = cluster?.status?.hibernationBackup
  if (cluster?.spec.hibernate !== true || cluster.metadata.namespace !== namespace) return undefined
  return request?.scheduleName === name ? request : undefined
}

/**
 * A slot does not overtake the cluster that stops its pods after the requested backup: the Lease would go to its
 * backup, and the requested one would be too old afterwards. A hibernation that takes longer than that is not
 * waited for.
 */
function beforeHibernation(observed: Observed, slot: Date, now: Date): SlotDecision | undefined {
  const { schedule, children, live } = observed
  const request = hibernationRequest(observed)
  if (request === undefined) return undefined
  const backup = existingBackups(observed, live?.backups ?? children).find(
    ({ metadata }) => metadata.name === request.name,
  )
  const { namespace, name } = { ...schedule.metadata, ...schedule.spec.clusterRef }
  if (backup !== undefined && isActive(backup)) {
    const message = `the slot ${timestamp(slot)} waits for backup ${request.name}: cluster ${name} waits for it before it hibernates`
    return { ready: readyFinding('True', 'BackupAlreadyActive', message) }
  }
  const isCompleted = backup?.status?.phase === 'Completed'
  const completedAt =
    request.completionTime ?? (isCompleted ? backup.status?.completionTime : undefined)
  if (completedAt === undefined) return undefined
  if (secondsSinceRecorded(completedAt, now) > HIBERNATION_BACKUP_SECONDS) return undefined
  const message = `no backup is created: cluster ${namespace}/${name} hibernates after backup ${request.name}`
  return { ready: readyFinding('True', 'ClusterHibernated', message) }
}

function onRequest(observed: Observed, slot: Date): SlotDecision {
  const ready = historyLimitFinding(observed) ?? nameConflict(observed, slot)
  return ready === undefined
    ? { create: slot, isBeforeHibernation: true, ready: standingFinding(observed.schedule) }
    : { ready }
}

function nameConflict({ schedule, live }: Observed, slot: Date): ConditionUpdate | undefined {
  if (live?.conflictingBackup === undefined) return undefined
  const message = `VecBackup ${backupName(schedule.metadata.name, slot)} already exists and does not belong to this schedule`
  return readyFinding('False', 'NameConflict', message)
}

/** Applies the concurrencyPolicy to a due slot. */
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
      // A backup that Metacontroller's cache does not contain yet cannot be deleted yet.
      if (prune.length < activeBackups.length)
        return { requeueSoon: true, ready: scheduledFinding() }
      if (splitByAnnotation(observed, prune).annotate.length > 0)
        return { prune, ready: scheduledFinding() }
      return { create: slot, prune, ready: scheduledFinding() }
    }
  }
}

/**
 * Finished backups that no retention rule keeps, except those with the last copy of a collection, and those that an
 * unfinished VecRestore or a restore drill needs: it may wait for hours, for the cluster or for a backup in progress.
 */
function applyRetention(observed: Observed): {
  expired: PrunedChild[]
  retained: RetainedBeyondPolicy
} {
  const { schedule, children, live } = observed
  const finished = existingBackups(observed, live?.backups ?? children).filter(
    (backup) => !isActive(backup),
  )
  const candidates = finished.flatMap((backup) => asFinished(observed, backup))
  const selected = retainedNames(candidates, schedule.spec.retentionPolicy)
  const completed = finished.filter(({ status }) => status?.phase === 'Completed')
  const lastCopies = findLastCopies(completed.map(backupContents), selected)
  const names = new Set([...selected, ...lastCopies.map(({ name }) => name)])
  const unselected = finished.filter(({ metadata }) => !names.has(metadata.name))
  const needed = findNeeded(observed, unselected)
  const neededNames = new Set(needed.map(({ name }) => name))
  const unretained = unselected.filter(({ metadata }) => !neededNames.has(metadata.name))
  return {
    expired: deletable(observed, unretained, 'no rule of spec.retentionPolicy keeps it'),
    retained: { lastCopies, needed },
  }
}

/** The VecRestore of a drill is not named: whether it exists is not read in every sync. */
function findNeeded(observed: Observed, backups: VecBackup[]): NeededBackup[] {
  const drilled = drilledBackups(observed)
  return backups.flatMap(({ metadata: { name } }) => {
    if (drilled.has(name)) return [{ name, neededBy: 'the restore drill' }]
    const restores = observed.live?.toRestore?.get(name)
    return restores === undefined ? [] : [{ name, neededBy: formatRestores(restores) }]
  })
}

function asFinished({ schedule }: Observed, backup: VecBackup): FinishedBackup[] {
  const slot = slotOf(schedule.metadata.name, backup)
  const phase = backup.status?.phase === 'Completed' ? 'Completed' : 'Failed'
  return slot === undefined ? [] : [{ name: backup.metadata.name, slot, phase }]
}

/**
 * The backups that can be deleted: those in Metacontroller's cache, and only if the cached status already
 * shows their slot, because a backup may be the only record of its slot. A restore drill reads its backup.
 */
function deletable(observed: Observed, backups: VecBackup[], reason: string): PrunedChild[] {
  const { schedule, children } = observed
  const cached = new Set(existingBackups(observed, children).map(({ metadata }) => metadata.uid))
  const reportedSlot = schedule.status?.lastScheduleTime
  if (reportedSlot === undefined) return []
  const limit = backupName(schedule.metadata.name, new Date(reportedSlot))
  const drilled = drilledBackups(observed)
  return backups
    .filter(({ metadata }) => cached.has(metadata.uid) && metadata.name <= limit)
    .filter(({ metadata }) => !drilled.has(metadata.name))
    .map(({ kind, metadata }) => ({ kind, name: metadata.name, reason }))
}

/** The schedule was changed or deleted since Metacontroller's cache was updated. */
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

/** Reports a backup for a future slot, created while the clock was ahead. */
function clockSkew({ schedule, lastSlot }: Observed, now: Date): ConditionUpdate | undefined {
  const aheadMs = (lastSlot?.getTime() ?? 0) - now.getTime()
  if (lastSlot === undefined || aheadMs <= CLOCK_TOLERANCE_MS) return undefined
  const ahead = `the last slot ${timestamp(lastSlot)} is ahead of the clock`
  const name = backupName(schedule.metadata.name, lastSlot)
  const message =
    aheadMs > FAR_AHEAD_MS
      ? `${ahead}; no backup is created until then, or until VecBackup ${name} is deleted`
      : `${ahead}; no backup is created until then`
  return readyFinding('False', 'ClockSkew', message)
}

/** What holds apart from what is due. */
function standingFinding({ spec }: VecBackupSchedule): ConditionUpdate {
  return spec.suspend
    ? readyFinding('True', 'Suspended', 'no backup is created while spec.suspend is true')
    : scheduledFinding()
}

function scheduledFinding(): ConditionUpdate {
  return readyFinding('True', 'Scheduled', 'backups are created as scheduled')
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
  /** The cluster of its backups, if this namespace may use it. */
  cluster?: VecCluster
  /** The owned backups in Metacontroller's cache. */
  children: VecBackup[]
  /** The latest slot that is known to have had its backup. */
  lastSlot?: Date
  /** Size of the hook request that contains the children. */
  bytes?: number
  /** What restore drills need. */
  drill?: ObservedDrill
  /** The live state; read only if a backup may have to be created or deleted. */
  live?: LiveState
}

export interface LiveState {
  schedule?: VecBackupSchedule
  backups: VecBackup[]
  /** Those of the backups that unfinished VecRestores are to restore. */
  toRestore?: BackupsToRestore
  /** A VecBackup with the desired name that this schedule does not own. */
  conflictingBackup?: VecBackup
  /** Name of the backup that is to be created. */
  dueName?: string
  /** Its creation was answered long enough before, and it does not exist. */
  isRefused?: true
}
