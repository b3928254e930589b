/** Cases that failed once, each reduced as far as possible: one line of JSON each. */
import { readFileSync } from 'node:fs'

export interface CorpusCase {
  subject: string
  /** The failure that it reproduced. */
  why: string
  case: unknown
}

const FILE = new URL('corpus.jsonl', import.meta.url)

export function corpusCases(): CorpusCase[] {
  const lines = readFileSync(FILE, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as CorpusCase)
}

/** A line for the corpus. */
export function lineOf(one: CorpusCase): string {
  return JSON.stringify(one)
}
