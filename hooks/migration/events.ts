/** What the Events about a VecMigration say. */
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { MigrationStatus, VecMigration } from '../../crds/migration.ts'
import { transferEvents } from '../transfer-events.ts'

export function eventsOf(
  migration: VecMigration,
  status: MigrationStatus,
  now: Date,
): KubernetesEvent[] {
  const { phase, source = 'the source', progress } = status
  const { collectionsTotal = 0, pointsTotal = 0, pointsCopied = 0 } = progress ?? {}
  return transferEvents(
    { resource: migration, status, now },
    {
      started: phase === 'Running' &&
        migration.status?.phase !== 'Running' && {
          reason: 'MigrationStarted',
          message: `copies ${pointsTotal} points of ${collectionsTotal} collections from ${source}`,
        },
      completed: { reason: 'MigrationCompleted', more: `, ${pointsCopied} points` },
      failed: 'MigrationFailed',
    },
  )
}
