/** A short hash of inputs: equal inputs give an equal result. */
import { createHash, type Hash } from 'node:crypto'
import { existsSync, lstatSync, readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'

/** One hash over texts, and over files and directories by name and content, wherever they are. */
export function fingerprint(texts: readonly string[], paths: readonly string[] = []): string {
  const hash = createHash('sha256').update(JSON.stringify(texts))
  for (const path of paths) addFile(hash, path, basename(path))
  return hash.digest('hex').slice(0, 12)
}

function addFile(hash: Hash, path: string, name: string): void {
  if (!existsSync(path)) return
  hash.update(name)
  if (lstatSync(path).isDirectory()) {
    for (const entry of readdirSync(path).toSorted()) {
      addFile(hash, join(path, entry), `${name}/${entry}`)
    }
  } else {
    hash.update(readFileSync(path))
  }
}
