/** Instants that processes of one machine exchange. */

/** Header that says when a request or an answer was sent. */
export const SENT_AT = 'x-sent-at'

/** The machine's monotonic clock in nanoseconds. It is far from what a number cannot hold. */
export function monotonic(): number {
  return Number(process.hrtime.bigint())
}
