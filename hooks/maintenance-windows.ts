/**
 * Maintenance windows of a VecCluster (`spec.maintenanceWindows`): outside of them nothing is started that
 * restarts pods, moves shards without need, or tests a backup. Repairs never wait.
 */
import type { ClusterSpec, VecCluster } from '../crds/cluster.ts'
import { Rejected } from '../crds/contract/errors.ts'
import { ANNOTATIONS } from '../crds/contract/names.ts'
import { parseDuration } from '../crds/units.ts'
import { parseCron } from './backup-schedule/slots.ts'
import { timestamp } from './conditions.ts'

export type WindowState =
  /** `endsAt` is absent if there are no windows, or if they do not count for now. */
  | { is: 'open'; endsAt?: Date; opensAt?: never }
  /** `opensAt` is absent if no window is valid. */
  | { is: 'closed'; opensAt?: Date }

/** More than the time between two slots of 29 February, which may be eight years. */
const LONGEST_GAP_MS = 10 * 366 * 86_400_000

type Windows = NonNullable<ClusterSpec['maintenanceWindows']>

export function windowState({ metadata, spec }: VecCluster, now: Date): WindowState {
  const { maintenanceWindows: windows = [] } = spec
  if (windows.length === 0 || metadata.annotations?.[ANNOTATIONS.maintenance] === 'now') {
    return { is: 'open' }
  }
  const usable = windows.flatMap((window, index) => usableSlots(window, index))
  const next = usable.map(({ slots, milliseconds }) => {
    // No search backwards: where slots are years apart, it costs a hundred times as much.
    const searched = Math.min(milliseconds, LONGEST_GAP_MS)
    const slot = slots.firstAfter(new Date(now.getTime() - searched))
    return slot > now
      ? { opensAt: slot.getTime() }
      : { endsAt: slots.latestUntil(now, slot).getTime() + milliseconds }
  })
  const ends = next.flatMap(({ endsAt }) => endsAt ?? [])
  if (ends.length > 0) return { is: 'open', endsAt: new Date(Math.max(...ends)) }
  const opens = next.flatMap(({ opensAt }) => opensAt ?? [])
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

/** What is awaited, for a message; undefined while a window is open. */
export function awaitedWindowMessage(cluster: VecCluster, now: Date): string | undefined {
  const state = windowState(cluster, now)
  if (state.is === 'open') return undefined
  return state.opensAt === undefined
    ? 'waits for a valid maintenance window'
    : `waits for the maintenance window that begins at ${timestamp(state.opensAt)}`
}

/** Seconds until the next check: not later than a window begins. */
export function resyncAtWindow(cluster: VecCluster, now: Date, seconds: number): number {
  const { opensAt } = windowState(cluster, now)
  if (opensAt === undefined) return seconds
  return Math.max(1, Math.min(seconds, Math.ceil((opensAt.getTime() - now.getTime()) / 1000)))
}
