/** Lists in a cron expression: a CronJob takes a value that is named twice, as in `0-10,5`; the parser does not. */

const MONTHS = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ')
const DAYS = 'sun mon tue wed thu fri sat'.split(' ')

interface Field {
  min: number
  max: number
  names?: { words: string[]; first: number }
}

/** Minute, hour, day, month, weekday, where 7 is Sunday too. */
const FIELDS: readonly Field[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, names: { words: MONTHS, first: 1 } },
  { min: 0, max: 6, names: { words: DAYS, first: 0 } },
]

/** The expression with every list as its values, each once. What does not read is left to the parser. */
export function withoutDoubles(expression: string): string {
  return expression
    .trim()
    .split(/ +/)
    .map((text, at) => listed(text, FIELDS[at]))
    .join(' ')
}

function listed(text: string, field: Field | undefined): string {
  const items = text.split(',')
  if (items.length < 2 || field === undefined) return text
  if (items.includes('*') || items.includes('?')) return '*'
  const values = items.map((item) => valuesOf(item, field))
  if (values.includes(undefined)) return text
  const isWeekday = field.names?.words === DAYS
  const each = values
    .flatMap((found) => found ?? [])
    .map((value) => (isWeekday ? value % 7 : value))
  return [...new Set(each)].sort((one, other) => one - other).join(',')
}

/** Of `a`, `a-b`, or either with a step; undefined for anything else. */
function valuesOf(item: string, field: Field): number[] | undefined {
  const [range = '', stepText, ...rest] = item.split('/')
  const [from = '', to, ...more] = range.split('-')
  const step = stepText === undefined ? 1 : numberOf(stepText)
  const first = from === '*' ? field.min : valueOf(from, field)
  const open = from === '*' || stepText !== undefined ? field.max : first
  const last = to === undefined ? open : valueOf(to, field)
  if (rest.length + more.length > 0 || first === undefined || last === undefined) return undefined
  if (step === undefined || step < 1 || first > last) return undefined
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, at) => first + at * step)
}

function valueOf(text: string, { names }: Field): number | undefined {
  const index = names?.words.indexOf(text.toLowerCase()) ?? -1
  return index < 0 ? numberOf(text) : index + (names?.first ?? 0)
}

function numberOf(text: string): number | undefined {
  return /^[0-9]{1,2}$/.test(text) ? Number(text) : undefined
}
