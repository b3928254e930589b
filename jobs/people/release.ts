/** Release of this program: what the CRDs and the hook service are compared with. */
import { readFileSync } from 'node:fs'

export function ownRelease(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}
