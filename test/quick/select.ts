/** Which test files a change concerns: those that import a changed file. */
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { importsOf } from '../mutation/imports.ts'

/**
 * Folders of test/ whose files run within seconds. The others open worlds, generate cases for minutes, or
 * compare doubles with recordings.
 */
const UNITS =
  'audit,bench,chart,contract/engine,crds,docs,hooks,jobs,metacontroller,mutation,proof,quick,release'

/** Tests that read files instead of importing them, by the first folder of what they read. */
const READERS: readonly [first: RegExp, folder: string][] = [
  [/^chart\//, 'test/chart/'],
  [/^(docs\/|[A-Z]+\.md$)/, 'test/docs/'],
  [/^(\.ci\/|\.github\/|\.npmrc$|Dockerfile$|package(-lock)?\.json$)/, 'test/release/'],
]

/** Paths from the root; all unit tests of the project. */
export function unitTests(root: string): string[] {
  return globSync(`test/{${UNITS}}/**/*.test.ts`, { cwd: root }).toSorted()
}

/** What differs from the commit where this branch began, files included that git does not know yet. */
export function changedFiles(
  root: string,
  since = forkOf(root),
): { since: string; files: string[] } {
  const tracked = git(root, ['diff', '--name-only', since])
  const added = git(root, ['ls-files', '--others', '--exclude-standard'])
  return { since, files: [...new Set([...tracked, ...added])].toSorted() }
}

function forkOf(root: string): string {
  for (const main of ['origin/main', 'main']) {
    try {
      return git(root, ['merge-base', 'HEAD', main])[0] ?? 'HEAD'
    } catch {
      // This clone has no branch of that name.
    }
  }
  return 'HEAD'
}

function git(root: string, args: string[]): string[] {
  const options = { cwd: root, encoding: 'utf8' as const, stdio: 'pipe' as const }
  return execFileSync('git', args, options).split('\n').filter(Boolean)
}

/** What starts servers and processes. */
const STARTS = /^import .*from 'node:(child_process|http|https|net|tls|worker_threads)'/m

export interface Selection {
  /** Test files that start no server and no process, in the order in which they run. */
  pure: string[]
  /** The others. */
  starting: string[]
  /** Changed files that no unit test imports or reads. */
  untested: string[]
}

/** Of each kind the test files of the changed file's folder first, then the nearest by imports. */
export function selectTests(changed: readonly string[], root: string): Selection {
  const tests = unitTests(root)
  const importers = importersOf(tests, root)
  const ranks = new Map<string, number>()
  const untested: string[] = []
  for (const file of changed) {
    const reached = distancesFrom(file, importers)
    const reader = READERS.find(([first]) => first.test(file))?.[1]
    const concerned = tests.filter(
      (test) => reached.has(test) || (reader !== undefined && test.startsWith(reader)),
    )
    if (concerned.length === 0) untested.push(file)
    for (const test of concerned) {
      const isBeside = dirname(test) === join('test', dirname(file))
      const rank = isBeside ? 0 : (reached.get(test) ?? 1)
      ranks.set(test, Math.min(rank, ranks.get(test) ?? Infinity))
    }
  }
  const starting = startingTests(importers, root)
  const ordered = [...ranks]
    .toSorted(([one, first], [other, second]) => first - second || one.localeCompare(other))
    .map(([test]) => test)
  return {
    pure: ordered.filter((test) => !starting.has(test)),
    starting: ordered.filter((test) => starting.has(test)),
    untested,
  }
}

/** Files of test/ that start a server or a process, themselves or through a helper. */
function startingTests(importers: Map<string, string[]>, root: string): Set<string> {
  const all = new Set([...importers.keys(), ...[...importers.values()].flat()])
  const starting = [...all].filter((file) => file.startsWith('test/') && startsItself(file, root))
  return new Set(starting.flatMap((file) => [...distancesFrom(file, importers).keys()]))
}

function startsItself(file: string, root: string): boolean {
  const path = join(root, file)
  return existsSync(path) && STARTS.test(readFileSync(path, 'utf8'))
}

/** How many imports away each file is that the changed file reaches. */
function distancesFrom(changed: string, importers: Map<string, string[]>): Map<string, number> {
  const distances = new Map([[changed, 0]])
  // A map that grows while it is walked is walked to its end.
  for (const [file, distance] of distances) {
    for (const importer of importers.get(file) ?? []) {
      if (!distances.has(importer)) distances.set(importer, distance + 1)
    }
  }
  return distances
}

function importersOf(from: readonly string[], root: string): Map<string, string[]> {
  const importers = new Map<string, string[]>()
  const seen = new Set(from)
  for (const file of seen) {
    // A deleted file is still imported by those that now fail.
    if (!existsSync(join(root, file))) continue
    for (const imported of importsOf(file, root)) {
      seen.add(imported)
      importers.set(imported, [...(importers.get(imported) ?? []), file])
    }
  }
  return importers
}
