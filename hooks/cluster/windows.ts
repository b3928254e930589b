/**
 * Maintenance windows (`spec.maintenanceWindows`): outside of them nothing is started that restarts pods
 * or moves shards without need. Repairs never wait.
 */
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import type { PlannedKeys } from '../../crds/contract/api-keys.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import { ANNOTATIONS, shortHash } from '../../crds/contract/names.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { parseDuration } from '../../crds/units.ts'
import { parseCron } from '../backup-schedule/slots.ts'
import { timestamp } from '../conditions.ts'
import { isHibernated } from './hibernate.ts'
import type { DesiredRun, Observed } from './ports.ts'

export type WindowState =
  /** `endsAt` is absent if there are no windows, or if they do not count for now. */
  | { is: 'open'; endsAt?: Date; opensAt?: never }
  /** `opensAt` is absent if no window is valid. */
  | { is: 'closed'; opensAt?: Date }

/** Reason of the condition Applied while the next window is awaited. */
export const AWAITS_WINDOW = 'MaintenanceWindow'

type Windows = NonNullable<ClusterSpec['maintenanceWindows']>

export function windowState({ metadata, spec }: VecCluster, now: Date): WindowState {
  const { maintenanceWindows: windows = [] } = spec
  if (windows.length === 0 || metadata.annotations?.[ANNOTATIONS.maintenance] === 'now') {
    return { is: 'open' }
  }
  const usable = windows.flatMap((window, index) => usableSlots(window, index))
  const ends = usable
    .map(({ slots, milliseconds }) => slots.latestUntil(now).getTime() + milliseconds)
    .filter((end) => end > now.getTime())
  if (ends.length > 0) return { is: 'open', endsAt: new Date(Math.max(...ends)) }
  const opens = usable.map(({ slots }) => slots.firstAfter(now).getTime())
  return opens.length === 0
    ? { is: 'closed' }
    : { is: 'closed', opensAt: new Date(Math.min(...opens)) }
}

function usableSlots(window: Windows[number], index: number) {
  try {
    const milliseconds = parseDuration(window.duration) * 1000
    return [{ slots: parseWindow(window, index), milliseconds }]
  } catch (error) {
    if (error instanceof Rejected) return []
    throw error
  }
}

/** Throws `Rejected` with the name of the field. */
function parseWindow({ schedule, timeZone = 'UTC' }: Windows[number], index: number) {
  const field = `spec.maintenanceWindows[${index}]`
  try {
    Intl.DateTimeFormat('en', { timeZone })
  } catch (cause) {
    const message = `${field}.timeZone: ${timeZone} is not a time zone of the IANA database`
    throw new Rejected(message, { cause })
  }
  return parseCron(schedule, { field: `${field}.schedule`, timeZone })
}

/** Why the windows cannot be used, with the name of the field. */
export function windowsError({ maintenanceWindows = [] }: ClusterSpec): string | undefined {
  for (const [index, window] of maintenanceWindows.entries()) {
    try {
      parseWindow(window, index)
    } catch (error) {
      if (error instanceof Rejected) return error.message
      throw error
    }
  }
  return undefined
}

/** What is awaited; undefined while a window is open. */
export function awaitedWindow(cluster: VecCluster, now: Date): ConditionReason | undefined {
  const state = windowState(cluster, now)
  if (state.is === 'open') return undefined
  const message =
    state.opensAt === undefined
      ? 'waits for a valid maintenance window'
      : `waits for the maintenance window that begins at ${timestamp(state.opensAt)}`
  return { reason: AWAITS_WINDOW, message }
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
}

/** Two runs with the same hash leave the pods as they are, apart from their number. */
export function podsHash({
  chart,
  repository,
  version,
  values,
  secretFingerprints,
  keys,
}: PodsInput): string {
  const ofPods = Object.entries(values)
    .filter(([name]) => !VALUES_OUTSIDE_PODS.has(name))
    // Pods that accept two keys do not read the published one.
    .map(([name, value]) =>
      name === 'apiKey' && keys !== undefined ? [name, keys.accepted] : [name, value],
    )
  return shortHash('pods', JSON.stringify([chart, repository, version, ofPods, secretFingerprints]))
}

/** Seconds until the next check: not later than a window begins. */
export function resyncAtWindow(cluster: VecCluster, now: Date, seconds: number): number {
  const { opensAt } = windowState(cluster, now)
  if (opensAt === undefined) return seconds
  return Math.max(1, Math.min(seconds, Math.ceil((opensAt.getTime() - now.getTime()) / 1000)))
}
