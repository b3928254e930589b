/** VecBackupSchedule: creates backups on a cron schedule and deletes those that the retention policy drops. */
import { Type, type Static } from '@sinclair/typebox'
import { BackupPhase, DeletionPolicy, backupContent, type BackupSpec } from './backup.ts'
import { resources } from './cluster-sections.ts'
import { MAX_SCHEDULE_NAME, RECENT_BACKUPS } from './contract/limits.ts'
import { CRON_PATTERN } from './cron.ts'
import {
  AGE_COLUMN,
  Count,
  Duration,
  maxCharacters,
  Enum,
  ObjectName,
  Quantity,
  Timestamp,
  defineResource,
  rule,
  statusFields,
} from './schema.ts'

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

const drill = Type.Object(
  {
    schedule: Type.String({
      minLength: 9,
      ...maxCharacters(256),
      description:
        'When a drill is due: cron expression of five fields, in UTC. It starts in a maintenance window of the VecCluster.',
      ...rule(
        `self.matches('${CRON_PATTERN}')`,
        'spec.drill.schedule must be a cron expression of five fields: minute, hour, day, month, weekday',
      ),
    }),
    replicas: Type.Optional(
      Count({
        maximum: 1000,
        description:
          'Number of nodes of the temporary cluster, for method Shard only; default: as many as the VecCluster has.',
      }),
    ),
    resources: Type.Optional(
      Type.Object(resources.properties, {
        description:
          'Compute resources of each pod of the temporary cluster; default: those of the VecCluster.',
      }),
    ),
    persistence: Type.Optional(
      Type.Object(
        {
          size: Type.Optional(
            Quantity({ description: 'Size of each data volume; default: that of the VecCluster.' }),
          ),
          storageClassName: Type.Optional(
            ObjectName({ description: 'Storage class; default: that of the VecCluster.' }),
          ),
        },
        { description: 'Data volumes of the temporary cluster. They are deleted with it.' },
      ),
    ),
    timeout: Duration({
      default: '6h',
      description: 'A drill that has not ended after this time has failed.',
    }),
  },
  {
    description:
      'Restore drills: the newest completed backup is restored into a temporary VecCluster, which is deleted afterwards. Default: none.',
  },
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
        'No backup is created, except the one before spec.hibernate of a VecCluster that names this schedule, and no drill runs; retention continues.',
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
    drill: Type.Optional(drill),
  },
  {
    description: 'When backups are made, of what, and which are kept.',
    ...rule(
      "!has(self.drill) || !has(self.drill.replicas) || self.method == 'Shard'",
      'spec.drill.replicas requires spec.method Shard: a backup by node is restored into as many nodes as it was made of',
    ),
  },
)

const recentBackup = Type.Object({
  name: Type.String({ description: 'Name of the VecBackup.' }),
  creationTime: Timestamp({ description: 'When it was created.' }),
  completionTime: Type.Optional(Timestamp({ description: 'When it ended.' })),
  status: Type.Optional(BackupPhase('Its phase.')),
  size: Type.Optional(Type.String({ description: 'Its size, human-readable.' })),
})

const drillRun = {
  backupName: Type.String({ description: 'The VecBackup that is restored.' }),
  slot: Timestamp({ description: 'The slot of spec.drill.schedule.' }),
  startTime: Timestamp({ description: 'When it started.' }),
}

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
  nextBackupTime: Type.Optional(
    Timestamp({
      description:
        'The next slot; absent while spec.suspend is true or the VecCluster is hibernated.',
    }),
  ),
  activeBackup: Type.Optional(Type.String({ description: 'A backup that has not ended.' })),
  recentBackups: Type.Optional(
    Type.Array(recentBackup, {
      maxItems: RECENT_BACKUPS,
      description: 'The latest backups, newest first.',
    }),
  ),
  drill: Type.Optional(
    Type.Object(
      {
        ...drillRun,
        step: Enum(['CreatingCluster', 'Restoring', 'Deleting'], {
          description: 'What happens now.',
        }),
      },
      { description: 'The restore drill that is in progress.' },
    ),
  ),
  lastDrill: Type.Optional(
    Type.Object(
      {
        ...drillRun,
        completionTime: Timestamp({ description: 'When it ended.' }),
        result: Enum(['Passed', 'Failed', 'Empty'], {
          description: 'Whether the backup was restored. Empty: it has no collections.',
        }),
        nodes: Type.Optional(Type.Integer({ description: 'Nodes it was restored into.' })),
        restoreSeconds: Type.Optional(Type.Integer({ description: 'How long the restore took.' })),
        collections: Type.Optional(Type.Integer({ description: 'Restored collections.' })),
        points: Type.Optional(
          Type.Integer({
            format: 'int64',
            description:
              'Points of all collections; absent if the VecRestore does not list all of them.',
          }),
        ),
        error: Type.Optional(Type.String({ description: 'Why it failed.' })),
      },
      { description: 'The latest restore drill that has ended.' },
    ),
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
    { name: 'Last Drill', type: 'string', jsonPath: '.status.lastDrill.result', priority: 1 },
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
