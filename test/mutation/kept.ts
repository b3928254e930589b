/** The scores of all files, one line of JSON each: what was judged and has not changed is not judged again. */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PURE, ROOT } from './files.ts'
import type { Scored } from './score.ts'

const FILE = join(import.meta.dirname, 'kept.jsonl')

/** Of the text as it is now; its tests are not part of it: `--again` judges with those of today. */
export function digestOf(file: string): string {
  return createHash('sha256')
    .update(readFileSync(join(ROOT, file)))
    .digest('hex')
    .slice(0, 16)
}

/** The score of the file as it is now. */
export function kept(file: string): Scored | undefined {
  const found = all().find((one) => one.file === file)
  return found?.of === digestOf(file) ? found : undefined
}

/** In the place of what was kept of that file; files that are gone go. */
export function keep(scored: Scored): void {
  const others = all().filter(({ file }) => file !== scored.file && PURE.includes(file))
  const sorted = [...others, scored].toSorted((one, other) => (one.file < other.file ? -1 : 1))
  writeFileSync(FILE, sorted.map((one) => `${JSON.stringify(one)}\n`).join(''))
}

function all(): Scored[] {
  const lines = readFileSync(FILE, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Scored)
}
