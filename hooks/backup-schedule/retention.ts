/**
 * Which finished backups are kept (specification: retentionPolicy). Each rule names its own and a
 * backup stays when any rule names it. Days, ISO weeks and months are those of the slots, in UTC.
 */
import type { BackupScheduleSpec } from '../../crds/backup-schedule.ts'

export type RetentionPolicy = NonNullable<BackupScheduleSpec['retentionPolicy']>

export interface Finished {
  name: string
  slot: Date
  phase: 'Completed' | 'Failed'
}

/**
 * The names that stay. The rules look at all finished backups and once more at the completed ones
 * alone: so a failed one may stay, but never instead of a completed one, and each rule keeps at least the
 * newest completed one.
 */
export function keptNames(finished: Finished[], policy: RetentionPolicy = {}): Set<string> {
  const newestFirst = finished.toSorted((one, other) => other.slot.getTime() - one.slot.getTime())
  const completed = newestFirst.filter(({ phase }) => phase === 'Completed')
  const rules = rulesOf(policy)
  if (rules.length === 0) return namesOf(finished)
  const kept = [newestFirst, completed].flatMap((backups) =>
    rules.flatMap(({ count, periodOf }) => newestOfEach(backups, periodOf).slice(0, count)),
  )
  return namesOf(kept)
}

interface Rule {
  count: number
  periodOf: (backup: Finished) => string
}

function rulesOf({ keepLast, keepDaily, keepWeekly, keepMonthly }: RetentionPolicy): Rule[] {
  const rules = [
    { count: keepLast, periodOf: ({ name }: Finished) => name },
    { count: keepDaily, periodOf: ({ slot }: Finished) => dayOf(slot) },
    { count: keepWeekly, periodOf: ({ slot }: Finished) => weekOf(slot) },
    { count: keepMonthly, periodOf: ({ slot }: Finished) => dayOf(slot).slice(0, 7) },
  ]
  return rules.flatMap(({ count, periodOf }) => (count === undefined ? [] : [{ count, periodOf }]))
}

/** The first of each period, in the order given. */
function newestOfEach(backups: Finished[], periodOf: Rule['periodOf']): Finished[] {
  const periods = new Map<string, Finished>()
  for (const backup of backups) {
    const period = periodOf(backup)
    if (!periods.has(period)) periods.set(period, backup)
  }
  return [...periods.values()]
}

function dayOf(instant: Date): string {
  return instant.toISOString().slice(0, 10)
}

/** An ISO week is known by its Monday, also where a year ends within it. */
function weekOf(instant: Date): string {
  const monday = new Date(instant)
  monday.setUTCDate(instant.getUTCDate() - ((instant.getUTCDay() + 6) % 7))
  return dayOf(monday)
}

function namesOf(backups: Finished[]): Set<string> {
  return new Set(backups.map(({ name }) => name))
}
