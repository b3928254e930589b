/**
 * The outcomes of a sample that was stopped before its end. `--continue` takes the same mutants and judges the others,
 * as long as no source and no test has changed.
 */
import { createHash } from 'node:crypto'
import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Outcome } from './judge.ts'

/** The tests of other folders are asked after those of the mutant's own. */
export type Judges = 'own' | 'others'

export interface Judged {
  outcome: Outcome
  judges: Judges
}

export interface Unfinished {
  /** Of all sources and tests. */
  of: string
  seed: number
  /** How long it ran. */
  seconds: number
  /** By key of the mutant. */
  verdicts: Record<string, Judged>
}

/** Those of the same sources and tests; otherwise an error, because an outcome holds for these only. */
export function readUnfinished(file: string, root: string): Unfinished {
  if (!existsSync(file)) throw new Error('--continue: there is no run that was stopped')
  const found = JSON.parse(readFileSync(file, 'utf8')) as Unfinished
  if (found.of !== digestOfAll(root)) {
    throw new Error('--continue: sources or tests have changed since the run that was stopped')
  }
  return found
}

/** What is complete needs no continuation. */
export function writeUnfinished(file: string, unfinished: Unfinished, isComplete: boolean): void {
  if (isComplete) {
    rmSync(file, { force: true })
    return
  }
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(unfinished))
}

/** Of all that an outcome can depend on. */
export function digestOfAll(root: string): string {
  const hash = createHash('sha256')
  const paths = globSync(['{crds,hooks,jobs,metacontroller,chart,test}/**', 'package-lock.json'], {
    cwd: root,
  })
  for (const path of paths.toSorted()) {
    if (!statSync(join(root, path)).isFile()) continue
    hash.update(`${path}\n`).update(readFileSync(join(root, path)))
  }
  return hash.digest('hex')
}
