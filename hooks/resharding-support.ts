/** Whether the number of shards of the collections of a VecCluster may be changed. */
import type { ClusterSpec } from '../crds/cluster.ts'
import { compareMinors, isOlder } from '../crds/versions.ts'

/**
 * The least patch of each minor version with which it has passed its runs on real engines under kills
 * (test/nodes/resharding.ts). Earlier patches lose points or queries during it.
 */
const PROVEN: readonly string[] = ['1.18.3']

/** Why spec.resharding cannot be used; undefined if it is off or may be. */
export function reshardingError(
  { resharding, version, cluster }: ClusterSpec,
  proven: readonly string[] = PROVEN,
): string | undefined {
  if (resharding !== true) return undefined
  if (!cluster.enabled) return 'spec.resharding requires spec.cluster.enabled true'
  const isProven = proven.some(
    (least) => compareMinors(least, version) === 0 && !isOlder(version, least),
  )
  if (isProven) return undefined
  return `spec.resharding requires spec.version ${proven.join(' or ')} or a later patch of it: set spec.resharding to false for ${version}`
}

/** The spec asks for it, and it may be used. */
export function isReshardingOn(spec: ClusterSpec, proven = PROVEN): boolean {
  return spec.resharding === true && reshardingError(spec, proven) === undefined
}
