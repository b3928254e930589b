/** What a decision about a restore drill is based on: live objects, without those that belong to others. */
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { isControlledBy, type AnyObject } from '../../crds/kubernetes.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { timestamp } from '../conditions.ts'
import { unchanged } from '../request.ts'
import type { Child } from '../protocol.ts'
import { drillName, drillOf, type DrillIdentity } from './drill-objects.ts'

export interface ObservedDrill {
  /** VecClusters and VecRestores of the schedule in Metacontroller's cache. */
  children: AnyObject[]
  /** Why the VecCluster of the backups is not in the request. */
  clusterBlocker?: string
  /** Read unless nothing has to do with drills. */
  live?: LiveDrill
}

export interface LiveDrill {
  schedule?: VecBackupSchedule
  /** The objects with the name of the drill, whatever their owner is. */
  cluster?: VecCluster
  restore?: VecRestore
  /** The backups of the schedule. */
  backups: VecBackup[]
}

export interface DrillInputs {
  schedule: VecBackupSchedule
  /** The cluster of the backups. */
  cluster?: VecCluster
  drill?: ObservedDrill
}

export type DrillStatus = Pick<BackupScheduleStatus, 'drill' | 'lastDrill'>

/** The live state, without what belongs to others. */
export interface Facts {
  schedule: VecBackupSchedule
  source: VecCluster | undefined
  sourceBlocker: string
  /** In the cache, with the name of the drill. */
  cached: AnyObject[]
  /** In the cache, with another name: they are left alone. */
  others: Child[]
  live: LiveDrill
  cluster: VecCluster | undefined
  restore: VecRestore | undefined
  status: DrillStatus
  now: Date
}

export function factsOf(
  { schedule, cluster: source, drill }: DrillInputs,
  live: LiveDrill,
  now: Date,
): Facts {
  const { uid, name } = schedule.metadata
  const { children = [], clusterBlocker = 'its cluster was not observed yet' } = drill ?? {}
  const own = <Kind extends AnyObject>(object: Kind | undefined) =>
    object !== undefined && isControlledBy(object, uid) ? object : undefined
  const isNamed = ({ metadata }: AnyObject) => metadata.name === drillName(name)
  const current = live.schedule?.metadata.uid === uid ? live.schedule : schedule
  const { drill: running, lastDrill } = current.status ?? {}
  return {
    schedule,
    source,
    sourceBlocker: clusterBlocker,
    cached: children.filter(isNamed),
    others: children.filter((object) => !isNamed(object)).map(unchanged),
    live,
    cluster: own(live.cluster),
    restore: own(live.restore),
    status: { ...(running && { drill: running }), ...(lastDrill && { lastDrill }) },
    now,
  }
}

/** Names of the backups that a drill reads: they are not deleted meanwhile. */
export function drilledBackups({ schedule, drill }: DrillInputs): ReadonlySet<string> {
  const { children = [], live } = drill ?? {}
  const objects = [...children, live?.cluster, live?.restore].filter((one) => one !== undefined)
  const statuses = [schedule.status?.drill, live?.schedule?.status?.drill]
  return new Set([...objects.map(drillOf), ...statuses].flatMap((one) => one?.backupName ?? []))
}

/** The schedule was changed or deleted since Metacontroller's cache was updated. */
export function isStale(
  { metadata }: VecBackupSchedule,
  live: VecBackupSchedule | undefined,
): boolean {
  const current = live?.metadata
  return (
    current?.uid !== metadata.uid ||
    current.deletionTimestamp !== undefined ||
    current.generation !== metadata.generation
  )
}

/** The drill in progress. Without objects it may still be known from the status. */
export function identityOf({ cluster, restore, status }: Facts): DrillIdentity | undefined {
  return (cluster && drillOf(cluster)) ?? (restore && drillOf(restore)) ?? status.drill
}

/** An object with the name of the drill that this schedule does not own: it is never touched. */
export function foreignObject({ live, cluster, restore }: Facts): AnyObject | undefined {
  if (live.cluster !== undefined && cluster === undefined) return live.cluster
  return restore === undefined ? live.restore : undefined
}

/** Backup, slot and start of a drill. The status has the start, unless its write was lost. */
export function runOf(
  { cluster, restore, status, now }: Facts,
  { backupName, slot }: DrillIdentity,
) {
  const created = cluster?.metadata.creationTimestamp ?? restore?.metadata.creationTimestamp
  const startTime = status.drill?.slot === slot ? status.drill.startTime : created
  return { backupName, slot, startTime: startTime ?? timestamp(now) }
}
