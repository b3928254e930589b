/**
 * The slots of a cron expression, in UTC by default, and the slot that is due: only the latest missed one, as in a
 * CronJob.
 */
import { CronExpressionParser, type CronExpression } from 'cron-parser'
import { CRON_PATTERN } from '../../crds/cron.ts'
import { Rejected } from '../../crds/contract/errors.ts'

export interface Slots {
  /** The latest slot that is not after this instant; `known` is one that is not, near it. */
  latestUntil(instant: Date, known?: Date): Date
  /** The first slot after this instant. */
  firstAfter(instant: Date): Date
}

const FIVE_FIELDS = new RegExp(CRON_PATTERN)

interface CronSource {
  /** Field that has the expression, for the error. */
  field?: string
  /** Of the IANA database. */
  timeZone?: string
}

/** Throws `Rejected` with the parser's message if the expression is invalid or never fires. */
export function parseCron(
  schedule: string,
  { field = 'spec.schedule', timeZone = 'UTC' }: CronSource = {},
): Slots {
  // The parser also accepts more than five fields, and `H`, whose slots change with each call.
  if (!FIVE_FIELDS.test(schedule)) {
    throw new Rejected(`${field}: not a cron expression of five fields`)
  }
  const cron = parseExpression(toCronJobSemantics(schedule), { field, timeZone })
  return timeZone === 'UTC' ? slotsInUtc(cron) : slotsInTimeZone(cron)
}

function slotsInUtc(cron: CronExpression): Slots {
  return {
    latestUntil: (instant) => {
      // `prev` returns only earlier slots, so start one second later; slots are whole minutes.
      cron.reset(new Date((Math.floor(instant.getTime() / 1000) + 1) * 1000))
      return cron.prev().toDate()
    },
    firstAfter: (instant) => {
      cron.reset(instant)
      return cron.next().toDate()
    },
  }
}

/** A slot at a time of day that the clock skips does not exist, as in a CronJob; the parser moves it. */
function slotsInTimeZone(cron: CronExpression): Slots {
  const firstAfter = (instant: Date) => {
    cron.reset(instant)
    let slot = cron.next()
    while (!cron.includesDate(slot)) slot = cron.next()
    return slot.toDate()
  }
  return {
    latestUntil: (instant, known) => searchLatestUntil(firstAfter, instant, known),
    firstAfter,
  }
}

/** The first distance that is searched backwards, and the factor to the next one. */
const FIRST_SEARCH_MS = 3_600_000
const SEARCH_FACTOR = 4

/**
 * The latest slot, found with `firstAfter` alone. Where the clock skips midnight, `prev` of the parser throws
 * after a second of work, for up to a week after the change of the clock.
 */
function searchLatestUntil(
  firstAfter: Slots['firstAfter'],
  instant: Date,
  known: Date | undefined,
): Date {
  const end = instant.getTime()
  const slotAfter = (time: number) => firstAfter(new Date(time)).getTime()
  let distance = FIRST_SEARCH_MS
  let latest = known?.getTime() ?? slotAfter(end - distance)
  let none = end
  while (latest > end) {
    none = end - distance
    distance *= SEARCH_FACTOR
    latest = slotAfter(end - distance)
  }
  // No slot is between `none` and the end. Each step halves what is between it and the latest slot that is known.
  for (let next = slotAfter(latest); next <= end; next = slotAfter(latest)) {
    const middle = next + Math.floor((none - next) / 2)
    const slot = slotAfter(middle)
    if (slot <= end) latest = slot
    else {
      latest = next
      none = middle
    }
  }
  return new Date(latest)
}

