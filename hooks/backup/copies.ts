/** Which credentials of a cluster the Job of a backup needs as copies (hooks/copies.ts). */
import type { VecBackup } from '../../crds/backup.ts'
import type { CrossNamespace } from '../allow-from.ts'
import {
  CLUSTER_CREDENTIALS,
  clusterOriginals,
  type ClusterCredential,
  type Original,
} from '../copies.ts'
import type { Observed } from './observed.ts'

/** Those that may be copies: all of them when the cluster stands in another namespace than the Job. */
export function copied({
  metadata,
  spec,
}: Pick<VecBackup, 'metadata' | 'spec'>): ClusterCredential[] {
  const { namespace = metadata.namespace } = spec.clusterRef
  return namespace === metadata.namespace ? [] : CLUSTER_CREDENTIALS
}

/** What the copies are made from. */
export function originalsOf(
  { backup, cluster, secrets }: Observed,
  settings: CrossNamespace,
): Original[] {
  if (cluster === undefined || copied(backup).length === 0) return []
  return clusterOriginals(cluster, secrets, { from: backup.metadata.namespace, settings })
}
