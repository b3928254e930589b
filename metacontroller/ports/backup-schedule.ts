/** Implements the ports of VecBackupSchedule. All reads are live. */
import type { VecBackup } from '../../crds/backup.ts'
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { LABELS } from '../../crds/contract/names.ts'
import { isControlledBy } from '../../crds/kubernetes.ts'
import { VecRestore } from '../../crds/restore.ts'
import type { BackupSchedulePorts } from '../../hooks/backup-schedule/observe.ts'
import { lenientSchema } from '../../hooks/protocol.ts'
import { backups, backupSchedules, restores } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { backupsToRestore } from './backup.ts'
import { boundedBackup } from './bounded-objects.ts'
import { commonPorts, type CommonDependencies, LenientBackup, listOrEmpty } from './common.ts'

export function backupSchedulePorts(dependencies: CommonDependencies): BackupSchedulePorts {
  const { kubernetes, namespaces } = dependencies
  const { backup, cluster, writeEvent } = commonPorts(dependencies)
  return {
    schedule: (namespace, name) =>
      kubernetes.get(backupSchedules(namespace), name, VecBackupSchedule.schema),
    backupsOf: ({ namespace, name, uid }) => listBackups(kubernetes, { namespace, name, uid }),
    backup,
    cluster,
    restore: (namespace, name) => kubernetes.get(restores(namespace), name, LenientRestore),
    backupsToRestore: (candidates) => backupsToRestore(kubernetes, namespaces, candidates),
    writeEvent,
  }
}

/** A VecRestore that this release cannot read must not prevent the backups of a schedule. */
const LenientRestore = lenientSchema(VecRestore.schema) as typeof VecRestore.schema

async function listBackups(
  kubernetes: Kubernetes,
  { namespace, name, uid }: { namespace: string; name: string; uid: string },
): Promise<VecBackup[]> {
  return listOrEmpty(kubernetes, [backups(namespace)], {
    labelSelector: `${LABELS.schedule}=${name}`,
    schema: LenientBackup,
    // Users can set the label, and backups of a deleted schedule of the same name have it too. Check
    // the owner reference.
    pick: (backup) => (isControlledBy(backup, uid) ? boundedBackup(backup) : undefined),
  })
}
