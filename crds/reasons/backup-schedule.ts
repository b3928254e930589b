/** Reasons of a VecBackupSchedule's conditions and Events. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

const READY = { type: 'Ready', status: 'True' } as const
const NOT_READY = { type: 'Ready', status: 'False' } as const

export const BACKUP_SCHEDULE_REASONS: readonly Reason[] = [
  {
    reason: 'Scheduled',
    condition: READY,
    messages: ['backups are made as scheduled'],
    cause: 'The next slot is in status.nextBackupTime.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'Suspended',
    condition: READY,
    messages: ['no backup is made while spec.suspend is true'],
    cause: 'Somebody suspended it; retention goes on.',
    fix: 'Set spec.suspend: false.',
  },
  {
    reason: 'SlotMissed',
    condition: READY,
    event: 'Warning',
    messages: [
      'the slot <time> was skipped: it was missed by more than spec.startingDeadlineSeconds',
    ],
    cause:
      'The operator was away at the slot, or a backup ran over it, for longer than the deadline.',
    fix: 'Nothing; `vec-operator backup now` makes one in between.',
  },
  {
    reason: 'BackupAlreadyActive',
    condition: READY,
    event: 'Normal',
    messages: ['the slot <time> waits for backup <name>: concurrencyPolicy is Forbid'],
    cause: 'The backup before has not ended.',
    fix: 'Wait; or look why that one takes so long. spec.concurrencyPolicy decides what happens.',
  },
  {
    reason: 'NameConflict',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['VecBackup <name> is there already and does not belong to this schedule'],
    cause: 'Somebody made a VecBackup with the name of this slot.',
    fix: 'Delete or rename it; later slots are not affected.',
  },
  {
    reason: 'InvalidSchedule',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['spec.schedule: <words of the parser>'],
    cause: 'No time fits the cron expression, such as 30 February.',
    fix: 'Change spec.schedule: five fields, in UTC.',
  },
  {
    reason: 'ClockSkew',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['the last slot <time> lies ahead of the clock; slots up to it are done'],
    cause: 'The clock of the operator was set back, or ran ahead before.',
    fix: 'Put the clock of the node right; backups go on once that time has come.',
  },
  {
    reason: 'BackupCreated',
    event: 'Normal',
    messages: ['backup <name> is made for the slot <time>'],
    cause: 'A slot was due.',
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
    cause: 'Retention, or concurrencyPolicy Replace.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'LastCopyKept',
    condition: { type: 'RetentionApplied', status: 'False' },
    event: 'Warning',
    messages: [
      'no rule of spec.retentionPolicy keeps these backups, but they are not deleted, because no newer one has what they have: <backups>. To release one, delete it by hand: kubectl delete qb/<name>',
    ],
    cause:
      'The newest backups lack collections that an older one has, or are of a cluster that was recreated: data may be lost, or somebody deleted them.',
    fix: 'Look whether the collections are missing in the cluster; restore them from that backup. Where they were deleted on purpose, delete the backup by hand.',
  },
  {
    reason: 'HistoryLarge',
    condition: { type: 'HistoryBounded', status: 'False' },
    event: 'Warning',
    messages: [
      'the backups of this schedule take more than 4 MiB of a request to the operator: above 8 MiB no more are created; set spec.retentionPolicy, or delete backups that are not needed',
    ],
    cause:
      'Without a retention rule every backup is kept, and each call of the operator shows all of them.',
    fix: 'Set spec.retentionPolicy. To keep objects without their VecBackups, annotate those with vec-operator.dev/retain-objects: "true" and delete them.',
  },
  {
    reason: 'HistoryTooLarge',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'no backup is created: the backups of this schedule take more than 8 MiB of a request to the operator; set spec.retentionPolicy, or delete backups that are not needed',
    ],
    cause: 'As HistoryLarge, which came first. Retention goes on.',
    fix: 'As HistoryLarge; the slot that was missed is made up for.',
  },
  {
    reason: 'Deleting',
    condition: NOT_READY,
    messages: ['waits until backup <name> carries <annotation or field>, or is gone'],
    cause: 'The schedule is deleted, and its backups must know first whether their objects stay.',
    fix: NOTHING_TO_DO,
  },
]
