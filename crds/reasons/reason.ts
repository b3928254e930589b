/** What a reason is to people: where it stands, how its messages read, why it is there, what to do. */

export interface Reason {
  reason: string
  /** The condition it stands in; absent where only an Event, or else `status.error`, tells of it. */
  condition?: { type: string; status: 'True' | 'False' | 'Unknown' }
  /** The Event of the same reason that tells of it once. */
  event?: 'Normal' | 'Warning'
  /** How its messages read; `<...>` stands for what differs from one to the next. */
  messages: readonly string[]
  cause: string
  cure: string
}

/** What to do about that which is as it should be, or goes on by itself. */
export const NOTHING_TO_DO = 'Nothing.'

/** Of a cluster in a namespace where the service has no rights. */
export const NOT_SERVED =
  'cluster <namespace>/<name> is in a namespace that this operator does not serve'

/**
 * How much of a text a form says itself, in letters, when the text is a message of that form; else 0.
 * A form that is all placeholders and points would fit every text, and says nothing.
 */
export function likeness(form: string, text: string): number {
  const parts = form.split(/<[^<>]+>/)
  const pattern = new RegExp(`^${parts.map(escaped).join('.+?')}$`, 's')
  return pattern.test(text.trim()) ? parts.join('').replaceAll(/\P{L}/gu, '').length : 0
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
