/** One run of `npm run test:quick`: the tests of some files in one process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Report, type Totals } from './report.ts'

const PROCESS = join(import.meta.dirname, 'process.ts')
const PRELOAD = join(import.meta.dirname, '../preload.ts')

/** Name of the variable with the order of the process, as JSON. */
export const ORDER = 'QUICK_ORDER'

export interface ProcessOrder {
  root: string
  /** Test files that start no server and no process. */
  pure: readonly string[]
  /** The others. */
  starting: readonly string[]
  /** None of the others is begun after so long. */
  seconds: number
}

export interface Order extends ProcessOrder {
  print: (text: string) => void
  /** Ends the run. */
  signal?: AbortSignal
}

export interface Outcome extends Totals {
  passes: boolean
  /** Test files for which there was no time. */
  left: string[]
}

export async function runTests({ print, signal, ...order }: Order): Promise<Outcome> {
  const { root, pure, starting, seconds } = order
  const tests = [...pure, ...starting]
  const began = performance.now()
  const report = new Report(print)
  const child = spawn(
    process.execPath,
    ['--no-warnings', '--import', PRELOAD, PROCESS, String(process.pid)],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        [ORDER]: JSON.stringify(order),
        NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled'),
        // tap prints TAP, and follows the time limit that the process sets.
        TAP: '1',
        TAP_TIMEOUT: '0',
      },
      ...(signal && { signal }),
    },
  )
  // An abort is an outcome, not an error.
  child.on('error', (error) => {
    if (signal?.aborted !== true) print(`${String(error)}\n`)
  })
  const closed = once(child, 'close')
  for await (const line of createInterface({ input: child.stdout })) report.add(line)
  const [code] = (await closed.catch(() => [null])) as [number | null]
  const { totals } = report
  const { passed, failed, skipped, files } = totals
  const left = tests.filter((test) => !files.includes(test))
  // A file whose tests did not end, or files without any test, prove nothing.
  const passes = code === 0 && failed === 0 && files.length > 0 && passed + skipped > 0
  const took = ((performance.now() - began) / 1000).toFixed(1)
  print(
    `${passed + failed + skipped} tests in ${files.length} of ${tests.length} files: ${passed} passed, ` +
      `${failed} failed, ${skipped} skipped, ${took} s\n`,
  )
  if (code === 0 && left.length > 0) print(`not run within ${seconds} s: ${left.join(' ')}\n`)
  if (!passes && failed === 0) print(`FAILED: the process ended with ${code ?? 'a signal'}\n`)
  return { ...totals, passes, left }
}
