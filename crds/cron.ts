/** Cron expressions in specs: their shape, which the API server checks. */

/** One field of a cron expression: values, ranges and steps, separated by commas. */
function cronField(value: string): string {
  const item = `([*]|(${value})(-(${value}))?)(/[1-9][0-9]?)?`
  return `${item}(,${item})*`
}

const MONTHS = 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec'
const DAYS = 'sun|mon|tue|wed|thu|fri|sat'

/** The shape of a five-field cron expression. A date that never occurs, such as 30 February, is reported in a condition. */
export const CRON_PATTERN = `^(?i:${[
  cronField('[0-5]?[0-9]'),
  cronField('[01]?[0-9]|2[0-3]'),
  cronField('0?[1-9]|[12][0-9]|3[01]'),
  cronField(`0?[1-9]|1[0-2]|${MONTHS}`),
  cronField(`[0-7]|${DAYS}`),
].join('[ ]+')})$`
