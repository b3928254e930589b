/** The hooks of VecBackupSchedule: observe, decide, write Events. */
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { relatedByName } from '../request.ts'
import { kindHooks, type KindHooks, type RelatedRule } from '../protocol.ts'
import { BACKUP_CHILD_KIND } from './backups.ts'
import { DRILL_CHILD_KINDS } from './drill-objects.ts'
import { finalize, observeDeletion } from './finalize.ts'
import { observe, recordRequested, type BackupSchedulePorts, type Dependencies } from './observe.ts'
import { sync } from './sync.ts'

export function backupScheduleHooks(ports: BackupSchedulePorts): KindHooks {
  const dependencies: Dependencies = { ports, lastSlots: new Map(), requested: new Map() }
  return kindHooks({
    resource: VecBackupSchedule,
    childKinds: [BACKUP_CHILD_KIND, ...DRILL_CHILD_KINDS],
    customize,
    finalizeReads: ['schedule', 'suspend', 'deletionPolicy'],
    async sync(request, context) {
      const observed = await observe(request, dependencies, context)
      const desired = sync(observed, context)
      for (const event of desired.events ?? []) await ports.writeEvent(event)
      const answered = () => recordRequested(observed, dependencies.requested, context.now)
      return { ...desired, answered }
    },
    async finalize(request, context) {
      return finalize(await observeDeletion(request, dependencies), context)
    },
  })
}

/** Its backups wait for a cluster that is not ready; none are created while it is hibernated. */
export function customize({ metadata, spec }: VecBackupSchedule): RelatedRule[] {
  return [relatedByName(VecCluster, { namespace: metadata.namespace, ...spec.clusterRef })]
}
