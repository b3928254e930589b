/**
 * Credentials of an engine: for a Job from Secrets mounted as files, for others from the Secrets. They
 * are read each time, so that a rotated one is seen.
 */
import { join } from 'node:path'
import type { Connection } from '../../crds/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { KEY_SECRET_KEY } from '../../crds/names.ts'
import type { EngineCredentials } from './engine.ts'
import { mountedFile } from './mounted-file.ts'

/** Where a credential is mounted: the folder of its Secret, and the key within. */
export interface Mounted {
  credential: string
  file: string
}

/** Those of the cluster a Job works on. */
export const CLUSTER_MOUNTS = {
  key: { credential: 'engine', file: KEY_SECRET_KEY },
  ca: { credential: 'tls', file: 'ca.crt' },
}

/** The key and the certificate authority of an engine; each may be missing. */
export function mountedEngineCredentials(
  env: NodeJS.ProcessEnv = process.env,
  { key, ca }: { key?: Mounted | undefined; ca?: Mounted | undefined } = CLUSTER_MOUNTS,
): () => Promise<EngineCredentials> {
  const folder = env['VEC_CREDENTIALS'] ?? '/var/run/vec'
  // The Secret is optional: an engine without a key has none.
  const read = (place: Mounted | undefined) =>
    (place && mountedFile(join(folder, place.credential, place.file))?.trim()) || undefined
  return async () => ({ key: read(key), ca: read(ca) })
}

export type ReadSecret = (namespace: string, name: string) => Promise<Secret | undefined>

/** The key is the one the pods run, not the one a person wrote: they differ until helm has run. */
export async function secretEngineCredentials(
  { namespace, key, caSecret }: Connection,
  read: ReadSecret,
): Promise<EngineCredentials> {
  const [keySecret, tlsSecret] = await Promise.all([
    key && read(namespace, key.secret),
    caSecret === undefined ? undefined : read(namespace, caSecret),
  ])
  return { key: key && content(keySecret, key.key), ca: content(tlsSecret, 'ca.crt') }
}

function content(secret: Secret | undefined, key: string): string | undefined {
  const value = secret?.data?.[key]
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString()
}
