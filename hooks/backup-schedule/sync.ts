/** The desired children of a VecBackupSchedule: its backups without the pruned ones, plus the one due. */
import type { BackupScheduleStatus } from '../../crds/backup-schedule.ts'
import { REQUEUE_SOON_SECONDS, SCHEDULE_TICK_SECONDS } from '../../crds/contract/limits.ts'
import { timestamp } from '../conditions.ts'
import type { Context, Desired } from '../protocol.ts'
import { desiredBackup, newBackup } from './backups.ts'
import { decideDrill } from './drill.ts'
import { prunedBackup } from './retention.ts'
import { eventsOf, scheduleStatus } from './status.ts'
import { decide, type Decision, type Observed } from './tick.ts'

/** Lower bound, so that a timer that fires early does not cause a busy loop. */
const MIN_RESYNC_SECONDS = 0.1

export function sync(observed: Observed, { now }: Context): Desired<BackupScheduleStatus> {
  const { schedule, children } = observed
  const decision = decide(observed, now)
  const { create, prune, annotate } = decision
  const prunedNames = new Set(prune.map(({ name }) => name))
  const unpruned = children.filter(({ metadata }) => !prunedNames.has(metadata.name))
  const reasons = new Map(annotate.map(({ name, reason }) => [name, reason]))
  const drill = decideDrill(observed, now)
  const pruned = [...prune, ...drill.pruned]
  return {
    status: scheduleStatus(observed, { ...decision, drill }, now),
    children: [
      ...unpruned.map((backup) => {
        const reason = reasons.get(backup.metadata.name)
        if (reason === undefined) return desiredBackup(schedule, backup)
        return prunedBackup(schedule, backup, reason)
      }),
      ...(create === undefined ? [] : [newBackup(schedule, create)]),
      ...drill.children,
    ],
    ...(pruned.length > 0 && { pruned }),
    resyncAfterSeconds: Math.min(
      secondsUntilResync(observed, decision, now),
      drill.resyncAfterSeconds ?? Infinity,
    ),
    events: [...eventsOf(observed, decision, now), ...drill.events],
  }
}

/** Seconds until the next slot, but at most until the next tick. */
function secondsUntilResync(
  { schedule, lastSlot }: Observed,
  decision: Decision,
  now: Date,
): number {
  const { create, annotate, requeueSoon = false, nextSlot } = decision
  // Pruning waits until the status shows the slot, and the operator's own status write triggers no sync.
  const isUnrecorded =
    lastSlot !== undefined && schedule.status?.lastScheduleTime !== timestamp(lastSlot)
  if (create !== undefined || annotate.length > 0 || requeueSoon || isUnrecorded)
    return REQUEUE_SOON_SECONDS
  if (nextSlot === undefined) return SCHEDULE_TICK_SECONDS
  const seconds = (nextSlot.getTime() - now.getTime()) / 1000
  return Math.min(Math.max(seconds, MIN_RESYNC_SECONDS), SCHEDULE_TICK_SECONDS)
}
