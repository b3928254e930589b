/** Runs the test files of a group in this process, one after the other, each as a test with the name of the file. */
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { filesOf } from './groups.ts'

const ROOT = join(import.meta.dirname, '../..')
/** Ends a file that hangs, as `timeout` in .taprc ends a process. */
const MOST_MS = 2_700_000
const TESTS = Symbol.for('vec-operator.together')

export async function runGroup(group: string, root = ROOT): Promise<void> {
  const files = filesOf(group, root)
  const tests = giveTests()
  t.setTimeout(0)
  // A file that ends the process fails those that are left.
  t.plan(files.length)
  for (const file of files) {
    const url = pathToFileURL(join(root, file)).href
    await t.test(file, { timeout: MOST_MS }, async (one) => {
      const before = { ...process.env }
      one.teardown(() => restore(before))
      tests.set(url, one)
      await import(url)
      // A file without a test would pass.
      if (one.idle && one.count === 0) one.fail('the file has no test')
    })
  }
}

/** What a file imports as `tap` is the test of this file: what it opens is closed before the next file begins. */
function giveTests(): Map<string, Test> {
  const tests = new Map<string, Test>()
  Reflect.set(globalThis, TESTS, tests)
  registerHooks({
    resolve(specifier, context, next) {
      const { parentURL = '' } = context
      if (specifier !== 'tap' || !tests.has(parentURL)) return next(specifier, context)
      return { url: tapFor(parentURL), format: 'module', shortCircuit: true }
    },
  })
  return tests
}

function tapFor(url: string): string {
  const tests = `globalThis[Symbol.for(${JSON.stringify(Symbol.keyFor(TESTS))})]`
  const text = `export default ${tests}.get(${JSON.stringify(url)})`
  return `data:text/javascript,${encodeURIComponent(text)}`
}

function restore(before: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) {
    if (before[name] === undefined) Reflect.deleteProperty(process.env, name)
  }
  Object.assign(process.env, before)
}
