/** What the Events about a VecBackup say. */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { transferEvents } from '../transfer-events.ts'

export function eventsOf(backup: VecBackup, status: BackupStatus, now: Date): KubernetesEvent[] {
  const { phase, totalSize = '0 B', s3Path } = status
  return transferEvents(
    { resource: backup, status, now },
    {
      started: phase === 'InProgress' &&
        backup.status?.phase !== 'InProgress' && {
          reason: 'BackupStarted',
          message: `the backup is written to ${s3Path ?? 'its bucket'}`,
        },
      completed: { reason: 'BackupCompleted', more: `, ${totalSize} in ${s3Path ?? 'the bucket'}` },
      failed: 'BackupFailed',
    },
  )
}
