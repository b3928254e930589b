/** Reads the state a decision about a VecBackupSchedule is based on, and remembers the last slot of each. */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { AnyObject, KubernetesEvent } from '../../crds/kubernetes.ts'
import type { VecRestore } from '../../crds/restore.ts'
import type { BackupsToRestore } from '../backup/deletion-policy.ts'
import { isFromTheFuture } from '../conditions.ts'
import { clusterAccessBlocker } from '../cross-namespace.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { objectsOf, relatedClusters } from '../request.ts'
import { BACKUP_CHILD_KIND, backupName, slotOf } from './backups.ts'
import type { LiveDrill } from './drill-facts.ts'
import { DRILL_CHILD_KINDS, drillName } from './drill-objects.ts'
import { decide, FAR_AHEAD_MS, type LiveState, type Observed } from './tick.ts'

export interface Dependencies {
  ports: BackupSchedulePorts
  /** By uid: the latest slot that had its backup, which a failed status write would lose. */
  lastSlots: Map<string, Date | undefined>
  /** By uid: the backup whose creation was answered, and when first. */
  requested: Map<string, { name: string; since: Date }>
}

/** A backup that is created exists by then. */
const CREATION_SECONDS = 10

export async function observe(
  request: HookRequest<VecBackupSchedule>,
  { ports, lastSlots, requested }: Dependencies,
  { now, settings }: Context,
): Promise<Observed> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  // A status derived from a stale cache would permanently set the last slot back, so read it live once.
  if (!lastSlots.has(uid))
    lastSlots.set(uid, reportedSlot(schedule, await ports.schedule(namespace, name)))
  const drillChildren = drillChildrenOf(request)
  const bytes = historyBytes(request.bytes, drillChildren)
  const [related] = relatedClusters(request.related)
  const blocker = related && clusterAccessBlocker(related, namespace, settings)
  const cluster = blocker === undefined ? related : undefined
  const clusterRef = { namespace, ...schedule.spec.clusterRef }
  const inRequest = {
    schedule,
    children: childrenOf(request),
    ...(cluster !== undefined && { cluster }),
    ...(bytes !== undefined && { bytes }),
    drill: {
      children: drillChildren,
      clusterBlocker:
        blocker?.message ?? `cluster ${clusterRef.namespace}/${clusterRef.name} not found`,
      ...(hasDrill(schedule, drillChildren) && { live: await readDrill(schedule, ports) }),
    },
  }
  const cached = withLastSlot(inRequest, lastSlots, now)
  const { create, prune, annotate } = decide(cached, now)
  if (create === undefined && prune.length + annotate.length === 0) return cached

  const { schedule: current, backups } =
    inRequest.drill.live ?? (await readSchedule(schedule, ports))
  const live: LiveState = {
    backups,
    toRestore: await ports.backupsToRestore(backups),
    ...(current !== undefined && { schedule: current }),
  }
  const observed = withLastSlot({ ...cached, live }, lastSlots, now)
  const dueSlot = decide(observed, now).create
  if (dueSlot === undefined) return observed
  const dueName = backupName(name, dueSlot)
  const conflictingBackup = await ports.backup(namespace, dueName)
  if (conflictingBackup !== undefined) return { ...observed, live: { ...live, conflictingBackup } }
  const former = requested.get(uid)
  const isRefused =
    former?.name === dueName && now.getTime() - former.since.getTime() >= CREATION_SECONDS * 1000
  return { ...observed, live: { ...live, dueName, ...(isRefused && { isRefused }) } }
}

/** From now on the backup is to be created: its creation was answered. */
export function recordRequested(
  { schedule, live }: Observed,
  requested: Dependencies['requested'],
  now: Date,
): void {
  const { uid } = schedule.metadata
  const name = live?.dueName
  if (name !== undefined && requested.get(uid)?.name !== name) {
    requested.set(uid, { name, since: now })
  }
}

export function childrenOf({ children }: HookRequest<VecBackupSchedule>): VecBackup[] {
  return objectsOf<VecBackup>(children, BACKUP_CHILD_KIND)
}

/** The VecClusters and VecRestores of restore drills. */
export function drillChildrenOf({ children }: HookRequest<VecBackupSchedule>): AnyObject[] {
  return DRILL_CHILD_KINDS.flatMap((kind) => objectsOf<AnyObject>(children, kind))
}

