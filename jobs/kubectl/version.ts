/** Release of this program: what the CRDs and the hook service are compared with. */
import manifest from '../../package.json' with { type: 'json' }

export function cliVersion(): string {
  return manifest.version
}
