/** Credentials of a Job: Secrets mounted as files, read each time so that a rotated one is seen. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { KEY_SECRET_KEY } from '../../crds/names.ts'
import type { EngineCredentials } from './engine.ts'

/** The key and the certificate authority of the cluster's engine; each may be missing. */
export function mountedEngineCredentials(
  env: NodeJS.ProcessEnv = process.env,
): () => Promise<EngineCredentials> {
  const folder = env['VEC_CREDENTIALS'] ?? '/var/run/vec'
  return async () => ({
    key: await mounted(folder, 'engine', KEY_SECRET_KEY),
    ca: await mounted(folder, 'tls', 'ca.crt'),
  })
}

async function mounted(folder: string, name: string, key: string): Promise<string | undefined> {
  try {
    return (await readFile(join(folder, name, key), 'utf8')).trim() || undefined
  } catch (error) {
    // The Secret is optional: an engine without a key has none.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}
