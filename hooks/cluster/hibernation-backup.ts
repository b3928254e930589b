/**
 * The backup before spec.hibernate stops the pods (`spec.hibernation.backupScheduleRef`). The status of
 * the cluster requests it by name, its VecBackupSchedule creates it, and the helm run waits until it is
 * Completed. The request stays in the status, so that a repeated call neither requests another backup nor
 * waits for one that was completed and deleted since. A helm run may wait for hours after the backup, for a
 * Lease or for a spec that can be applied, while clients go on writing: then another backup is requested.
 */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { formatAcceptHint } from '../../crds/contract/job.ts'
import { HIBERNATION_BACKUP_SECONDS } from '../../crds/contract/limits.ts'
import { isControlledBy } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { backupName } from '../backup-schedule/backups.ts'
import { getCondition, secondsSince, timestamp } from '../conditions.ts'
import type { ClusterPorts, Observed, ObservedHibernationBackup } from './ports.ts'
import { acceptedRisks } from './validation.ts'

export type HibernationBackup = NonNullable<ClusterStatus['hibernationBackup']>

/** What the helm run waits for, and the request that the status has to hold meanwhile. */
export interface AwaitedBackup {
  notApplied: ConditionReason
  request?: HibernationBackup
}

type Running = Pick<Observed, 'cluster' | 'statefulSet' | 'progress'>

/** The pods run, and they may be stopped only after a backup that is not known to be Completed. */
export function needsBackup(observed: Running, now: Date): boolean {
  return (observed.statefulSet?.spec.replicas ?? 0) > 0 && isWithoutBackup(observed, now)
}

/**
 * No pod runs, according to a cache that may still show the hibernation before this one. Pods that were
 * started since then need a backup.
 */
export function mayNeedBackup(observed: Running, now: Date): boolean {
  return observed.statefulSet?.spec.replicas === 0 && isWithoutBackup(observed, now)
}

function isWithoutBackup(observed: Running, now: Date): boolean {
  const { cluster, progress } = observed
  if (cluster.spec.hibernate !== true || scheduleName(cluster) === undefined) return false
  if (progress?.applied === undefined || acceptedRisks(cluster).includes('no-backup')) return false
  return currentRequest(observed, now)?.completionTime === undefined
}

export async function readHibernationBackup(
  observed: Running,
  ports: Pick<ClusterPorts, 'schedule' | 'backup'>,
  now: Date,
): Promise<ObservedHibernationBackup> {
  const { cluster } = observed
  const { namespace } = cluster.metadata
  const name = currentRequest(observed, now)?.name
  // In this order: a backup that the status of the schedule shows exists already, unless it was deleted.
  const schedule = await ports.schedule(namespace, scheduleName(cluster) ?? '')
  const backup = name === undefined ? undefined : await ports.backup(namespace, name)
  return {
    ...(schedule !== undefined && { schedule }),
    ...(backup !== undefined && { backup }),
  }
}

/** Why helm must not stop the pods yet; undefined if it may. */
export function awaitedBackup(observed: Observed, now: Date): AwaitedBackup | undefined {
  if (!needsBackup(observed, now)) return undefined
  const { cluster, hibernationBackup: { schedule, backup } = {} } = observed
  const scheduleError = scheduleErrorOf(cluster, schedule)
  if (schedule === undefined || scheduleError !== undefined) {
    const message = `${scheduleError ?? ''}; correct it, set spec.hibernate to false, or ${HINT}`
    return { notApplied: { reason: 'BackupScheduleInvalid', message } }
  }
  const request = currentRequest(observed, now)
  if (request === undefined || (backup === undefined && isPast(request, schedule))) {
    const created = newRequest(observed, schedule, now)
    return { notApplied: notCreated(created, schedule), request: created }
  }
  const notApplied =
    backup === undefined ? notCreated(request, schedule) : notCompleted(backup, schedule)
  return notApplied && { notApplied, request }
}

/** The request as the status keeps it while spec.hibernate is true. */
export function hibernationBackupStatus({
  cluster,
  hibernationBackup: { schedule, backup } = {},
}: Observed): Pick<ClusterStatus, 'hibernationBackup'> {
  const request = cluster.spec.hibernate === true ? requestOf(cluster) : undefined
  if (request === undefined) return {}
  const isCompleted =
    request.completionTime === undefined &&
    schedule !== undefined &&
    backup?.status?.phase === 'Completed' &&
    isControlledBy(backup, schedule.metadata.uid)
  const { completionTime } = backup?.status ?? {}
  return {
    hibernationBackup: {
      ...request,
      ...(isCompleted && { completionTime: completionTime ?? request.requestTime }),
    },
  }
}

