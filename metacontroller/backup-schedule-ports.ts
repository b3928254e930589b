/** What the VecBackupSchedule room reads, by the real client: live all of it. */
import type { VecBackup } from '../crds/backup.ts'
import { VecBackupSchedule } from '../crds/backup-schedule.ts'
import { LABELS } from '../crds/names.ts'
import type { BackupSchedulePorts } from '../hooks/backup-schedule/ports.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { AdmittedBackup, commonPorts, listed, type CommonTools } from './common-ports.ts'
import { backups, schedules } from './places.ts'

export function backupSchedulePorts(tools: CommonTools): BackupSchedulePorts {
  const { kubernetes } = tools
  const { backup, writeEvent } = commonPorts(tools)
  return {
    schedule: (namespace, name) =>
      kubernetes.get(schedules(namespace), name, VecBackupSchedule.schema),
    backupsOf: ({ namespace, name, uid }) => backupsOf(kubernetes, { namespace, name, uid }),
    backup,
    writeEvent,
  }
}

async function backupsOf(
  kubernetes: Kubernetes,
  { namespace, name, uid }: { namespace: string; name: string; uid: string },
): Promise<VecBackup[]> {
  const labelled = await listed(kubernetes, [backups(namespace)], AdmittedBackup, {
    labelSelector: `${LABELS.schedule}=${name}`,
  })
  // A label is anybody's to write, and a former schedule of this name had the same.
  return labelled.filter(({ metadata: { ownerReferences = [] } }) =>
    ownerReferences.some((owner) => owner.controller === true && owner.uid === uid),
  )
}
