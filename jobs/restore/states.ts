/**
 * How every collection of a restore ended, in a form for which a report always has room: collections are
 * restored in the order of the manifest, and most that follow each other ended the same way.
 */
import type { RestoredCollection } from '../../crds/restore-command.ts'

/** `back`: Failed, but its points are in place. */
export type State = 'completed' | 'failed' | 'back' | 'pending'

const LETTERS = { completed: 'C', failed: 'F', back: 'B', pending: 'P' } as const satisfies Record<
  State,
  string
>
const STATES = new Map(Object.entries(LETTERS).map(([state, letter]) => [letter, state as State]))

export function stateOf({ status, isInPlace }: RestoredCollection): State {
  if (status === 'Completed') return 'completed'
  if (status !== 'Failed') return 'pending'
  return isInPlace === true ? 'back' : 'failed'
}

/** As `300C2F148P`. */
export function encodeStates(states: readonly State[]): string {
  let text = ''
  for (let from = 0; from < states.length;) {
    const state = states[from] ?? 'pending'
    let to = from
    while (states[to] === state) to += 1
    text += `${to - from}${LETTERS[state]}`
    from = to
  }
  return text
}

/** Undefined unless it is of so many collections. */
export function decodeStates(text: string, length: number): State[] | undefined {
  const states: State[] = []
  for (const [, count = '', letter = ''] of text.matchAll(/(\d{1,9})(\D)/g)) {
    const state = STATES.get(letter as (typeof LETTERS)[State])
    if (state === undefined || states.length + Number(count) > length) return undefined
    states.push(...Array.from({ length: Number(count) }, () => state))
  }
  return states.length === length ? states : undefined
}
