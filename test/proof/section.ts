/** The section of docs/proof.md that has the last result of each claim of `npm run proof`. */
import { PARTS, type Part } from './parts.ts'

export interface Proved extends Pick<Part, 'name' | 'title' | 'scope' | 'fails'> {
  holds: boolean
  words: string
  /** As it was run. */
  command: string
}

const FROM = '<!-- proof: written by `npm run proof -- --write` -->'
const TO = '<!-- end of the proof -->'

/** One subsection for each claim, with the machine that it ran on. */
export function section(proved: Proved[], machine: string): string {
  return proved.map((part) => paragraph(part, machine)).join('\n')
}

function paragraph(
  { name, title, holds, words, scope, command, fails }: Proved,
  machine: string,
): string {
  return `${start(name)}### ${title}

${holds ? '' : '**Does not hold.** '}${words}

- Run: ${machine}
- Command: \`${command}\`
- Scope: ${scope}
- To make it fail: ${fails}
`
}

/** A claim without a result is on the page as well. */
function missing({ name, title, scope, command, fails }: Part): string {
  return `${start(name)}### ${title}

No result yet.

- Command: \`node ${command.join(' ')}\`
- Scope: ${scope}
- To make it fail: ${fails}`
}

function start(name: string): string {
  return `<!-- proof ${name} -->\n\n`
}

/** Replaces the results of these parts in the text. Results of parts that did not run are unchanged. */
export function withSection(
  text: string,
  proved: Proved[],
  machine: string,
  parts: readonly Part[] = PARTS,
): string {
  const [before, rest] = split(text, FROM)
  const [old, after] = split(rest, TO)
  const known = new Map(
    old
      .split(/(?=<!-- proof \w+ -->\n)/)
      .filter((part) => part.startsWith('<!-- proof ') && !part.includes('\nNo result yet.\n'))
      .map((part) => [/<!-- proof (\w+) -->/.exec(part)?.[1] ?? '', part.trim()]),
  )
  for (const part of proved) known.set(part.name, paragraph(part, machine).trim())
  const all = parts.map((part) => known.get(part.name) ?? missing(part))
  return `${before}${FROM}\n\n${all.join('\n\n')}\n\n${TO}${after}`
}

function split(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark)
  if (at === -1) throw new Error(`docs/proof.md has no ${mark}`)
  return [text.slice(0, at), text.slice(at + mark.length)]
}
