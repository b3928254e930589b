/** Events about a VecBackup: one when it starts, one when it ends, one for each trouble on the way. */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import { conditionOf } from '../conditions.ts'
import { eventOn } from '../events.ts'

const WARNINGS = new Set(['BackupFailed', 'JobNotStarted'])

export function eventsOf(backup: VecBackup, status: BackupStatus, now: Date): KubernetesEvent[] {
  const complete = status.conditions?.find(({ type }) => type === 'Complete')
  const before = conditionOf(backup, 'Complete')
  const events: KubernetesEvent[] = []
  if (status.phase === 'InProgress' && backup.status?.phase !== 'InProgress') {
    const message = `the backup is written to ${status.s3Path ?? 'its bucket'}`
    events.push(normal(backup, { reason: 'BackupStarted', message }, now))
  }
  if (complete === undefined || complete.reason === before?.reason) return events
  const { reason, message } = complete
  if (WARNINGS.has(reason)) {
    const said = status.error === undefined ? message : `${message}: ${status.error}`
    events.push(warning(backup, { reason, message: said }, now))
  } else if (reason === 'BackupCompleted') {
    const said = `${message}, ${status.totalSize ?? '0 B'} in ${status.s3Path ?? 'the bucket'}`
    events.push(normal(backup, { reason, message: said }, now))
  }
  return events
}

export function warning(
  backup: VecBackup,
  { reason, message }: { reason: string; message: string },
  now: Date,
): KubernetesEvent {
  const transition = shortHash(message)
  return eventOn(backup, { type: 'Warning', reason, message, transition }, now)
}

function normal(
  backup: VecBackup,
  { reason, message }: { reason: string; message: string },
  now: Date,
): KubernetesEvent {
  return eventOn(backup, { type: 'Normal', reason, message, transition: 'once' }, now)
}
