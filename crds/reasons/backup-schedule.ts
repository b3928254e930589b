/** Reasons of a VecBackupSchedule's conditions and Events. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

const READY = { type: 'Ready', status: 'True' } as const
const NOT_READY = { type: 'Ready', status: 'False' } as const
const NOT_TESTED = { type: 'RestoreTested', status: 'Unknown' } as const
const NOT_RESTORED = { type: 'RestoreTested', status: 'False' } as const

export const BACKUP_SCHEDULE_REASONS: readonly Reason[] = [
  {
    reason: 'Scheduled',
    condition: READY,
    messages: ['backups are created as scheduled'],
    cause: 'The next slot is in status.nextBackupTime.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'Suspended',
    condition: READY,
    messages: ['no backup is created while spec.suspend is true'],
    cause:
      'A user suspended the schedule. Retention continues. status.nextBackupTime is absent meanwhile.',
    fix: 'Set spec.suspend: false.',
  },
  {
    reason: 'ClusterHibernated',
    condition: READY,
    messages: [
      'no backup is created: cluster <namespace>/<name> is hibernated: no pods run until its spec.hibernate is false',
      'no backup is created: cluster <namespace>/<name> hibernates after backup <name>',
    ],
    cause:
      'spec.hibernate of the VecCluster is true. Retention continues. A slot that becomes due before the pods are stopped waits for an hour after the backup that the cluster has requested.',
    fix: 'Set spec.hibernate: false in the VecCluster. A backup for the latest missed slot is then created, unless spec.startingDeadlineSeconds has passed.',
  },
  {
    reason: 'SlotMissed',
    condition: READY,
    event: 'Warning',
    messages: [
      'the slot <time> was skipped: it was missed by more than spec.startingDeadlineSeconds',
    ],
    cause:
      'At the slot, the operator was not running or another backup was active, for longer than the deadline.',
    fix: 'Nothing. To create a backup before the next slot, run `vec-operator backup now`.',
  },
  {
    reason: 'BackupAlreadyActive',
    condition: READY,
    event: 'Normal',
    messages: [
      'the slot <time> waits for backup <name>: concurrencyPolicy is Forbid',
      'the slot <time> waits for backup <name>: cluster <name> waits for it before it hibernates',
    ],
    cause:
      'The previous backup has not finished, or a cluster waits for it before its pods are stopped.',
    fix: 'Wait until it has finished, or check why it takes so long. To start backups in parallel or to replace the active one, change spec.concurrencyPolicy.',
  },
  {
    reason: 'NameConflict',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['VecBackup <name> already exists and does not belong to this schedule'],
    cause: 'A VecBackup with the name of this slot exists, and the schedule did not create it.',
    fix: 'Delete that VecBackup. Later slots are not affected.',
  },
  {
    reason: 'BackupNotCreated',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'VecBackup <name> could not be created: kubectl describe vecbackupschedule <name> -n <namespace> shows the cause in an Event, such as a quota or an admission webhook',
    ],
    cause: 'The API server refuses the VecBackup of a slot that is due.',
    fix: 'Fix the cause in the Event. The backup of the latest slot is then created automatically.',
  },
  {
    reason: 'InvalidSchedule',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['spec.schedule: <error of the parser>'],
    cause: 'The cron expression is invalid or matches no time, for example 30 February.',
    fix: 'Set spec.schedule to five fields, in UTC.',
  },
  {
    reason: 'ClockSkew',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'the last slot <time> is ahead of the clock; no backup is created until then',
      'the last slot <time> is ahead of the clock; no backup is created until then, or until VecBackup <name> is deleted',
    ],
    cause: 'The clock of the operator was set back, or was ahead before.',
    fix: 'Correct the clock of the node. Backups continue after the last slot, or, if that is more than a day ahead, once its VecBackup is deleted.',
  },
  {
    reason: 'BackupCreated',
    event: 'Normal',
    messages: [
      'backup <name> is created for the slot <time>',
      'backup <name> is created before cluster <name> hibernates',
    ],
    cause:
      'A slot was due; or spec.hibernation of the VecCluster names this schedule, and its pods are stopped once this backup is Completed.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'BackupDropped',
    event: 'Normal',
    messages: [
      'backup <name> is deleted: no rule of spec.retentionPolicy keeps it',
      'backup <name> is deleted: replaced at the slot <time>',
      '<n> backups are deleted, <names>: no rule of spec.retentionPolicy keeps it',
    ],
    cause: 'Retention, or spec.concurrencyPolicy Replace, deleted it.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'LastCopyKept',
    condition: { type: 'RetentionApplied', status: 'False' },
    event: 'Warning',
    messages: [
      'no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: <backups>; to delete one: kubectl delete qb/<name>',
      'no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: <backups>; to delete one: kubectl delete qb/<name>; others are deleted after the restores that name them: <backups and restores>',
    ],
    cause:
      'The newest backups do not have collections that an older one has, or have them without points, or are of a cluster that was recreated. The collections may be lost, or a user deleted them.',
    fix: 'Check whether the collections are missing in the cluster, or empty, and restore them from that backup. If they were deleted or emptied intentionally, delete the backup with kubectl.',
  },
  {
    reason: 'NeededByRestore',
    condition: { type: 'RetentionApplied', status: 'False' },
    event: 'Normal',
    messages: [
      'no rule of spec.retentionPolicy keeps these backups; they are deleted after the restores that name them: <backups and restores>',
    ],
    cause:
      'VecRestores that have not ended, or the restore drill of this schedule, name backups that no rule keeps.',
    fix: 'Nothing. If a VecRestore does not end, its condition Complete says what it waits for; delete it if it is not needed.',
  },
  {
    reason: 'HistoryLarge',
    condition: { type: 'HistoryBounded', status: 'False' },
    event: 'Warning',
    messages: [
      'the backups of this schedule take more than 4 MiB of a request to the operator: above 8 MiB no more are created; set spec.retentionPolicy, or delete backups that are not needed',
    ],
    cause:
      'Without a retention rule every backup is retained, and each request to the operator has all of them.',
    fix: 'Set spec.retentionPolicy. To keep objects without their VecBackups, annotate those with vec-operator.dev/retain-objects: "true" and delete them.',
  },
  {
    reason: 'HistoryTooLarge',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'no backup is created: the backups of this schedule take more than 8 MiB of a request to the operator; set spec.retentionPolicy, or delete backups that are not needed',
    ],
    cause: 'See HistoryLarge, which precedes it. Retention continues.',
    fix: 'See HistoryLarge. The missed slot gets its backup afterwards.',
  },
  {
    reason: 'DrillStarted',
    event: 'Normal',
    messages: ['the restore drill of backup <name> for the slot <time> has started'],
    cause: 'A slot of spec.drill.schedule was due. status.drill shows the step.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'DrillPending',
    condition: NOT_TESTED,
    messages: [
      'no restore drill has ended yet',
      'no drill starts while spec.suspend is true',
      'the drill of <time> waits: cluster <namespace>/<name> not found',
      'the drill of <time> waits: cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster',
      'the drill of <time> waits for the maintenance window that begins at <time>',
      'the drill of <time> waits for a valid maintenance window',
      'the drill of <time> waits for a completed backup of this schedule',
    ],
    cause:
      'No drill has ended. After the first one the condition has its result, and what the next one waits for at the end of the message.',
    fix: 'Nothing, or provide what the message names.',
  },
  {
    reason: 'DrillRunning',
    condition: NOT_TESTED,
    messages: [
      'VecCluster <name> is being created for backup <name>',
      'backup <name> is being restored into VecCluster <name>',
    ],
    cause: 'The first drill is in progress.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'DrillPassed',
    condition: { type: 'RestoreTested', status: 'True' },
    event: 'Normal',
    messages: [
      'backup <name> was restored into a new cluster in <n> s, and its VecRestore was Completed (nodes: <n>, collections: <n>, points: <n>)',
      'backup <name> was restored into a new cluster in <n> s, and its VecRestore was Completed (nodes: <n>, collections: <n>)',
    ],
    cause:
      'The latest drill has restored this backup. Numbers were compared, not the values of points.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'DrillEmpty',
    condition: NOT_TESTED,
    event: 'Normal',
    messages: ['backup <name> has no collections: its restore drill has proved nothing'],
    cause:
      'The cluster had no collections when it was backed up. The drill has shown only that a cluster is created and the manifest is read.',
    fix: 'Nothing, if the cluster is meant to be empty. The next drill replaces the result.',
  },
  {
    reason: 'DrillFailed',
    condition: NOT_RESTORED,
    event: 'Warning',
    messages: [
      'the restore drill of backup <name> failed: <error of the VecRestore>',
      'the restore drill of backup <name> failed: the backup has <n> collections, but <n> were restored',
      'the restore drill of backup <name> failed: not ended within <timeout>: VecCluster <name> is not Ready: <messages of its conditions>',
      'the restore drill of backup <name> failed: not ended within <timeout>: VecCluster <name> does not exist',
      'the restore drill of backup <name> failed: not ended within <timeout>: VecRestore <name> is <phase>: <message of its condition Complete>',
    ],
    cause:
      'The backup could not be restored, or the temporary cluster did not become Ready in time, for example without quota or free Kubernetes nodes.',
    fix: 'An error of the VecRestore: see the table of errors in docs/kinds/restore.md, and check the bucket with `vec-operator backup verify`. A timeout: provide the capacity, or set smaller spec.drill.resources or a longer spec.drill.timeout. The next drill replaces the result.',
  },
  {
    reason: 'DrillCanceled',
    event: 'Normal',
    messages: [
      'the restore drill of backup <name> is canceled: spec.suspend is true',
      'the restore drill of backup <name> is canceled: spec.drill was removed',
    ],
    cause: 'A user has changed the schedule. The objects of the drill are deleted.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'InvalidDrill',
    condition: NOT_RESTORED,
    event: 'Warning',
    messages: [
      'spec.drill.schedule: <error of the parser>',
      'spec.drill.replicas is <n>, but backup <name> is by node and fits only as many nodes as it was made of: remove the field, or wait for a backup with spec.method Shard',
    ],
    cause: 'The drill cannot run with these fields.',
    fix: 'Correct the field.',
  },
  {
    reason: 'DrillNameConflict',
    condition: NOT_RESTORED,
    event: 'Warning',
    messages: [
      'VecCluster <name> already exists and does not belong to this schedule',
      'VecRestore <name> already exists and does not belong to this schedule',
    ],
    cause: 'The temporary objects have fixed names, and another object has one. It is not changed.',
    fix: 'Rename or delete that object, or create the schedule under another name.',
  },
  {
    reason: 'Deleting',
    condition: NOT_READY,
    messages: [
      'waiting until backup <name> has <annotation or field> or is deleted',
      'waiting until the objects of restore drill <name> are deleted',
    ],
    cause:
      'The schedule is being deleted. Before that, a restore drill is ended, and each of its backups must have the policy that decides whether its objects are retained.',
    fix: NOTHING_TO_DO,
  },
]