/** Without the objects of a drill, which are no history. */
function historyBytes(bytes: number | undefined, drill: AnyObject[]): number | undefined {
  if (bytes === undefined || drill.length === 0) return bytes
  return bytes - Buffer.byteLength(JSON.stringify(drill))
}

function hasDrill({ spec, status }: VecBackupSchedule, children: AnyObject[]): boolean {
  const { drill, lastDrill } = status ?? {}
  const isKnown = drill !== undefined || lastDrill !== undefined
  return spec.drill !== undefined || isKnown || children.length > 0
}

/** The schedule and its backups, read live. */
async function readSchedule(
  { metadata: { namespace, name, uid } }: Pick<VecBackupSchedule, 'metadata'>,
  ports: BackupSchedulePorts,
): Promise<Pick<LiveDrill, 'schedule' | 'backups'>> {
  const [schedule, backups] = await Promise.all([
    ports.schedule(namespace, name),
    ports.backupsOf({ namespace, name, uid }),
  ])
  return { backups, ...(schedule !== undefined && { schedule }) }
}

/** Also for a schedule without spec.drill: the status of a cached one may be older than the live one. */
async function readDrill(
  { metadata }: VecBackupSchedule,
  ports: BackupSchedulePorts,
): Promise<LiveDrill> {
  const { namespace, name } = metadata
  const [own, cluster, restore] = await Promise.all([
    readSchedule({ metadata }, ports),
    ports.cluster(namespace, drillName(name)),
    ports.restore(namespace, drillName(name)),
  ])
  return {
    ...own,
    ...(cluster !== undefined && { cluster }),
    ...(restore !== undefined && { restore }),
  }
}

/**
 * A slot had its backup if the cached or the live status says so, or if the backup exists, even while it is
 * being deleted. The backup may disappear and the status may be stale, so the last slot is also remembered.
 * What a clock recorded that was far ahead counts only while that backup exists: otherwise the schedule would
 * create none until the clock is there again.
 */
function withLastSlot(
  observed: Observed,
  lastSlots: Map<string, Date | undefined>,
  now: Date,
): Observed {
  const { schedule, children, live } = observed
  const { name, uid } = schedule.metadata
  const recorded = [
    lastSlots.get(uid),
    reportedSlot(schedule, schedule),
    reportedSlot(schedule, live?.schedule),
  ].filter((slot) => !isFromTheFuture(slot?.getTime() ?? 0, now.getTime(), FAR_AHEAD_MS))
  const lastSlot = latestOf([
    ...recorded,
    ...[...children, ...(live?.backups ?? [])].map((backup) => slotOf(name, backup)),
  ])
  lastSlots.set(uid, lastSlot)
  return lastSlot === undefined ? observed : { ...observed, lastSlot }
}

/** The last slot in the status, unless the object is a different schedule of the same name. */
function reportedSlot(
  { metadata }: VecBackupSchedule,
  source?: VecBackupSchedule,
): Date | undefined {
  const time = source?.metadata.uid === metadata.uid ? source.status?.lastScheduleTime : undefined
  return time === undefined ? undefined : new Date(time)
}

function latestOf(times: (Date | undefined)[]): Date | undefined {
  // toSorted always moves undefined to the end.
  return times.toSorted((a, b) => Number(b) - Number(a))[0]
}

/** All reads are live: Metacontroller's cache may lag, and decisions to create or delete must not. */
export interface BackupSchedulePorts {
  /** The schedule; undefined if it does not exist. */
  schedule(namespace: string, name: string): Promise<VecBackupSchedule | undefined>
  /** The VecBackups with the schedule's label whose controller has this uid, without `spec.collections`. */
  backupsOf(schedule: { namespace: string; name: string; uid: string }): Promise<VecBackup[]>
  /** A VecBackup of any owner; undefined if it does not exist. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** A VecCluster of any owner; undefined if it does not exist. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** A VecRestore of any owner; undefined if it does not exist. */
  restore(namespace: string, name: string): Promise<VecRestore | undefined>
  /** Those of these backups that unfinished VecRestores are to restore. */
  backupsToRestore(backups: readonly VecBackup[]): Promise<BackupsToRestore>
  /** Writes an Event; an Event that exists or cannot be written is not an error. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