/** Rewrites parts of the expression that the parser interprets differently from a CronJob. */
function toCronJobSemantics(schedule: string): string {
  // `*/1` is no restriction: a day of the month next to it then applies alone.
  const expression = schedule.replaceAll(/\*\/1(?![0-9])/g, '*')
  const start = expression.lastIndexOf(' ') + 1
  // A step that starts at a weekday ends on Saturday; the parser continues to 7, which is Sunday.
  const weekdays = expression.slice(start).replaceAll(/(?<![-/])\b([0-6]|[a-z]{3})\//gi, '$1-6/')
  return deduplicateLists(expression.slice(0, start) + weekdays)
}

/** Also rejects days that no month has, such as 30 February, so every accepted expression fires. */
function parseExpression(
  expression: string,
  { field, timeZone }: Required<CronSource>,
): CronExpression {
  try {
    // Each call sets its own instant; without one here the parser reads the time zone of the machine.
    return CronExpressionParser.parse(expression, { tz: timeZone, currentDate: new Date(0) })
  } catch (cause) {
    throw new Rejected(`${field}: ${(cause as Error).message}`, { cause })
  }
}

interface SlotWindow {
  createdAt: Date
  /** The latest slot that had its backup. */
  lastSlot: Date | undefined
  now: Date
}

/**
 * The latest slot after the last one that had its backup; earlier missed slots are skipped. A slot that is
 * not after the last one is never due again, even if the clock jumps.
 */
export function dueSlot(
  slots: Slots,
  { createdAt, lastSlot = createdAt, now }: SlotWindow,
): Date | undefined {
  const slot = slots.latestUntil(now)
  return slot > createdAt && slot > lastSlot ? slot : undefined
}

export function isPastDeadline(
  slot: Date,
  deadlineSeconds: number | undefined,
  now: Date,
): boolean {
  return now.getTime() - slot.getTime() > (deadlineSeconds ?? Infinity) * 1000
}

const MONTHS = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ')
const DAYS = 'sun mon tue wed thu fri sat'.split(' ')

interface Field {
  min: number
  max: number
  names?: { words: string[]; first: number }
}

/** Minute, hour, day, month, weekday; weekday 7 is also Sunday. */
const FIELDS: readonly Field[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, names: { words: MONTHS, first: 1 } },
  { min: 0, max: 6, names: { words: DAYS, first: 0 } },
]

/**
 * Expands every list to its distinct values. A CronJob accepts a value that occurs twice, as in `0-10,5`; the
 * parser does not. Invalid text is left for the parser to reject.
 */
export function deduplicateLists(expression: string): string {
  return expression
    .trim()
    .split(/ +/)
    .map((text, index) => expandList(text, FIELDS[index]))
    .join(' ')
}

function expandList(text: string, field: Field | undefined): string {
  const items = text.split(',')
  if (items.length < 2 || field === undefined) return text
  if (items.includes('*') || items.includes('?')) return '*'
  const values = items.map((item) => itemValues(item, field))
  if (values.includes(undefined)) return text
  const isWeekday = field.names?.words === DAYS
  const numbers = values
    .flatMap((parsedItem) => parsedItem ?? [])
    .map((value) => (isWeekday ? value % 7 : value))
  return [...new Set(numbers)].sort((a, b) => a - b).join(',')
}

/** The values of `a`, `a-b`, or either with a step; undefined for anything else. */
function itemValues(item: string, field: Field): number[] | undefined {
  const [range = '', stepText, ...rest] = item.split('/')
  const [from = '', to, ...more] = range.split('-')
  const step = stepText === undefined ? 1 : parseNumber(stepText)
  const first = from === '*' ? field.min : parseValue(from, field)
  const open = from === '*' || stepText !== undefined ? field.max : first
  const last = to === undefined ? open : parseValue(to, field)
  if (rest.length + more.length > 0 || first === undefined || last === undefined) return undefined
  if (step === undefined || step < 1 || first > last) return undefined
  return Array.from(
    { length: Math.floor((last - first) / step) + 1 },
    (_, index) => first + index * step,
  )
}

function parseValue(text: string, { names }: Field): number | undefined {
  const index = names?.words.indexOf(text.toLowerCase()) ?? -1
  return index < 0 ? parseNumber(text) : index + (names?.first ?? 0)
}

function parseNumber(text: string): number | undefined {
  return /^[0-9]{1,2}$/.test(text) ? Number(text) : undefined
}
