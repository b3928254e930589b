/**
 * Stryker's test runner for this house: the test files are loaded once and their tests called again for
 * each change, in one process, instead of a process for each change and file. Nothing here judges by the
 * time of the clock: this process may be stopped for any time.
 */
import fc from 'fast-check'
// Not from 'tap', whose own test would end with this process; and '@tapjs/test' cannot be loaded first.
import '@tapjs/core'
import { Test } from '@tapjs/test'
import { endsWithin } from './repetitions.ts'
import { Tests, type Registered } from './tests.ts'

/** What the changed code and Stryker agree on; see the header of any changed file. */
interface Namespace {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number | undefined
  hitLimit?: number | undefined
  mutantCoverage?: { perTest: Record<string, Record<string, number>> }
}

interface MutantRun {
  activeMutant: { id: string }
  testFilter?: string[]
  hitLimit?: number
  mutantActivation: 'static' | 'runtime'
}

const SUCCESS = 0
const FAILED = 1
/** Seconds, as far as this process lives through them; no test of a pure file takes as many. */
const MAX_REPETITIONS = 30

class Runner {
  static readonly inject = ['options'] as const
  readonly #tests: Tests
  readonly #agreed: Namespace
  readonly #stray: unknown[] = []
  /** The tests as they are without a change in them. */
  #unchanged: Registered[] | undefined
  #covered: Record<string, Record<string, number>> = {}

  constructor({ inProcess }: { inProcess: { testFiles: string[]; changed: string } }) {
    this.#tests = new Tests(inProcess.testFiles, inProcess.changed, process.cwd())
    const all = globalThis as { __stryker__?: Namespace }
    this.#agreed = all.__stryker__ ??= {}
    process.on('unhandledRejection', (reason) => this.#stray.push(reason))
    // The same cases for every change, or chance would judge it.
    fc.configureGlobal({ seed: 1 })
  }

  capabilities() {
    return { reloadEnvironment: true }
  }

  async dryRun() {
    this.#unchanged = await this.#tests.load()
    const tests = []
    for (const test of this.#unchanged) {
      const began = performance.now()
      this.#agreed.currentTestId = test.id
      const failure = await this.#failureOf(test)
      this.#agreed.currentTestId = undefined
      const timeSpentMs = performance.now() - began
      const { id, name } = test
      tests.push({
        ...{ id, name, timeSpentMs, status: failure === undefined ? SUCCESS : FAILED },
        ...(failure !== undefined && { failureMessage: failure }),
      })
    }
    const { mutantCoverage } = this.#agreed
    this.#covered = structuredClone(mutantCoverage?.perTest ?? {})
    return { status: 'complete', tests, mutantCoverage }
  }

  async mutantRun({ activeMutant: { id }, testFilter, hitLimit, mutantActivation }: MutantRun) {
    this.#agreed.hitCount = hitLimit === undefined ? undefined : 0
    this.#agreed.hitLimit = hitLimit
    try {
      this.#unchanged ??= await this.#tests.load()
      this.#agreed.activeMutant = id
      const tests = mutantActivation === 'static' ? await this.#tests.load() : this.#unchanged
      const chosen = tests.filter((test) => testFilter?.includes(test.id) ?? true)
      return await this.#judged(this.#likelyFirst(chosen, id))
    } catch (error) {
      return { status: 'killed', killedBy: [], failureMessage: String(error), nrOfTests: 1 }
    } finally {
      this.#agreed.activeMutant = undefined
    }
  }

  /** Those that came by the change when nothing was changed. */
  #likelyFirst(tests: Registered[], change: string): Registered[] {
    const isCovered = ({ id }: Registered) => this.#covered[id]?.[change] !== undefined
    return tests.toSorted((one, other) => Number(isCovered(other)) - Number(isCovered(one)))
  }

  async #judged(chosen: Registered[]) {
    for (const [index, test] of chosen.entries()) {
      const failureMessage = await this.#failureOf(test)
      const { hitCount = 0, hitLimit = Infinity } = this.#agreed
      if (hitCount > hitLimit) return { status: 'timeout', reason: 'it goes round and round' }
      if (failureMessage === undefined) continue
      return { status: 'killed', killedBy: [test.id], failureMessage, nrOfTests: index + 1 }
    }
    return { status: 'survived', nrOfTests: chosen.length }
  }

  /** Undefined when it holds. */
  async #failureOf({ name, run }: Registered): Promise<string | undefined> {
    this.#stray.length = 0
    const test = new Test({ name, cb: run, bail: true })
    test.resume()
    const work = new Promise<void>((resolve) => {
      test.runMain(resolve)
    })
    if (!(await endsWithin(MAX_REPETITIONS, work))) return `${name}: waits for what never comes`
    if (this.#stray.length > 0) return `an unhandled rejection: ${String(this.#stray[0])}`
    return test.results?.ok === true ? undefined : name
  }
}

export const strykerPlugins = [{ kind: 'TestRunner', name: 'in-process', injectableClass: Runner }]
