/**
 * Whether the CRDs are those of this release. The API server would silently prune what an older CRD
 * does not know from our status, so hooks of such a kind must not answer at all.
 */
import type { AnyObject } from '../crds/kubernetes.ts'
import { crdName, crdProblem } from '../crds/release.ts'
import type { Log } from './start-mark.ts'
import type { Timers } from './timers.ts'

export interface CrdCheck {
  /** Release of the operator. */
  version: string
  plurals: readonly string[]
  /** The CRD of that name; undefined when there is none. */
  read(name: string): Promise<AnyObject | undefined>
  timers: Timers
  log: Log
}

export interface CrdVersions {
  /** Why hooks of this kind must wait; undefined when they need not. */
  tooOld(plural: string): string | undefined
  stop(): void
}

const AGAIN_MS = 30_000

/** Compares once, and every 30 s for as long as a CRD is missing or too old. */
export async function watchCrdVersions(check: CrdCheck): Promise<CrdVersions> {
  let problems = new Map(
    check.plurals.map((plural) => [plural, `${crdName(plural)} is not read yet`]),
  )
  let stopped = false
  let cancel: (() => void) | undefined

  async function compare(): Promise<void> {
    try {
      problems = await readProblems(check)
    } catch (error) {
      // What was known before the API failed stays true: CRDs do not grow older.
      check.log.warn({ err: error }, 'the CRDs cannot be read')
    }
    for (const problem of problems.values()) check.log.warn({}, problem)
    if (problems.size > 0 && !stopped) {
      cancel = check.timers.setTimeout(() => void compare(), AGAIN_MS)
    }
  }

  await compare()
  return {
    tooOld: (plural) => problems.get(plural),
    stop() {
      stopped = true
      cancel?.()
    },
  }
}

async function readProblems(check: CrdCheck): Promise<Map<string, string>> {
  const problems = new Map<string, string>()
  for (const plural of check.plurals) {
    const problem = crdProblem(plural, await check.read(crdName(plural)), check.version)
    if (problem !== undefined) problems.set(plural, problem)
  }
  return problems
}
