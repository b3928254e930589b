/**
 * Stryker's test runner for this house: the test files are loaded once and their tests called again for
 * each change, in one process, instead of a process for each change and file. Only what was changed
 * where a module is loaded has its modules loaded anew.
 */
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
// Not from 'tap', whose own test would end with this process; and '@tapjs/test' cannot be loaded first.
import '@tapjs/core'
import { Test } from '@tapjs/test'

type Run = (t: unknown) => unknown

interface Registered {
  id: string
  name: string
  run: Run
}

/** What the changed code and Stryker agree on; see the header of any changed file. */
interface Namespace {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number | undefined
  hitLimit?: number | undefined
  mutantCoverage?: unknown
}

interface MutantRun {
  activeMutant: { id: string }
  testFilter?: string[]
  hitLimit?: number
  mutantActivation: 'static' | 'runtime'
  reloadEnvironment: boolean
}

const REGISTRY = Symbol.for('vec-operator.tests')
const shared = globalThis as unknown as Record<
  symbol,
  (file: string, name: string, run: Run) => void
>
const SUCCESS = 0
const FAILED = 1

class Runner {
  static readonly inject = ['options'] as const
  readonly #files: string[]
  readonly #agreed: Namespace
  readonly #stray: unknown[] = []
  #tests: Registered[] = []
  #loads = 0

  constructor(options: { inProcess: { testFiles: string[] } }) {
    this.#files = options.inProcess.testFiles
    const all = globalThis as { __stryker__?: Namespace }
    this.#agreed = all.__stryker__ ??= {}
    shared[REGISTRY] = (file, name, run) => {
      this.#tests.push({ id: `${this.#tests.length} ${file} ${name}`, name, run })
    }
    process.on('unhandledRejection', (reason) => this.#stray.push(reason))
    // The same cases for every change, or chance would judge it.
    fc.configureGlobal({ seed: 1 })
    hook(() => this.#loads)
  }

  capabilities() {
    return { reloadEnvironment: true }
  }

  async dryRun() {
    await this.#load()
    const tests = []
    for (const test of this.#tests) {
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
    return { status: 'complete', tests, mutantCoverage: this.#agreed.mutantCoverage }
  }

  async mutantRun({ activeMutant, testFilter, hitLimit, ...how }: MutantRun) {
    this.#agreed.hitCount = hitLimit === undefined ? undefined : 0
    this.#agreed.hitLimit = hitLimit
    const isStatic = how.mutantActivation === 'static'
    if (isStatic) this.#agreed.activeMutant = activeMutant.id
    try {
      if (this.#tests.length === 0 || how.reloadEnvironment) await this.#load()
      this.#agreed.activeMutant = activeMutant.id
      const chosen = this.#tests.filter(({ id }) => testFilter?.includes(id) ?? true)
      return await this.#judged(chosen)
    } catch (error) {
      return { status: 'killed', killedBy: [], failureMessage: String(error), nrOfTests: 1 }
    } finally {
      this.#agreed.activeMutant = undefined
      // What was loaded with a change in it is of no use for the next.
      if (isStatic) this.#tests = []
    }
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

  async #load(): Promise<void> {
    this.#tests = []
    this.#loads += 1
    for (const file of this.#files) {
      await import(`${pathToFileURL(join(process.cwd(), file)).href}?load=${this.#loads}`)
    }
  }

  /** Undefined when it holds. */
  async #failureOf({ name, run }: Registered): Promise<string | undefined> {
    this.#stray.length = 0
    const test = new Test({ name, cb: run, bail: true })
    test.resume()
    await new Promise<void>((resolve) => {
      test.runMain(resolve)
    })
    if (this.#stray.length > 0) return `an unhandled rejection: ${String(this.#stray[0])}`
    return test.results?.ok === true ? undefined : name
  }
}

/** Test files find a `tap` that keeps their tests; every file of the project is that of this load. */
function hook(load: () => number): void {
  const here = pathToFileURL(process.cwd()).href
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'tap') return { url: tapFor(context.parentURL ?? ''), shortCircuit: true }
      const found = next(specifier, context)
      const isOurs = found.url.startsWith(here) && !found.url.includes('/node_modules/')
      return isOurs && !found.url.includes('?')
        ? { ...found, url: `${found.url}?load=${load()}` }
        : found
    },
  })
}

function tapFor(file: string): string {
  const text = `const keep = globalThis[Symbol.for('vec-operator.tests')]
export default { test: (name, ...rest) => keep(${JSON.stringify(file.split('?')[0])}, name, rest.at(-1)) }`
  return `data:text/javascript,${encodeURIComponent(text)}`
}

export const strykerPlugins = [{ kind: 'TestRunner', name: 'in-process', injectableClass: Runner }]
