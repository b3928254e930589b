/** Events about a VecMigration: one when it starts, one when it ends, one for each trouble on the way. */
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { MigrationStatus, VecMigration } from '../../crds/migration.ts'
import { conditionOf } from '../conditions.ts'
import { once, warning } from '../events.ts'

const WARNINGS = new Set(['MigrationFailed', 'JobNotStarted'])

export function eventsOf(
  migration: VecMigration,
  status: MigrationStatus,
  now: Date,
): KubernetesEvent[] {
  const complete = status.conditions?.find(({ type }) => type === 'Complete')
  const before = conditionOf(migration, 'Complete')
  const events: KubernetesEvent[] = []
  if (status.phase === 'Running' && migration.status?.phase !== 'Running') {
    const { collectionsTotal = 0, pointsTotal = 0 } = status.progress ?? {}
    const message = `copies ${pointsTotal} points of ${collectionsTotal} collections from ${status.source ?? 'the source'}`
    events.push(once(migration, { reason: 'MigrationStarted', message }, now))
  }
  if (complete === undefined || complete.reason === before?.reason) return events
  const { reason, message } = complete
  if (WARNINGS.has(reason)) {
    const said = status.error === undefined ? message : `${message}: ${status.error}`
    events.push(warning(migration, { reason, message: said }, now))
  } else if (reason === 'MigrationCompleted') {
    const said = `${message}, ${status.progress?.pointsCopied ?? 0} points`
    events.push(once(migration, { reason, message: said }, now))
  }
  return events
}
