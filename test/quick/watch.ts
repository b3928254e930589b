/** `npm run test:watch`: after a file is saved, the tests that it concerns and those that failed before. */
import { watch } from 'node:fs'
import { join } from 'node:path'
import { runTests, type Order } from './run.ts'
import { selectTests } from './select.ts'

const FOLDERS = ['crds', 'hooks', 'jobs', 'metacontroller', 'chart', 'docs', 'test']
/** Editors write a file in several steps. */
const SETTLES_MS = 100

type Options = Pick<Order, 'root' | 'seconds' | 'print'>

/** Runs tests until the signal. */
export async function watchTests(options: Options, signal: AbortSignal): Promise<void> {
  const { root, print } = options
  const saved = new Set<string>()
  let failing: string[] = []
  let changed = Promise.withResolvers<undefined>()
  let running = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const note = (file: string) => {
    saved.add(file)
    clearTimeout(timer)
    timer = setTimeout(() => {
      running.abort()
      changed.resolve(undefined)
    }, SETTLES_MS)
  }
  for (const folder of FOLDERS) {
    watch(join(root, folder), { recursive: true, signal }, (_event, name) => {
      if (name !== null) note(join(folder, name))
    })
  }
  signal.addEventListener('abort', () => {
    clearTimeout(timer)
    running.abort()
    changed.resolve(undefined)
  })
  print(`watching ${FOLDERS.join(', ')}\n`)
  for (;;) {
    await changed.promise
    if (signal.aborted) return
    changed = Promise.withResolvers<undefined>()
    running = new AbortController()
    const files = [...saved]
    const { pure, starting } = selectTests(files, root)
    const first = failing.filter((test) => !pure.includes(test) && !starting.includes(test))
    const order = { pure: [...first, ...pure], starting }
    const count = order.pure.length + starting.length
    print(`\n${files.join(' ')}: ${count} test files\n`)
    if (count > 0) {
      const outcome = await runTests({ ...options, ...order, signal: running.signal })
      // What was saved meanwhile ended the run: the next one includes it.
      if (running.signal.aborted) continue
      failing = outcome.failing
    }
    for (const file of files) saved.delete(file)
  }
}
