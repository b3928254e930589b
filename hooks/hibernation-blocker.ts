/** What work of other kinds on a hibernated VecCluster waits for. */
import type { VecCluster } from '../crds/cluster.ts'
import type { ConditionReason } from '../crds/schema.ts'

/** Why work on this cluster waits while it has no pods; undefined if it has some. */
export function hibernationBlocker({
  metadata: { namespace, name },
  status,
}: Pick<VecCluster, 'metadata' | 'status'>): ConditionReason | undefined {
  if (status?.phase !== 'Hibernated') return undefined
  const message = `cluster ${namespace}/${name} is hibernated: no pods run until its spec.hibernate is false`
  return { reason: 'ClusterHibernated', message }
}
