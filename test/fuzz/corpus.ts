/** Cases that failed once, each as small as it could be made: one line of JSON each. */
import { readFileSync } from 'node:fs'

export interface Kept {
  subject: string
  /** What it showed. */
  why: string
  case: unknown
}

const FILE = new URL('corpus.jsonl', import.meta.url)

export function keptCases(): Kept[] {
  const lines = readFileSync(FILE, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Kept)
}

/** A line for the corpus. */
export function lineOf(kept: Kept): string {
  return JSON.stringify(kept)
}
