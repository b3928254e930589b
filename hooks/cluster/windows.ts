/** Which helm runs wait for a maintenance window of their VecCluster (hooks/maintenance-windows.ts). */
import type { VecCluster } from '../../crds/cluster.ts'
import type { PlannedKeys } from '../../crds/contract/api-keys.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { awaitedWindowMessage } from '../maintenance-windows.ts'
import { isHibernated } from './hibernate.ts'
import type { DesiredRun, Observed } from './ports.ts'

/** Reason of the condition Applied while the next window is awaited. */
const AWAITS_WINDOW = 'MaintenanceWindow'

/** What is awaited; undefined while a window is open. */
export function awaitedWindow(cluster: VecCluster, now: Date): ConditionReason | undefined {
  const message = awaitedWindowMessage(cluster, now)
  return message === undefined ? undefined : { reason: AWAITS_WINDOW, message }
}

/**
 * What a helm run waits for; undefined if it may start now. A run that cannot restart a pod does not
 * wait: pods that do not exist are not restarted, and neither are pods whose template stays the same.
 */
export function awaitedByRun(
  observed: Observed,
  run: DesiredRun,
  now: Date,
): ConditionReason | undefined {
  return mayDisrupt(observed, run) ? awaitedWindow(observed.cluster, now) : undefined
}

function mayDisrupt(observed: Observed, run: DesiredRun): boolean {
  const { cluster, statefulSet, progress } = observed
  // Hibernation is asked for by name, and so is its end.
  if (statefulSet === undefined || isHibernated(observed) || cluster.spec.hibernate === true) {
    return false
  }
  if (cluster.spec.replicas < (statefulSet.spec.replicas ?? 1)) return true
  return progress?.applied?.podsHash !== run.podsHash
}

/** Values of the chart that are no part of the template of the pods. Volumes grow while the pods run. */
const VALUES_OUTSIDE_PODS = new Set([
  ...['replicaCount', 'podDisruptionBudget', 'metrics'],
  ...['persistence', 'snapshotPersistence'],
])

interface PodsInput extends Pick<
  DesiredRun,
  'chart' | 'repository' | 'version' | 'values' | 'secretFingerprints'
> {
  keys: PlannedKeys | undefined
  /** Digest of the image, which is no value. */
  digest: string | undefined
}

/** Two runs with the same hash leave the pods as they are, apart from their number. */
export function podsHash({
  chart,
  repository,
  version,
  values,
  secretFingerprints,
  keys,
  digest,
}: PodsInput): string {
  const ofPods = Object.entries(values)
    .filter(([name]) => !VALUES_OUTSIDE_PODS.has(name))
    // Pods that accept two keys do not read the published one.
    .map(([name, value]) =>
      name === 'apiKey' && keys !== undefined ? [name, keys.accepted] : [name, value],
    )
  const parts = [chart, repository, version, ofPods, secretFingerprints]
  // Without a digest the hash is that of earlier releases.
  return shortHash('pods', JSON.stringify(digest === undefined ? parts : [...parts, digest]))
}
