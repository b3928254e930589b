/**
 * The objects of the Helm release of a VecCluster that clients and pods need, without its StatefulSet, and what the
 * status says if another client has deleted one of them.
 */
import { apiKeySecretName, releaseName } from '../../crds/contract/names.ts'
import { clusterConnection, isKeySet, requiresApiKey } from '../../crds/contract/connection.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { formatNames } from '../../crds/units.ts'
import { isHibernated } from './hibernate.ts'
import type { ClusterPorts, Observed, ReleaseObject } from './ports.ts'
import { hasDisruptionBudget } from './values.ts'

/** Reason of the conditions Ready and Applied while an object is missing. */
export const RELEASE_INCOMPLETE = 'ReleaseIncomplete'

/** Those that another client has deleted since the last helm run. The run that starts pods again creates them too. */
export async function readMissingObjects(
  observed: Observed,
  ports: Pick<ClusterPorts, 'missingObjects'>,
): Promise<ReleaseObject[]> {
  if (observed.progress?.applied === undefined || isHibernated(observed)) return []
  return ports.missingObjects(observed.cluster.metadata.namespace, expectedObjects(observed))
}

/** What every chart renders for the release that was applied last. */
export function expectedObjects({
  cluster,
  progress,
}: Pick<Observed, 'cluster' | 'progress'>): ReleaseObject[] {
  const { metadata, spec } = cluster
  const name = releaseName(metadata.name)
  // Of another spec only what does not depend on it: the run of that spec is due anyway.
  const isCurrent = progress?.applied?.generation === metadata.generation
  // The run of a spec without a key deletes the Secret before it is reported.
  const hasKey =
    (clusterConnection(cluster).key !== undefined && requiresApiKey(spec)) ||
    (isCurrent && isKeySet(spec.readOnlyApiKey))
  return [
    { kind: 'Service', name },
    { kind: 'Service', name: `${name}-headless` },
    { kind: 'ConfigMap', name },
    { kind: 'ServiceAccount', name },
    ...(hasKey ? [{ kind: 'Secret' as const, name: apiKeySecretName(metadata.name) }] : []),
    ...(isCurrent && hasDisruptionBudget(spec)
      ? [{ kind: 'PodDisruptionBudget' as const, name }]
      : []),
  ]
}

/** Why the release is not complete; undefined if nothing is missing. */
export function incompleteRelease({
  missingObjects = [],
}: Pick<Observed, 'missingObjects'>): ConditionReason | undefined {
  if (missingObjects.length === 0) return undefined
  const names = missingObjects.map(({ kind, name }) => `${kind} ${name}`)
  return {
    reason: RELEASE_INCOMPLETE,
    message: `objects of the release do not exist: ${formatNames(names, names.length)}; a helm run creates them, at most once in five minutes`,
  }
}

/** The same of what clients call and pods need to start. */
export function unusableRelease({
  missingObjects = [],
}: Pick<Observed, 'missingObjects'>): ConditionReason | undefined {
  const isNeeded = missingObjects.some(({ kind }) => kind !== 'PodDisruptionBudget')
  return isNeeded ? incompleteRelease({ missingObjects }) : undefined
}