const HINT = formatAcceptHint('no-backup')

function scheduleName({ spec }: VecCluster): string | undefined {
  return spec.hibernation?.backupScheduleRef?.name
}

/** Another schedule needs another request. */
function requestOf(cluster: VecCluster): HibernationBackup | undefined {
  const request = cluster.status?.hibernationBackup
  return request?.scheduleName === scheduleName(cluster) ? request : undefined
}

/** A request that was made before the pods were started again does not count, nor does an old backup. */
function currentRequest({ cluster, progress }: Running, now: Date): HibernationBackup | undefined {
  const request = requestOf(cluster)
  if (request === undefined || request.afterRun !== progress?.applied?.run) return undefined
  const { completionTime } = request
  if (completionTime === undefined) return request
  return secondsSince(completionTime, now) > HIBERNATION_BACKUP_SECONDS ? undefined : request
}

/** After every slot that had its backup, also if one is ahead of the clock: earlier ones are never created. */
function newRequest(
  { progress }: Running,
  { metadata: { name }, status }: VecBackupSchedule,
  now: Date,
): HibernationBackup {
  const lastSlot = Date.parse(status?.lastScheduleTime ?? '')
  const slot = lastSlot >= now.getTime() ? new Date(lastSlot + 1000) : now
  return {
    scheduleName: name,
    name: backupName(name, slot),
    requestTime: timestamp(slot),
    afterRun: progress?.applied?.run ?? 0,
  }
}

/** The schedule has created it, and it was deleted; or a later slot was due before the request was seen. */
function isPast({ requestTime }: HibernationBackup, { status }: VecBackupSchedule): boolean {
  return status?.lastScheduleTime !== undefined && status.lastScheduleTime >= requestTime
}

function scheduleErrorOf(
  cluster: VecCluster,
  schedule: VecBackupSchedule | undefined,
): string | undefined {
  const label = `VecBackupSchedule ${scheduleName(cluster) ?? ''}`
  if (schedule === undefined) return `${label} of spec.hibernation does not exist`
  if (schedule.metadata.deletionTimestamp !== undefined)
    return `${label} of spec.hibernation is being deleted`
  const { namespace, name } = cluster.metadata
  const reference = { namespace: schedule.metadata.namespace, ...schedule.spec.clusterRef }
  if (reference.namespace === namespace && reference.name === name) return undefined
  return `${label} of spec.hibernation is for cluster ${reference.namespace}/${reference.name}`
}

/** The schedule creates it after it has seen the request; if it does not, its condition says why. */
function notCreated({ name }: HibernationBackup, schedule: VecBackupSchedule): ConditionReason {
  const ready = getCondition(schedule, 'Ready')
  const cause = ready?.status === 'False' ? `: ${ready.message}` : ''
  const message = `waiting for VecBackupSchedule ${schedule.metadata.name} to create VecBackup ${name} before the pods are stopped${cause}`
  return { reason: 'AwaitingBackup', message: message.slice(0, MAX_MESSAGE) }
}

const MAX_MESSAGE = 1000

function notCompleted(backup: VecBackup, schedule: VecBackupSchedule): ConditionReason | undefined {
  const { metadata, status = {} } = backup
  const label = `VecBackup ${metadata.name}`
  if (!isControlledBy(backup, schedule.metadata.uid)) {
    const message = `${label} does not belong to VecBackupSchedule ${schedule.metadata.name}: set spec.hibernate to false and to true again, or ${HINT}`
    return { reason: 'BackupScheduleInvalid', message }
  }
  if (status.phase === 'Completed') return undefined
  const cause = (status.error ?? getCondition(backup, 'Complete')?.message ?? '').slice(
    0,
    MAX_CAUSE,
  )
  if (status.phase === 'Failed') {
    const message = `${label} failed${cause === '' ? '' : `: ${cause}`}; no pod was stopped. Delete it, and another one is created; or set spec.hibernate to false, or ${HINT}`
    return { reason: 'HibernationBackupFailed', message }
  }
  // What has been copied so far changes all the time, and is in the status of the backup.
  const isWaiting = status.phase !== 'InProgress' && cause !== ''
  const message = `waiting for ${label} before the pods are stopped${isWaiting ? `: ${cause}` : ''}`
  return { reason: 'AwaitingBackup', message }
}

const MAX_CAUSE = 500
