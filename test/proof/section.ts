/** The section of docs/proof.md that has the last result of each claim of `npm run proof`. */
import { PARTS, type Part } from './parts.ts'

export interface Proved extends Pick<Part, 'name' | 'title' | 'scope' | 'fails'> {
  holds: boolean
  words: string
  /** As it was run. */
  command: string
  /** Date, commit and machine. */
  run: string
}

const FROM = '<!-- proof: written by `npm run proof -- --write` -->'
const TO = '<!-- end of the proof -->'

/** Marks a result that is older than what it covers; the next words say how to see the changes since. */
const OLDER = '- **Older than what it covers.**'

/** One subsection for each claim. */
export function section(proved: Proved[]): string {
  return proved.map((part) => paragraph(part)).join('\n')
}

function paragraph({ name, title, holds, words, scope, command, fails, run }: Proved): string {
  return `${start(name)}### ${title}

${holds ? '' : '**Does not hold.** '}${words}

- Run: ${run}
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

/** Marks each result that covers something that has changed since its commit, and removes all other marks. */
export function withMarks(
  text: string,
  changesSince: (commit: string, covers: readonly string[]) => 'none' | 'some' | 'unknown',
  parts: readonly Part[] = PARTS,
): string {
  return text
    .split(/(?=<!-- proof \w+ -->\n)/)
    .map((paragraphs) => {
      const plain = paragraphs.replace(/^- \*\*Older than what it covers\..*\n/m, '')
      const covers = parts.find(({ name }) => paragraphs.startsWith(start(name)))?.covers
      if (covers === undefined) return plain
      return plain.replace(/^- Run: .*\n/m, (run) => {
        const commit = /, commit ([0-9a-f]{7,})/.exec(run)?.[1]
        if (commit === undefined) return `${run}${OLDER} The commit was not recorded.\n`
        const changes = changesSince(commit, covers)
        if (changes === 'none') return run
        if (changes === 'unknown') return `${run}${OLDER} The commit is not in this history.\n`
        return `${run}${OLDER} Changes since: \`git log ${commit}.. -- ${covers.join(' ')}\`\n`
      })
    })
    .join('')
}

/** Replaces the results of these parts in the text. Results of parts that did not run are unchanged. */
export function withSection(
  text: string,
  proved: readonly Proved[],
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
  for (const part of proved) known.set(part.name, paragraph(part).trim())
  const all = parts.map((part) => known.get(part.name) ?? missing(part))
  return `${before}${FROM}\n\n${all.join('\n\n')}\n\n${TO}${after}`
}

function split(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark)
  if (at === -1) throw new Error(`docs/proof.md has no ${mark}`)
  return [text.slice(0, at), text.slice(at + mark.length)]
}
