/** Which files a change in one of them reaches: those that import it, directly or through others. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** What is imported for its types only is gone when the file is loaded. */
const IMPORT =
  /^(?:import|export) (?!type )(?:[^']*? from )?'(\.[^']+\.ts)'|\bimport\('(\.[^']+\.ts)'\)/gm

/** The path of a file, from the one that names it or from the root: what a test reads or starts. */
const PATH = /['`]([\w./-]+\.\w+)['`]/g

/** Paths from the root, the file's own among them; of those that these files lead to. */
export function reachedBy(file: string, from: readonly string[], root: string): Set<string> {
  const importers = importersOf(from, root)
  const reached = new Set([file])
  // A set that grows while it is walked is walked to its end.
  for (const one of reached) for (const importer of importers.get(one) ?? []) reached.add(importer)
  return reached
}

/** All that a file loads, reads or starts by a path it spells out, the file itself among them. */
export function dependenciesOf(file: string, root: string): string[] {
  const found = new Set([file])
  // A set that grows while it is walked is walked to its end.
  for (const one of found) {
    if (!one.endsWith('.ts')) continue
    const text = readFileSync(join(root, one), 'utf8')
    const named = [...text.matchAll(PATH)].flatMap(([, path = '']) => [path, join(one, '..', path)])
    for (const path of named) if (isFile(join(root, path))) found.add(path)
  }
  return [...found].toSorted()
}

function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile()
}

function importersOf(from: readonly string[], root: string): Map<string, string[]> {
  const importers = new Map<string, string[]>()
  const seen = new Set(from)
  for (const file of seen) {
    for (const imported of importsOf(file, root)) {
      seen.add(imported)
      importers.set(imported, [...(importers.get(imported) ?? []), file])
    }
  }
  return importers
}

/** Paths from the root of what the file loads from this project. */
export function importsOf(file: string, root: string): string[] {
  const text = readFileSync(join(root, file), 'utf8')
  return [...text.matchAll(IMPORT)].map(([, plain, dynamic]) =>
    join(file, '..', plain ?? dynamic ?? ''),
  )
}
