/**
 * The bearer tokens of the hooks, from a file: the current one and, while a rotation is under way,
 * the previous one, a line each. The file is a mounted Secret, which the kubelet replaces in place.
 */
import { readFileSync } from 'node:fs'

/** How old what was read may be, in milliseconds. */
const REREAD_MS = 5_000

/**
 * Reads the file now, so that a service without a token does not start, and again from time to time.
 * Never answers without a token: to the server that would mean that none is needed.
 */
export function tokenFile(path: string, now: () => Date): () => string[] {
  let tokens = readTokens(path)
  let readAt = now().getTime()
  return () => {
    if (now().getTime() - readAt < REREAD_MS) return tokens
    readAt = now().getTime()
    try {
      tokens = readTokens(path)
    } catch {
      // Mid-replacement, or emptied by mistake: the tokens that were good a moment ago still are.
    }
    return tokens
  }
}

function readTokens(path: string): string[] {
  const tokens = readFileSync(path, 'utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (tokens.length === 0) throw new Error(`HOOK_TOKEN_FILE: ${path} holds no token`)
  return tokens
}
