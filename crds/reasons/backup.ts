/** Reasons of a VecBackup's conditions and Events. */
import { dataJobReasons, NOT_COMPLETE, NOTHING_TO_DO, type Reason } from './reason.ts'

const NOT_PURGED = { type: 'Purged', status: 'False' } as const

export const BACKUP_REASONS: readonly Reason[] = [
  {
    reason: 'BackupCompleted',
    condition: { type: 'Complete', status: 'True' },
    event: 'Normal',
    messages: ['Backed up <n>/<n> collections', 'Backed up <n>/<n> collections, <size> in <place>'],
    cause: 'Every collection is in the bucket, and its manifest.',
    fix: 'Nothing; `vec-operator backup verify` reads it back.',
  },
  {
    reason: 'BackupFailed',
    condition: NOT_COMPLETE,
    event: 'Warning',
    messages: [
      'Backed up <n>/<n> collections',
      'Backed up <n>/<n> collections: <error>',
      'Job crashed <n> times',
      'prefix holds another backup<whose>: s3://<bucket>/<folder>',
      's3://<bucket>/<folder> is inside the folder of another backup (<owner>, s3://<bucket>/<folder>): use another prefix or name',
      's3://<bucket>/<folder> contains the folder of another backup (<owner>, s3://<bucket>/<folder>): use another prefix or name',
      'there is no collection <name>: it was deleted, or is an alias',
      'collection <name> was deleted during the backup',
    ],
    cause:
      'At least one collection could not be backed up; status.error has the first error, status.collections all.',
    fix: 'Mend what status.error names and make another VecBackup: this one is not tried again.',
  },
  {
    reason: 'BackupStarted',
    event: 'Normal',
    messages: ['the backup is written to s3://<bucket>/<folder>'],
    cause: 'The Job has reported that it works.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'BackupRunning',
    condition: NOT_COMPLETE,
    messages: ['the backup has started', 'collection <n> of <n> (<name>)<how far it is>'],
    cause: 'The Job works; its message tells how far it is.',
    fix: 'Nothing; `kubectl logs job/<name>` has each step.',
  },
  {
    reason: 'BackupStarting',
    condition: NOT_COMPLETE,
    messages: [
      'the Job was just made',
      'Metacontroller does not show Job <name>: it lost its label controller-uid. Set it again (kubectl label job <name> -n <namespace> controller-uid=<uid>), or delete the Job',
      'the rights of the Job are being made',
      'the Lease of the cluster is being taken',
      'Job <name> was started',
      'Job <name> is starting',
    ],
    cause: 'Everything is there, and the Job is on its way.',
    fix: 'Nothing; when it stays, look at the pods and Events of the Job.',
  },
  ...dataJobReasons({ kind: 'VecBackup', noun: 'backup', clusterField: 'spec.clusterRef' }),
  {
    reason: 'StoppingJob',
    condition: NOT_PURGED,
    messages: ['waits for the Job to stop'],
    cause: 'The backup is deleted while its Job works.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'WaitingForRestore',
    condition: NOT_PURGED,
    messages: [
      'waits for <kind> <namespace>/<name>',
      'waits for VecRestore <namespace>/<name>, which recorded in the bucket that it reads s3://<bucket>/<folder>: until <time> unless it renews that',
    ],
    cause: 'A restore reads these objects at this moment, here or from another Kubernetes cluster.',
    fix: 'Wait for it to end, or delete it. What one recorded that was killed counts for 30 minutes.',
  },
  {
    reason: 'OtherObjectsKept',
    event: 'Warning',
    messages: [
      's3://<bucket>/<folder>: <n> objects that this backup did not write stay, such as s3://<bucket>/<key>',
    ],
    cause:
      'The backup was deleted, and its folder holds objects of others: of another backup inside it, or files that somebody put there.',
    fix: 'Look at them; delete those that nobody needs with a tool of the store.',
  },
  {
    reason: 'Purging',
    condition: NOT_PURGED,
    messages: [
      's3://<bucket>/<folder> is being emptied',
      's3://<bucket>/<folder> is being emptied, <n> objects are left',
    ],
    cause: 'The backup is deleted, and its objects with it.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ClockAhead',
    event: 'Warning',
    messages: [
      'spec.retentionDays have passed by the clock of the operator, but not by that of the API server: nothing is deleted; set the clock of the node that the operator runs on',
    ],
    cause:
      'The clock of the node with the operator is ahead, such as after a start without a time server.',
    fix: 'Set that clock; the backup is deleted once the API server says that its time has come.',
  },
  {
    reason: 'PurgeFailed',
    condition: NOT_PURGED,
    event: 'Warning',
    messages: [
      's3://<bucket>/<folder>: <error> (vec-operator.dev/retain-objects: "true" leaves the objects)',
    ],
    cause:
      'The store refuses to delete or does not answer; an internal error is a defect of the operator, with its stack in the log.',
    fix: 'Mend what it names; or set that annotation, and the resource goes without its objects.',
  },
  {
    reason: 'RetentionDaysPassed',
    condition: { type: 'Expired', status: 'True' },
    messages: ['spec.retentionDays have passed since it completed: it is deleted with its objects'],
    cause: 'The backup is as old as spec.retentionDays says.',
    fix: 'Nothing; the annotation vec-operator.dev/retain-objects: "true" keeps the objects.',
  },
  {
    reason: 'ObjectsRetained',
    event: 'Warning',
    messages: [
      'namespace <namespace> is deleted and spec.deletionPolicy is not Delete: the objects in s3://<bucket>/<folder> stay',
    ],
    cause:
      'The namespace was deleted. That empties a bucket only where spec.deletionPolicy: Delete was set explicitly.',
    fix: 'Nothing; or delete the objects with a tool of the store.',
  },
  {
    reason: 'PurgeTimedOut',
    event: 'Warning',
    messages: [
      'namespace <namespace> ends and s3://<bucket>/<folder> was not emptied in 600 s: what is left there stays',
    ],
    cause: 'The namespace was deleted, and the store did not answer in time.',
    fix: 'Delete what is left with a tool of the store.',
  },
  {
    reason: 'CredentialsMissing',
    event: 'Warning',
    messages: ['Secret <namespace>/<name> not found: the objects in s3://<bucket>/<folder> stay'],
    cause: 'The Secret was deleted before the backup.',
    fix: 'Delete the objects with a tool of the store.',
  },
]
