/** docs/reasons.md: every condition, reason and Event as tables of Markdown. */
import { escaped, table } from '../markdown.ts'
import { RESOURCES } from '../resources.ts'
import { REASONS } from './all.ts'
import type { Reason } from './reason.ts'

/** Text of docs/reasons.md. */
export function reasonsPage(): string {
  const sections = RESOURCES.map(({ kind }) => section(kind, REASONS[kind]))
  return [HEAD, ...sections.flat()].join('\n\n') + '\n'
}

const HEAD = `# What a resource says, and what to do

Made from \`crds/reasons/\` by \`npm run generate\`; \`vec-operator explain <message>\` reads the same
table. Where: the condition the reason stands in; with an Event, one Event of the same reason is
written when it comes up or says something new. \`<...>\` in a message stands for what differs.`

function section(kind: string, reasons: readonly Reason[]): string[] {
  if (reasons.length === 0) return []
  return [
    `## ${kind}`,
    table(
      ['Reason', 'Where', 'Messages', 'Why', 'What to do'],
      reasons.map((reason) => [
        `\`${reason.reason}\``,
        placeOf(reason),
        reason.messages.map((message) => `\`${message.replaceAll('|', '\\|')}\``).join('<br>'),
        escaped(reason.cause),
        escapedOutsideCode(reason.cure),
      ]),
    ),
  ]
}

/** For people: the condition and its status, and the type of the Event. */
export function placeOf({ condition, event }: Reason): string {
  const places = [
    ...(condition === undefined ? [] : [`${condition.type}=${condition.status}`]),
    ...(event === undefined ? [] : [`${event} Event`]),
  ]
  return places.length === 0 ? 'status.error' : places.join(', ')
}

function escapedOutsideCode(text: string): string {
  const parts = text.split('`')
  return parts.map((part, index) => (index % 2 === 0 ? escaped(part) : part)).join('`')
}
