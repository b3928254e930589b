/** Reasons of a VecBackup's conditions and Events, and the texts of its `status.error`. */
import {
  JOB_CRASHED,
  dataJobReasons,
  NOT_COMPLETE,
  NOTHING_TO_DO,
  type Reason,
  type KnownFailure,
  STOPPING_JOB,
} from './reason.ts'

const NOT_PURGED = { type: 'Purged', status: 'False' } as const

export const BACKUP_REASONS: readonly Reason[] = [
  {
    reason: 'BackupCompleted',
    condition: { type: 'Complete', status: 'True' },
    event: 'Normal',
    messages: [
      'Backed up <n>/<n> collections',
      'Backed up <n>/<n> collections, <size> in <place>',
      'Backed up <n>/<n> collections; collection <name> was deleted during the backup and is not in it',
      'Backed up <n>/<n> collections; collections <names> were deleted during the backup and are not in it',
    ],
    cause:
      'Every collection and the manifest are in the bucket. Notes follow: what clients deleted or changed during the backup, replicas that differ, snapshots that remain on nodes.',
    fix: 'Nothing. `vec-operator backup verify` checks the objects in the bucket. If a collection was not deleted intentionally, an earlier backup has it.',
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
      'collection <name> was deleted and recreated <n> times while it was backed up',
      's3://<bucket>/<key> was deleted or replaced during the backup',
    ],
    cause:
      'At least one collection could not be backed up. status.error has the first error, status.collections has all of them.',
    fix: 'Fix the cause in status.error and create another VecBackup. This one is not retried.',
  },
  {
    reason: 'BackupStarted',
    event: 'Normal',
    messages: ['writing the backup to s3://<bucket>/<folder>'],
    cause: 'The Job has sent its first report.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'BackupRunning',
    condition: NOT_COMPLETE,
    messages: ['the backup has started', 'collection <n> of <n> (<name>)<how far it is>'],
    cause: 'The Job is running; the message shows its progress.',
    fix: 'Nothing. `kubectl logs job/<name>` shows each step.',
  },
  {
    reason: 'BackupStarting',
    condition: NOT_COMPLETE,
    messages: [
      'the Job was just created',
      'Metacontroller does not list Job <name> because it lost its label controller-uid; set the label (kubectl label job <name> -n <namespace> controller-uid=<uid>) or delete the Job',
      'creating ServiceAccount, Role and RoleBinding for the Job',
      'acquiring the Lease of the cluster',
      'creating Job <name>',
      'Job <name> is starting',
      STOPPING_JOB.message,
    ],
    cause: 'Nothing blocks the backup, and its Job is being created.',
    fix: 'Nothing. If it stays in this state, check the pods and Events of the Job.',
  },
  ...dataJobReasons({ kind: 'VecBackup', noun: 'backup', clusterField: 'spec.clusterRef' }),
  {
    reason: 'StoppingJob',
    condition: NOT_PURGED,
    messages: [STOPPING_JOB.message],
    cause: 'The backup is being deleted while its Job is running.',
    fix: STOPPING_JOB.fix,
  },
  {
    reason: 'WaitingForRestore',
    condition: NOT_PURGED,
    messages: [
      'waiting for <kind> <namespace>/<name>',
      'waiting for VecRestore <namespace>/<name>, which recorded in the bucket that it reads s3://<bucket>/<folder>; the record expires at <time> unless the restore renews it',
      'waiting for VecRestore <namespace>/<name>, which recorded in the bucket that it reads the backup; the record expires at <time> unless the restore renews it',
    ],
    cause: 'A restore in this or another Kubernetes cluster is reading these objects.',
    fix: 'Wait until the restore has finished, or delete it. The record of a restore that was killed expires after 30 minutes.',
  },
  {
    reason: 'OtherObjectsKept',
    event: 'Warning',
    messages: [
      's3://<bucket>/<folder>: <n> objects that this backup did not write were not deleted, such as s3://<bucket>/<key>',
    ],
    cause:
      'The backup was deleted, but its folder has objects that it did not write: another backup inside the folder, or files that a user put there.',
    fix: 'Check the objects and delete those that are not needed with a tool of the store.',
  },
  {
    reason: 'Purging',
    condition: NOT_PURGED,
    messages: [
      'deleting the objects in s3://<bucket>/<folder>',
      'deleting the objects in s3://<bucket>/<folder>; <n> objects remain',
      'creating Role and RoleBinding of the purge Job',
      'Job <name> is deleting the objects in s3://<bucket>/<folder>',
      'Job <name> is deleting the objects in s3://<bucket>/<folder>; <n> objects remain',
      'creating Job <name>',
    ],
    cause: 'The backup is being deleted, and its objects with it.',
    fix: 'Nothing. If a Job that deletes them does not start, the reason is JobNotStarted.',
  },
  {
    reason: 'ClockAhead',
    event: 'Warning',
    messages: [
      'spec.retentionDays have passed by the clock of the operator, but not by that of the API server; nothing is deleted: correct the clock of the node that the operator runs on',
    ],
    cause:
      'The clock of the node that the operator runs on is ahead, for example because it has no time server.',
    fix: 'Correct the clock of the node. The backup is deleted once it has expired by the clock of the API server.',
  },
  {
    reason: 'PurgeFailed',
    condition: NOT_PURGED,
    event: 'Warning',
    messages: [
      's3://<bucket>/<folder>: <error> (set the annotation vec-operator.dev/retain-objects: "true" to retain the objects)',
      's3://<bucket>/<folder>: Job <name> ended without a report: check the logs and Events of its pods (set the annotation vec-operator.dev/retain-objects: "true" to retain the objects)',
    ],
    cause:
      'The store rejects the deletion or does not answer. An internal error is a defect of the operator; its log has the stack.',
    fix: 'Fix the cause, or set the annotation: the resource is then deleted and its objects are retained.',
  },
  {
    reason: 'NeededByRestore',
    condition: { type: 'Expired', status: 'False' },
    event: 'Normal',
    messages: [
      'spec.retentionDays have passed; the backup is deleted after the restores that name it: <restores>',
    ],
    cause: 'VecRestores that have not ended name the backup, by backupRef or by source.',
    fix: 'Nothing. If a VecRestore does not end, its condition Complete says what it waits for; delete it if it is not needed.',
  },
  {
    reason: 'RetentionDaysPassed',
    condition: { type: 'Expired', status: 'True' },
    messages: [
      'spec.retentionDays have passed since the backup completed; it is deleted with its objects',
    ],
    cause: 'The backup has reached the age in spec.retentionDays.',
    fix: 'Nothing. The annotation vec-operator.dev/retain-objects: "true" retains the objects.',
  },
  {
    reason: 'ObjectsRetained',
    event: 'Warning',
    messages: [
      'namespace <namespace> is being deleted and spec.deletionPolicy is not Delete; the objects in s3://<bucket>/<folder> are retained',
      'namespace <namespace> is being deleted, so that no Job of ServiceAccount <name> can be created; the objects in s3://<bucket>/<folder> were not deleted',
    ],
    cause:
      'The namespace was deleted. Its deletion deletes objects only if spec.deletionPolicy is explicitly set to Delete, and the bucket is accessed with a Secret: no Job can be created any more.',
    fix: 'Nothing, or delete the objects with a tool of the store.',
  },
  {
    reason: 'PurgeTimedOut',
    event: 'Warning',
    messages: [
      'namespace <namespace> is terminating and s3://<bucket>/<folder> could not be emptied within 600 s; the remaining objects were not deleted',
    ],
    cause: 'The namespace was deleted, and the store did not answer in time.',
    fix: 'Delete the remaining objects with a tool of the store.',
  },
  {
    reason: 'CredentialsMissing',
    event: 'Warning',
    messages: [
      'ServiceAccount <namespace>/<name> not found; the objects in s3://<bucket>/<folder> were not deleted',
      'Secret <namespace>/<name> not found; the objects in s3://<bucket>/<folder> were not deleted',
      'namespace <namespace> is being deleted and its <kind> <name> was deleted first; the remaining objects in s3://<bucket>/<folder> were not deleted',
    ],
    cause:
      'The Secret or the ServiceAccount was deleted before the backup. In a namespace that is being deleted, Kubernetes deletes Secrets, ConfigMaps and VecBackups in any order.',
    fix: 'Delete the objects with a tool of the store.',
  },
]

