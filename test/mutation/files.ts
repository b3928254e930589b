/** The pure files, and the tests that are to notice a change in each. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { importsOf } from './imports.ts'

export const ROOT = new URL('../..', import.meta.url).pathname

/** They reach out, declare types only, or write files. */
const NOT_PURE = /(^hooks\/server|\/(ports|index|protocol|generate|kubernetes|events)\.ts$)/
/** Tables of words: a change in a sentence is no change in what is done. */
const WORDS = /^crds\/(reasons\/|contract\/|[a-z-]*\.ts$)/
const RULED = /^crds\/(units|crd|contract\/(names|backup-keys|connection|manifest))\.ts$/
/** Pure rules that only Jobs use. */
const RULES_OF_JOBS = [
  'jobs/canonical-config.ts',
  'jobs/manifest-check.ts',
  'jobs/recreate-collection.ts',
]

export const PURE: string[] = [...globSync('{hooks,crds}/**/*.ts', { cwd: ROOT }), ...RULES_OF_JOBS]
  .filter((file) => !NOT_PURE.test(file) && (!WORDS.test(file) || RULED.test(file)))
  .toSorted()

/** All sources of the operator, for the scope of a score. */
const SOURCES = globSync('{crds,hooks,jobs,metacontroller}/**/*.ts', { cwd: ROOT })
export const PRODUCT = { ofFiles: SOURCES.length, ofLines: linesOf(SOURCES) }

const TESTS = textsOf('test/{crds,hooks}/**/*.test.ts')
/** Tests of a rule that only Jobs use; other code that the Jobs use has separate tests. */
const TESTS_OF_JOBS = textsOf(
  'test/jobs/{**/pure-functions,canonical-config,manifest-check,recreate-collection}.test.ts',
)
/** What each file of the hooks loads. */
const IMPORTS = globSync('hooks/**/*.ts', { cwd: ROOT }).map((path) => ({
  path,
  imports: importsOf(path, ROOT),
}))

export function linesOf(files: readonly string[]): number {
  const texts = files.map((file) => readFileSync(join(ROOT, file), 'utf8'))
  return texts.reduce((sum, text) => sum + text.split('\n').length - 1, 0)
}

function textsOf(pattern: string): { path: string; text: string }[] {
  const paths = globSync(pattern, { cwd: ROOT }).toSorted()
  return paths.map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))
}

/** Tests that import the file themselves. */
export function directTestsOf(file: string): string[] {
  const found = [...TESTS, ...TESTS_OF_JOBS].filter(({ text }) => text.includes(`${file}'`))
  return found.map(({ path }) => path)
}

/** Tests of its folder and of the folders that use it; for shared files, those of all folders. */
export function testsOf(file: string): string[] {
  const own = join('test', file, '..')
  const isImported = ({ text }: { text: string }) => text.includes(`${file}'`)
  const users = IMPORTS.filter(({ imports }) => imports.includes(file)).map(({ path }) =>
    join('test', path, '..'),
  )
  const folders = [own, ...users.filter((folder) => folder !== 'test/hooks')]
  const found = TESTS.filter(
    (test) =>
      isImported(test) ||
      (own === 'test/hooks' && test.path.startsWith(own)) ||
      folders.includes(join(test.path, '..')),
  )
  return [...found, ...TESTS_OF_JOBS.filter(isImported)].map(({ path }) => path)
}
