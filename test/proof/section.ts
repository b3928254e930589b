/** The section of docs/proof.md that has the last results of `npm run proof`. */

export interface Proved {
  name: string
  title: string
  holds: boolean
  words: string
}

const FROM = '<!-- proof: written by `npm run proof -- --write` -->'
const TO = '<!-- end of the proof -->'

/** One paragraph for each part, with the machine that it ran on. */
export function section(proved: Proved[], machine: string): string {
  return proved.map((part) => paragraph(part, machine)).join('\n')
}

function paragraph({ name, title, holds, words }: Proved, machine: string): string {
  const result = holds ? '' : ' **does not hold**:'
  return `${start(name)}**${title}**:${result} ${words}\n\n(${machine})\n`
}

function start(name: string): string {
  return `<!-- proof ${name} -->\n\n`
}

/** Replaces the results of these parts in the text. Results of parts that did not run are unchanged. */
export function withSection(text: string, proved: Proved[], machine: string): string {
  const [before, rest] = split(text, FROM)
  const [old, after] = split(rest, TO)
  const known = new Map(
    old
      .split(/(?=<!-- proof \w+ -->\n)/)
      .filter((part) => part.startsWith('<!-- proof '))
      .map((part) => [/<!-- proof (\w+) -->/.exec(part)?.[1] ?? '', part.trim()]),
  )
  for (const part of proved) known.set(part.name, paragraph(part, machine).trim())
  return `${before}${FROM}\n\n${[...known.values()].join('\n\n')}\n\n${TO}${after}`
}

function split(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark)
  if (at === -1) throw new Error(`docs/proof.md has no ${mark}`)
  return [text.slice(0, at), text.slice(at + mark.length)]
}
