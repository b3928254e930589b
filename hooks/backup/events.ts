/** Events about a VecBackup: one when it starts, one when it ends, one for each trouble on the way. */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { conditionOf } from '../conditions.ts'
import { once, warning } from '../events.ts'

const WARNINGS = new Set(['BackupFailed', 'JobNotStarted'])

export function eventsOf(backup: VecBackup, status: BackupStatus, now: Date): KubernetesEvent[] {
  const complete = status.conditions?.find(({ type }) => type === 'Complete')
  const before = conditionOf(backup, 'Complete')
  const events: KubernetesEvent[] = []
  if (status.phase === 'InProgress' && backup.status?.phase !== 'InProgress') {
    const message = `the backup is written to ${status.s3Path ?? 'its bucket'}`
    events.push(once(backup, { reason: 'BackupStarted', message }, now))
  }
  if (complete === undefined || complete.reason === before?.reason) return events
  const { reason, message } = complete
  if (WARNINGS.has(reason)) {
    const said = status.error === undefined ? message : `${message}: ${status.error}`
    events.push(warning(backup, { reason, message: said }, now))
  } else if (reason === 'BackupCompleted') {
    const said = `${message}, ${status.totalSize ?? '0 B'} in ${status.s3Path ?? 'the bucket'}`
    events.push(once(backup, { reason, message: said }, now))
  }
  return events
}
