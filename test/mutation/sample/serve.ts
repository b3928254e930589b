/**
 * The process of a `Worker`: loads one test file once and runs the chosen of its top-level tests for one mutant after
 * the other. It ends with the first mutant that a test notices, because what that test leaves behind could disturb the next.
 */
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import t from 'tap'

/** What the parent asks. */
export interface Question {
  mutant: string
  /** Numbers of the top-level tests in their file. */
  tests: string[]
  /** The mutant is in an endless loop once it is hit so often. */
  hits: number
}

/** `unhit`: the tests have not come past the mutant, for example because a result of before is cached. */
export type Answer = { is: 'ready' | 'passed' | 'unhit' } | { is: 'failed'; test: string }

interface Namespace {
  activeMutant?: string | undefined
  hitCount?: number
  hitLimit?: number
}

interface Outcome {
  ok: boolean
}

const ACTIVE = '__STRYKER_ACTIVE_MUTANT__'
const namespace = ((globalThis as { __stryker__?: Namespace }).__stryker__ ??= {})
const original = t.test.bind(t) as (...args: unknown[]) => PromiseLike<Outcome | null>
const tests: unknown[][] = []
/** The test that runs. */
let current: string | undefined

Object.assign(t, {
  test: (...args: unknown[]) => {
    tests.push(args)
    return Promise.resolve()
  },
})
// Nothing is left to do, and the test has not ended.
process.on('beforeExit', () => fail())
process.on('unhandledRejection', () => fail())
process.on('uncaughtException', () => fail())
process.on('message', (question: Question) => void judge(question))

const { MUTANTS_FILE: file = '' } = process.env
await import(pathToFileURL(join(process.cwd(), file)).href)
report({ is: 'ready' })

async function judge({ mutant, tests: numbers, hits }: Question): Promise<void> {
  // The channel must not keep a process alive that has nothing to do.
  process.channel?.unref()
  Object.assign(namespace, { activeMutant: mutant, hitCount: 0, hitLimit: hits })
  // For processes that the tests start.
  process.env[ACTIVE] = mutant
  for (const number of numbers) {
    current = number
    const outcome = await original(...(tests[Number(number) - 1] ?? []))
    if (outcome?.ok !== true) {
      fail()
      return
    }
    // For an error that nothing waits for.
    await setImmediate()
  }
  current = undefined
  namespace.activeMutant = undefined
  Reflect.deleteProperty(process.env, ACTIVE)
  process.channel?.ref()
  report({ is: (namespace.hitCount ?? 0) > 0 ? 'passed' : 'unhit' })
}

/** Between two mutants it is not known which one is the cause: the process judges none any more. */
function fail(): void {
  if (current === undefined) process.exit(1)
  const test = current
  current = undefined
  process.send?.({ is: 'failed', test } satisfies Answer, () => process.exit(1))
}

function report(answer: Answer): void {
  process.send?.(answer)
}
