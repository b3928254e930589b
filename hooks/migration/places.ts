/** Where a VecMigration copies from and to, by name. */
import type { VecMigration } from '../../crds/migration.ts'

export interface ClusterName {
  namespace: string
  name: string
}

export function targetOf({ metadata, spec }: VecMigration): ClusterName {
  const { name, namespace = metadata.namespace } = spec.targetClusterRef
  return { namespace, name }
}

/** Undefined where points come from any engine by its address. */
export function sourceClusterOf({ metadata, spec }: VecMigration): ClusterName | undefined {
  if (spec.source.clusterRef === undefined) return undefined
  const { name, namespace = metadata.namespace } = spec.source.clusterRef
  return { namespace, name }
}

/** For people: `<namespace>/<name>`, or the address. */
export function sourceName(migration: VecMigration): string {
  const cluster = sourceClusterOf(migration)
  if (cluster !== undefined) return `${cluster.namespace}/${cluster.name}`
  return migration.spec.source.endpoint?.url ?? ''
}
