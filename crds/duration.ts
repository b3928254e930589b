/** Durations as Kubernetes writes them (`720h`, `1h30m`, `30s`), and sizes for people. */

/**
 * What `parseDuration` accepts: whole numbers with h, m and s, in this order. The digits are bounded
 * because CEL's duration() fails beyond 292 years.
 */
export const DURATION_PATTERN = '^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$'

/** Seconds in a duration such as `1h30m`. */
export function parseDuration(text: string): number {
  const match = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text)
  const [, hours = '0', minutes = '0', seconds = '0'] = match ?? []
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
}
