/**
 * The slots of a cron expression, in UTC, and which one is due: the latest that was missed and no
 * other, as a CronJob decides it (specification: VecBackupSchedule).
 */
import { CronExpressionParser, type CronExpression } from 'cron-parser'
import { CRON_PATTERN } from '../../crds/backup-schedule.ts'
import { Rejected } from '../../crds/errors.ts'
import { withoutDoubles } from './cron-lists.ts'

export interface Slots {
  /** The latest slot that is not after this instant. */
  latestUntil(instant: Date): Date
  /** The first slot after this instant. */
  firstAfter(instant: Date): Date
}

const FIVE_FIELDS = new RegExp(CRON_PATTERN)

/** Throws `Rejected`, in the parser's words, for an expression that is none or that never fires. */
export function slotsOf(schedule: string): Slots {
  // The parser knows more than five fields and `H`, whose slots are other ones at each look.
  if (!FIVE_FIELDS.test(schedule)) {
    throw new Rejected('spec.schedule: not a cron expression of five fields')
  }
  const cron = parsed(asCronJobReads(schedule))
  return {
    latestUntil: (instant) => {
      // The parser looks strictly before; slots are whole minutes.
      cron.reset(new Date((Math.floor(instant.getTime() / 1000) + 1) * 1000))
      return cron.prev().toDate()
    },
    firstAfter: (instant) => {
      cron.reset(instant)
      return cron.next().toDate()
    },
  }
}

/** Where the parser and a CronJob read one expression differently, the CronJob is right. */
function asCronJobReads(schedule: string): string {
  return withoutDoubles(
    schedule
      // Every value is no restriction: a day of the month given beside it counts alone.
      .replaceAll(/\*\/1(?![0-9])/g, '*')
      // A step from a weekday on ends with Saturday; the parser goes on to 7, which is Sunday.
      .replace(/[^ ]+$/, (weekdays) =>
        weekdays.replaceAll(/(?<![-/])\b([0-6]|[a-z]{3})\//gi, '$1-6/'),
      ),
  )
}

/** A day that no month has, such as 30 February, is refused here too: what is left fires some day. */
function parsed(expression: string): CronExpression {
  try {
    // Each look sets its own instant: without one here the parser asks what zone the machine is in.
    return CronExpressionParser.parse(expression, { tz: 'UTC', currentDate: new Date(0) })
  } catch (cause) {
    throw new Rejected(`spec.schedule: ${(cause as Error).message}`, { cause })
  }
}

interface Since {
  createdAt: Date
  /** The latest slot that had its backup. */
  doneUntil: Date | undefined
  now: Date
}

/**
 * The latest slot since the last one that was done; those before it are never made up for. A slot
 * that is not after the last one is not due again, wherever the clock has jumped.
 */
export function missedSlot(
  slots: Slots,
  { createdAt, doneUntil = createdAt, now }: Since,
): Date | undefined {
  const slot = slots.latestUntil(now)
  return slot > createdAt && slot > doneUntil ? slot : undefined
}

export function isTooOld(slot: Date, deadlineSeconds: number | undefined, now: Date): boolean {
  return now.getTime() - slot.getTime() > (deadlineSeconds ?? Infinity) * 1000
}