/** Texts of `status.error`. */
export const BACKUP_FAILURES: readonly KnownFailure[] = [
  {
    patterns: ['403 ...', 'check the credentials, the bucket policy, ...'],
    cause: 'the store does not know the key, or denies access',
    fix: 'correct the keys in the Secret; allow list, read, write and delete below the prefix',
  },
  {
    patterns: ['gives its pods no cloud identity', 'no credentials for ServiceAccount ...'],
    cause: 'the ServiceAccount has no identity, or the cloud does not accept it',
    fix: 'check its annotation or Pod Identity association, and the trust policy of the role ([object stores](../object-stores.md#identities-of-serviceaccounts))',
  },
  {
    patterns: ['manifest.json of n collections would have ...'],
    cause: 'the backup has more collections or shards than the Job of a restore can read',
    fix: 'several VecBackups, each with some of the collections in `spec.collections`',
  },
  {
    patterns: ['RequestTimeTooSkewed', 'compare the clock ...'],
    cause:
      'a call had the wrong time several times, although it was corrected by that of the store',
    fix: 'correct the clock of the Kubernetes node, or of the store',
  },
  {
    patterns: ['NoSuchBucket'],
    cause: 'the endpoint has no bucket with this name',
    fix: 'create the bucket, or correct `endpoint` and `forcePathStyle`',
  },
  {
    patterns: ['the bucket is in region ...', 'AuthorizationHeaderMalformed'],
    cause: '`region` is not the region of the bucket',
    fix: 'correct `region`',
  },
  {
    patterns: ['the store is full'],
    cause: 'the storage of the bucket is full',
    fix: 'free space or raise the quota',
  },
  {
    patterns: ['trust its authority by caSecretRef', 'has no valid certificate'],
    cause: 'the store, or the token service of an identity, has a private certificate authority',
    fix: 'name it in `caSecretRef` or `caConfigMapRef` of the bucket ([object stores](../object-stores.md#private-certificate-authorities))',
  },
  {
    patterns: ['got no answer'],
    cause: 'the store is unreachable',
    fix: 'check network policies',
  },
  {
    patterns: ['prefix holds another backup'],
    cause: 'the prefix has objects of another client',
    fix: 'use another name or prefix',
  },
  {
    patterns: ['is inside the folder of', 'contains the folder of another backup'],
    cause: 'the prefix of one backup is the folder of another',
    fix: 'use another name or prefix',
  },
  {
    patterns: ['there is no collection ...'],
    cause: '`collections` names a missing collection, or an alias',
    fix: 'name the collection itself',
  },
  {
    patterns: ['collection ... was deleted during the backup'],
    cause:
      '`collections` names a collection that a client deleted, or every collection was deleted; or the nodes do not agree on it, then the message says which node lists what',
    fix: 'do not name collections that are deleted; repair the node that lists others',
  },
  {
    patterns: ['was deleted and recreated 3 times'],
    cause: 'a client recreates the collection again and again',
    fix: 'back it up while no client recreates it',
  },
  {
    patterns: ['... was deleted or replaced during the backup'],
    cause:
      'a rule of the bucket or another client deleted an object before the manifest was written',
    fix: 'exclude the folder from the rule, and create another VecBackup',
  },
  {
    patterns: ['shard ... on node ... is Dead', 'is being transferred'],
    cause: 'a replica did not become Active in time',
    fix: 'repair the cluster first: a restore would recover the broken replica',
  },
  {
    patterns: ['needs parts of ...', 'stores take 5 TiB as one object'],
    cause: 'the snapshot is larger than the Job, or any store, can handle',
    fix: 'follow the message',
  },
  {
    patterns: ['no space left', 'enable snapshotPersistence or grow the data volume'],
    cause: 'the snapshot does not fit on the node',
    fix: 'use `method: Shard`, or raise `persistence.size`',
  },
  {
    patterns: ['has the SHA-256 ..., but the engine reported ...'],
    cause: 'the data was corrupted in transit',
    fix: 'check the disk and memory of the node',
  },
  {
    patterns: ['stream of shard ... ended early', 'broke off'],
    cause: 'three retries failed as well',
    fix: 'check the log of that pod; for `took nothing for ... s`, the speed of the store',
  },
  {
    patterns: ['did not stay Active until the end of its stream', 'was no longer Active before'],
    cause: 'writes to that replica failed, four times',
    fix: 'repair the cluster first',
  },
  {
    patterns: ['... may have points of another one: the number of shards is being changed'],
    cause: 'another client changes the number of shards',
    fix: 'create another VecBackup once that has ended',
  },
  {
    patterns: ['the nodes do not see one cluster', 'do not list the same collections'],
    cause: 'a node lost its volume or its connection to the others, and forms a separate cluster',
    fix: 'repair the cluster first: a backup of one part would not contain the data of the others',
  },
  {
    patterns: ['knows of no leader', 'follow different leaders', 'consensus is ... on node'],
    cause: 'the nodes have lost consensus',
    fix: 'check the logs of the pods and the network between them; restart the named pod',
  },
  {
    patterns: ['has not applied ... of the changes'],
    cause: 'a node is behind the others: its configuration and its snapshot may be former ones',
    fix: 'see the condition `Consensus` of the VecCluster; restart the named pod if it stays behind',
  },
  {
    patterns: ['the nodes do not hold the same collection'],
    cause: 'a node did not apply that the collection was deleted and recreated',
    fix: 'repair that node, as after the loss of its volume',
  },
  {
    patterns: ['the nodes run different versions'],
    cause: 'an upgrade was still in progress after ten minutes',
    fix: 'wait for the upgrade, then create another VecBackup',
  },
  {
    patterns: ['created no snapshot of ...: see its log'],
    cause: 'the engine accepted the snapshot and could not write it',
    fix: 'check the log of that pod, and the free space on its data volume',
  },
  {
    patterns: ['did not complete the snapshot of ... in', 'other snapshots of'],
    cause: 'the node writes less than 1 MiB/s, or creates snapshots for other clients',
    fix: 'check its disk; delete unused snapshots',
  },
  {
    patterns: ['was discarded: ...', 'was not requested: ...'],
    cause: 'a replica did not stay Active during its snapshot, four times',
    fix: 'repair the cluster first: a restore would recover the incomplete replica',
  },
  {
    patterns: ['changed 3 times while it was backed up'],
    cause: 'the collection was recreated or changed, its shards were moved, or nodes were upgraded',
    fix: 'back it up while no client changes it',
  },
  JOB_CRASHED,
]
