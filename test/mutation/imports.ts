/** Which files a change in one of them reaches: those that import it, directly or through others. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What is imported for its types only is gone when the file is loaded. */
const IMPORT =
  /^(?:import|export) (?!type )(?:[^']*? from )?'(\.[^']+\.ts)'|\bimport\('(\.[^']+\.ts)'\)/gm

/** Paths from the root, the file's own among them; of those that these files lead to. */
export function reachedBy(file: string, from: readonly string[], root: string): Set<string> {
  const importers = importersOf(from, root)
  const reached = new Set([file])
  // A set that grows while it is walked is walked to its end.
  for (const one of reached) for (const importer of importers.get(one) ?? []) reached.add(importer)
  return reached
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
