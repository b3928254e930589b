/** The pure files, and the tests that are to notice a change in each: those of its own room, or its namesake's. */
import { existsSync, globSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = new URL('../..', import.meta.url).pathname

/** They reach out, declare types only, or write files. */
const NOT_PURE =
  /(^hooks\/server|\/(ports|index|act|room|protocol|generate|kubernetes|events)\.ts$)/
/** Tables of words: a change in a sentence is no change in what is done. */
const WORDS = /^crds\/(reasons\/|markdown|resources|[a-z-]*\.ts$)/
const RULED =
  /^crds\/(rules\/.*|names|layout|size|quantity|duration|connection|definition|manifest)\.ts$/

export const PURE: string[] = globSync('{hooks,crds}/**/*.ts', { cwd: ROOT })
  .filter((file) => !NOT_PURE.test(file) && (!WORDS.test(file) || RULED.test(file)))
  .toSorted()

/** What several rooms share is looked at by the decisions of three. */
const SHARED = '{.,backup,restore,migration}/{sync,job,server}.test.ts'

/** Of `hooks/backup/sync.ts` that of its own, of `needs.ts` all in test/hooks/backup. */
export function testsOf(file: string): string[] {
  const own = join('test', file.replace(/\.ts$/, '.test.ts'))
  const owned = existsSync(join(ROOT, own)) ? [own] : []
  const room = join('test', file, '..')
  const isShared = room === 'test/hooks'
  if (owned.length > 0 && !isShared) return owned
  const others = globSync(join(room, isShared ? SHARED : '*.test.ts'), { cwd: ROOT })
  return [...new Set([...owned, ...others])].toSorted()
}
