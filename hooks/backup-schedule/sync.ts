/** What a VecBackupSchedule should have: its backups, without those that go, and the one now due. */
import type { BackupScheduleStatus } from '../../crds/backup-schedule.ts'
import { SCHEDULE_TICK_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import { timestamp } from '../conditions.ts'
import type { Context, Desired } from '../protocol.ts'
import { keptBackup, newBackup, prunedBackup } from './children.ts'
import { decide, type Decision } from './decision.ts'
import { eventsOf } from './events.ts'
import type { Observed } from './observed.ts'
import { scheduleStatus } from './status.ts'

/** Timers that run early must not turn in a circle. */
const MIN_SECONDS = 0.1

export function sync(observed: Observed, { now }: Context): Desired<BackupScheduleStatus> {
  const { schedule, children } = observed
  const decision = decide(observed, now)
  const { create, drop, mark } = decision
  const gone = new Set(drop.map(({ name }) => name))
  const stay = children.filter(({ metadata }) => !gone.has(metadata.name))
  const why = new Map(mark.map(({ name, reason }) => [name, reason]))
  const status = scheduleStatus(observed, decision, now)
  return {
    status,
    children: [
      ...stay.map((backup) => {
        const reason = why.get(backup.metadata.name)
        if (reason === undefined) return keptBackup(schedule, backup)
        return prunedBackup(schedule, backup, reason)
      }),
      ...(create === undefined ? [] : [newBackup(schedule, create)]),
    ],
    ...(drop.length > 0 && { dropped: drop }),
    resyncAfterSeconds: againAfter(observed, decision, now),
    events: eventsOf(observed, decision, now),
  }
}

/** At the next slot, at the latest at the next tick. */
function againAfter({ schedule, doneUntil }: Observed, decision: Decision, now: Date): number {
  const { create, mark, isEarly = false, next } = decision
  // What may go waits for the status to tell its slot, and our own write wakes nobody.
  const isUnrecorded =
    doneUntil !== undefined && schedule.status?.lastScheduleTime !== timestamp(doneUntil)
  if (create !== undefined || mark.length > 0 || isEarly || isUnrecorded) return SOON_SECONDS
  if (next === undefined) return SCHEDULE_TICK_SECONDS
  const seconds = (next.getTime() - now.getTime()) / 1000
  return Math.min(Math.max(seconds, MIN_SECONDS), SCHEDULE_TICK_SECONDS)
}
