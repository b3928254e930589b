/** Which credentials of a cluster the Job of a backup needs, and which of them as copies (hooks/copies.ts). */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { hasKey } from '../../crds/connection.ts'
import { KEY_SECRET_KEY } from '../../crds/names.ts'
import type { Original } from '../copies.ts'
import type { Observed } from './observe.ts'

export const CREDENTIALS = { engine: KEY_SECRET_KEY, tls: 'ca.crt' } as const
export type Credential = keyof typeof CREDENTIALS

/** Those that may be copies: all of them when the cluster stands in another namespace than the Job. */
export function copied({ metadata, spec }: Pick<VecBackup, 'metadata' | 'spec'>): Credential[] {
  const { namespace = metadata.namespace } = spec.clusterRef
  return namespace === metadata.namespace ? [] : (Object.keys(CREDENTIALS) as Credential[])
}

/** Those of the cluster's credentials that there are. */
export function credentialsOf(
  { spec }: VecCluster,
  { engine, tls }: Observed['secrets'],
): Credential[] {
  return [
    ...(hasKey(spec) && engine !== undefined ? (['engine'] as const) : []),
    ...(tls?.data?.[CREDENTIALS.tls] !== undefined ? (['tls'] as const) : []),
  ]
}

/** What the copies are made from. */
export function originalsOf({ backup, cluster, secrets }: Observed): Original[] {
  if (cluster === undefined || copied(backup).length === 0) return []
  return credentialsOf(cluster, secrets).flatMap((credential) => {
    const secret = secrets[credential]
    return secret === undefined ? [] : [{ credential, keys: [CREDENTIALS[credential]], secret }]
  })
}
