/** VecBackupSchedule: creates backups on a cron schedule and deletes those that the retention policy drops. */
import { Type, type Static } from '@sinclair/typebox'
import { BackupPhase, DeletionPolicy, backupContent, type BackupSpec } from './backup.ts'
import { MAX_SCHEDULE_NAME, RECENT_BACKUPS } from './contract/limits.ts'
import {
  AGE_COLUMN,
  Count,
  maxCharacters,
  Enum,
  Timestamp,
  defineResource,
  rule,
  statusFields,
} from './schema.ts'

/** One field of a cron expression: values, ranges and steps, separated by commas. */
function cronField(value: string): string {
  const item = `([*]|(${value})(-(${value}))?)(/[1-9][0-9]?)?`
  return `${item}(,${item})*`
}

const MONTHS = 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec'
const DAYS = 'sun|mon|tue|wed|thu|fri|sat'

/** The shape of a five-field cron expression. A date that never occurs, such as 30 February, is reported in a condition. */
export const CRON_PATTERN = `^(?i:${[
  cronField('[0-5]?[0-9]'),
  cronField('[01]?[0-9]|2[0-3]'),
  cronField('0?[1-9]|[12][0-9]|3[01]'),
  cronField(`0?[1-9]|1[0-2]|${MONTHS}`),
  cronField(`[0-7]|${DAYS}`),
].join('[ ]+')})$`

function keepCount(description: string) {
  return Type.Optional(Count({ maximum: 100_000, description }))
}

const retentionPolicy = Type.Object(
  {
    keepLast: keepCount('So many of the newest finished backups are kept.'),
    keepDaily: keepCount('The newest backup of each of so many days that have one is kept.'),
    keepWeekly: keepCount('The newest backup of each of so many ISO weeks that have one is kept.'),
    keepMonthly: keepCount('The newest backup of each of so many months that have one is kept.'),
  },
  { description: 'Which finished backups are kept; default: all. The newest completed one stays.' },
)

const spec = Type.Object(
  {
    schedule: Type.String({
      minLength: 9,
      ...maxCharacters(256),
      description: 'Cron expression of five fields, in UTC: minute, hour, day, month, weekday.',
      ...rule(
        `self.matches('${CRON_PATTERN}')`,
        'spec.schedule must be a cron expression of five fields: minute, hour, day, month, weekday',
      ),
    }),
    ...backupContent,
    suspend: Type.Boolean({
      default: false,
      description:
        'No backup is created, except the one before spec.hibernate of a VecCluster that names this schedule; retention continues.',
    }),
    concurrencyPolicy: Enum(['Allow', 'Forbid', 'Replace'], {
      default: 'Forbid',
      description: 'What happens at a slot while a backup of this schedule runs.',
    }),
    startingDeadlineSeconds: Type.Optional(
      Count({ description: 'A missed slot older than this is skipped; default: none is.' }),
    ),
    retentionPolicy: Type.Optional(retentionPolicy),
    deletionPolicy: DeletionPolicy(
      'What deleting this schedule, or one of its backups, does to the objects in the bucket; its backups get it, also those that are there. Absent means Delete, but deleting the namespace deletes objects only where Delete is set. Retention deletes objects in any case.',
    ),
  },
  { description: 'When backups are made, of what, and which are kept.' },
)

const recentBackup = Type.Object({
  name: Type.String({ description: 'Name of the VecBackup.' }),
  creationTime: Timestamp({ description: 'When it was created.' }),
  completionTime: Type.Optional(Timestamp({ description: 'When it ended.' })),
  status: Type.Optional(BackupPhase('Its phase.')),
  size: Type.Optional(Type.String({ description: 'Its size, human-readable.' })),
})

const status = Type.Object({
  phase: Type.Optional(
    Enum(['Active', 'Suspended'], { description: 'Whether backups are being made.' }),
  ),
  lastScheduleTime: Type.Optional(
    Timestamp({ description: 'The slot the latest backup was created for.' }),
  ),
  lastBackupName: Type.Optional(Type.String({ description: 'The newest finished backup.' })),
  lastBackupTime: Type.Optional(Timestamp({ description: 'When that one ended.' })),
  lastBackupStatus: Type.Optional(BackupPhase('The phase of that one.')),
  nextBackupTime: Type.Optional(Timestamp({ description: 'The next slot.' })),
  activeBackup: Type.Optional(Type.String({ description: 'A backup that has not ended.' })),
  recentBackups: Type.Optional(
    Type.Array(recentBackup, {
      maxItems: RECENT_BACKUPS,
      description: 'The latest backups, newest first.',
    }),
  ),
  ...statusFields,
})

export const VecBackupSchedule = defineResource({
  kind: 'VecBackupSchedule',
  plural: 'vecbackupschedules',
  singular: 'vecbackupschedule',
  shortName: 'qbs',
  description: 'Backups on a cron schedule, with retention by count, day, week and month.',
  spec,
  status,
  columns: [
    { name: 'Schedule', type: 'string', jsonPath: '.spec.schedule' },
    { name: 'Cluster', type: 'string', jsonPath: '.spec.clusterRef.name' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Last Backup', type: 'date', jsonPath: '.status.lastBackupTime' },
    AGE_COLUMN,
  ],
  rules: rule(
    `self.metadata.name.size() <= ${MAX_SCHEDULE_NAME}`,
    `metadata.name must have at most ${MAX_SCHEDULE_NAME} characters: names of backups are made from it`,
  ),
})
export type VecBackupSchedule = Static<typeof VecBackupSchedule.schema>
export type BackupScheduleSpec = VecBackupSchedule['spec']
export type BackupScheduleStatus = NonNullable<VecBackupSchedule['status']>

/** The spec of each backup that a schedule creates. */
export function scheduledBackupSpec({ spec }: VecBackupSchedule): BackupSpec {
  const { clusterRef, storage, collections, method, parallelism, deletionPolicy } = spec
  return {
    clusterRef,
    storage,
    ...(collections !== undefined && { collections }),
    method,
    parallelism,
    ...(deletionPolicy !== undefined && { deletionPolicy }),
  }
}
