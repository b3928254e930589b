/** What the Events about a VecRestore say. */
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { RestoreStatus } from '../../crds/restore.ts'
import { humanSize } from '../../crds/size.ts'
import { transferEvents } from '../transfer-events.ts'
import type { Reported } from './status.ts'

export function eventsOf(
  { restore, progress }: Reported,
  status: RestoreStatus,
  now: Date,
): KubernetesEvent[] {
  const { startTime, sourceBackup = 'the backup' } = status
  const { bytes = 0, notes = [] } = progress?.restore ?? {}
  return transferEvents(
    { resource: restore, status, now },
    {
      started: startTime !== undefined &&
        restore.status?.startTime === undefined && {
          reason: 'RestoreStarted',
          message: `reads ${sourceBackup}`,
        },
      completed: {
        reason: 'RestoreCompleted',
        more: [`, ${humanSize(bytes)}`, ...notes].join('; '),
      },
      failed: 'RestoreFailed',
    },
  )
}
