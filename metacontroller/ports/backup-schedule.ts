/** Implements the ports of VecBackupSchedule with the real clients. All reads are live. */
import type { VecBackup } from '../../crds/backup.ts'
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { BackupSchedulePorts } from '../../hooks/backup-schedule/observe.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { LenientBackup, commonPorts, listOrEmpty, type CommonDependencies } from './common.ts'
import { backups, backupSchedules } from './api-resources.ts'

export function backupSchedulePorts(dependencies: CommonDependencies): BackupSchedulePorts {
  const { kubernetes } = dependencies
  const { backup, writeEvent } = commonPorts(dependencies)
  return {
    schedule: (namespace, name) =>
      kubernetes.get(backupSchedules(namespace), name, VecBackupSchedule.schema),
    backupsOf: ({ namespace, name, uid }) => listBackups(kubernetes, { namespace, name, uid }),
    backup,
    writeEvent,
  }
}

async function listBackups(
  kubernetes: Kubernetes,
  { namespace, name, uid }: { namespace: string; name: string; uid: string },
): Promise<VecBackup[]> {
  const labeled = await listOrEmpty(kubernetes, [backups(namespace)], LenientBackup, {
    labelSelector: `${LABELS.schedule}=${name}`,
  })
  // Users can set the label, and backups of a deleted schedule of the same name have it too. Check
  // the owner reference.
  return labeled.filter(({ metadata: { ownerReferences = [] } }) =>
    ownerReferences.some((owner) => owner.controller === true && owner.uid === uid),
  )
}
