/** `explain <message>`: what a reason or a message of a resource means, and what to do about it. */
import { REASONS } from '../../crds/reasons/all.ts'
import { FAILURES, saysOf } from '../../crds/reasons/failures.ts'
import { placeOf } from '../../crds/reasons/page.ts'
import { likeness, type Reason } from '../../crds/reasons/reason.ts'
import type { Condition } from '../../crds/schema.ts'
import { ENDS, isOn, JSON_FLAG, type PeopleCall, type PeopleCommand } from './command.ts'

export const explain: PeopleCommand = {
  name: 'explain',
  operands: '<message or reason>...',
  takes: { least: 1, most: Infinity },
  summary: 'say what a condition or an Event means, and what to do',
  details: ['Needs no cluster. Quotes are not needed: the words are put together.'],
  flags: JSON_FLAG,
  run: async (call) => tell(call, found(call.operands.join(' '))),
}

interface Explained extends Reason {
  kind: string
}

/** Of a word, the reasons of that name; of a text, those whose messages it is most like. */
export function found(text: string): Explained[] {
  const all = Object.entries(REASONS).flatMap(([kind, reasons]) =>
    reasons.map((reason) => ({ kind, ...reason })),
  )
  const named = all.filter(({ reason }) => reason.toLowerCase() === text.trim().toLowerCase())
  if (named.length > 0) return named
  // As `kubectl describe` has it, the reason may stand before the message.
  const texts = [text, text.replace(/^\S+\s+/, '')]
  const likenessOf = ({ messages }: Reason) =>
    Math.max(...messages.flatMap((form) => texts.map((words) => likeness(form, words))))
  const best = Math.max(...all.map(likenessOf))
  const like = best === 0 ? [] : all.filter((one) => likenessOf(one) === best)
  // An error is part of a message of its own kind; the forms of other kinds are like any error.
  const failures = failuresOf(text)
  const kinds = new Set(failures.map(({ kind }) => kind))
  return [...like.filter(({ kind }) => failures.length === 0 || kinds.has(kind)), ...failures]
}

/** What the error of something that has Failed means, by the words of each kind that say most of it. */
function failuresOf(text: string): Explained[] {
  return Object.entries(FAILURES).flatMap(([kind, failures]) => {
    const best = Math.max(...failures.map((one) => saysOf(one, text)))
    return failures
      .filter((one) => best > 0 && saysOf(one, text) === best)
      .map(({ words, ...rest }) => ({ kind, reason: 'Failed', messages: words, ...rest }))
  })
}

/** What to do about a condition. */
export interface Cure {
  reason: string
  cure: string
}

/** Of the conditions with which there is something to do, and of the error. */
export function curesOf(
  kind: keyof typeof REASONS,
  { conditions = [], error = '' }: { conditions?: readonly Condition[]; error?: string } = {},
): Cure[] {
  const ofError = failuresOf(error).filter((failure) => failure.kind === kind)
  const ofConditions = conditions.flatMap(({ type, status, reason }) =>
    REASONS[kind]
      .filter((row) => row.reason === reason && row.condition?.type === type)
      .filter(({ condition, cure }) => condition?.status === status && !cure.startsWith(NOTHING))
      .map(({ cure }) => ({ reason, cure })),
  )
  return [...ofConditions, ...ofError.map(({ reason, cure }) => ({ reason, cure }))]
}

/** With this word begins what to do about that which goes on by itself. */
const NOTHING = 'Nothing'

function tell(call: PeopleCall, reasons: Explained[]): number {
  if (isOn(call, 'json')) {
    call.print(`${JSON.stringify(reasons, null, 2)}\n`)
  } else if (reasons.length === 0) {
    call.print('Nothing known says this. docs/reasons.md has every reason and message.\n')
  } else {
    call.print(together(reasons).map(paragraph).join('\n'))
  }
  return reasons.length === 0 ? ENDS.wrong : ENDS.fine
}

/** What several kinds say in the same words is said once. */
function together(reasons: Explained[]): Explained[] {
  const groups = new Map<string, Explained>()
  for (const one of reasons) {
    const words = JSON.stringify([one.reason, placeOf(one), one.cause, one.cure])
    const known = groups.get(words)
    groups.set(words, known === undefined ? one : { ...one, kind: `${known.kind}, ${one.kind}` })
  }
  return [...groups.values()]
}

function paragraph(one: Explained): string {
  return [
    `${one.reason} (${one.kind}: ${placeOf(one)})`,
    ...one.messages.map((message) => `  says    ${message}`),
    `  why     ${one.cause}`,
    `  do      ${one.cure}`,
    '',
  ].join('\n')
}
