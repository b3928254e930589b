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

/** Whether a text is a message of this form. */
export function isOfForm(form: string, text: string): boolean {
  const [first = '', ...rest] = form.split(/<[^>]+>/).map(escaped)
  // Only placeholders: that would be every text.
  if ([first, ...rest].every((part) => part.trim() === '')) return false
  return new RegExp(`^${[first, ...rest].join('.+?')}$`, 's').test(text.trim())
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
