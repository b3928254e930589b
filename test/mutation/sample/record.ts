/**
 * Preloaded into a test process: runs only the chosen top-level tests of the file, and writes down at the
 * end which mutants each of them came past. A mutant that keeps a loop going is stopped by its hits.
 */
import { writeFileSync } from 'node:fs'
import t from 'tap'

/** What a test process writes. */
export interface Recorded {
  /** Hits by mutant: outside of any test, which is the loading of modules. */
  loading: Record<string, number>
  /** By number of the test in its file, from 1. */
  tests: Record<string, { milliseconds: number; hits: Record<string, number> }>
  /** The test that ran last: that which failed, where one did. */
  last?: string
}

interface Namespace {
  currentTestId?: string
  hitCount?: number
  hitLimit?: number
  mutantCoverage?: {
    static: Record<string, number>
    perTest: Record<string, Record<string, number>>
  }
}

const { MUTANTS_RECORD: file, MUTANTS_TESTS: chosen, MUTANTS_HITS: hits } = process.env
const namespace = ((globalThis as { __stryker__?: Namespace }).__stryker__ ??= {})
const tests: Recorded['tests'] = {}
const selected = chosen === undefined ? undefined : new Set(chosen.split(','))
let count = 0

if (hits !== undefined) Object.assign(namespace, { hitCount: 0, hitLimit: Number(hits) })
if (file !== undefined) {
  const original = t.test.bind(t) as (...args: unknown[]) => unknown
  Object.assign(t, { test: numbered(original) })
  process.on('exit', () => {
    const { mutantCoverage, currentTestId: last } = namespace
    for (const [number, test] of Object.entries(tests)) {
      test.hits = mutantCoverage?.perTest[number] ?? {}
    }
    const recorded = { loading: mutantCoverage?.static ?? {}, tests, ...(last && { last }) }
    writeFileSync(file, JSON.stringify(recorded satisfies Recorded))
  })
}

function numbered(original: (...args: unknown[]) => unknown) {
  return (...args: unknown[]) => {
    count += 1
    const number = String(count)
    if (selected?.has(number) === false) return Promise.resolve()
    return original(...args.map((one) => (isBody(one) ? following(one, number) : one)))
  }
}

type Body = (t: unknown) => unknown

function isBody(value: unknown): value is Body {
  return typeof value === 'function'
}

/** What comes after a test and before the next, such as its teardown, is part of it. */
function following(body: Body, number: string): Body {
  return async (t) => {
    const began = performance.now()
    namespace.currentTestId = number
    try {
      return await body(t)
    } finally {
      tests[number] = { milliseconds: Math.round(performance.now() - began), hits: {} }
    }
  }
}
