/** What the VecBackupSchedule room needs from outside; metacontroller/ports.ts implements it. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'

/** Read live all of them: Metacontroller's cache may lag, and a decision to make or delete must not. */
export interface BackupSchedulePorts {
  /** The resource itself; undefined when it is gone. */
  schedule(namespace: string, name: string): Promise<VecBackupSchedule | undefined>
  /** The VecBackups with the schedule's label whose controller is this very uid. */
  backupsOf(schedule: { namespace: string; name: string; uid: string }): Promise<VecBackup[]>
  /** One VecBackup, whoever made it; undefined when there is none. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
