/** Reasons of a VecRestore's conditions and Events, and the texts of its `status.error`. */
import {
  JOB_CRASHED,
  dataJobReasons,
  NOT_COMPLETE,
  NOTHING_TO_DO,
  type Reason,
  type KnownFailure,
  STOPPING_JOB,
} from './reason.ts'

export const RESTORE_REASONS: readonly Reason[] = [
  {
    reason: 'RestoreCompleted',
    condition: { type: 'Complete', status: 'True' },
    event: 'Normal',
    messages: ['Restored <n>/<n>', 'Restored <n>/<n>, <size>'],
    cause: 'Every collection is restored, with its replicas, indexes and aliases.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'RestoreFailed',
    condition: NOT_COMPLETE,
    event: 'Warning',
    messages: [
      'Restored <n>/<n>',
      'Restored <n>/<n>: <error>',
      'Job crashed <n> times',
      'Backup was taken from <n> nodes but target cluster has <n>; a backup with spec.method Shard is restored into any number of nodes',
      'shard <n> of <name> has <n> points on node <n>, but its snapshot holds <n>',
      'Collections not present in backup: <collections>',
      'collection <name> is at the target with other <part> than in the backup: <value> instead of <value>',
      'collection <name> is at the target with other <part> than in the backup: <n> instead of <n>: restore it under another name with spec.collectionMapping, delete the collection, or set spec.shardNumber of its VecCollection to <n> and wait until it has them',
      '<name> is an alias of collection <name> at the target: use collectionMapping',
    ],
    cause:
      'At least one collection could not be restored. status.error has the first error, status.restoredCollections has all of them.',
    fix: 'Fix the cause in status.error and create another VecRestore. This one is not retried.',
  },
  {
    reason: 'ServiceAccountOfOtherNamespace',
    messages: [
      'backup <namespace>/<name> uses the ServiceAccount <name> of its namespace, which a Job in namespace <namespace> cannot use: name the bucket in spec.source.s3 of a new VecRestore, with a ServiceAccount or a Secret of namespace <namespace>',
    ],
    cause: 'A pod runs only under a ServiceAccount of its own namespace.',
    fix: 'Create a VecRestore with spec.source.s3 in this namespace, or one with backupRef in the namespace of the backup and targetClusterRef.namespace.',
  },
  {
    reason: 'RestoreStarted',
    event: 'Normal',
    messages: ['restoring from <backup>'],
    cause: 'The Job has sent its first report.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'RestoreRunning',
    condition: NOT_COMPLETE,
    messages: [
      'the restore has started',
      'reading the manifest',
      'collection <n> of <n> (<name>), <n> of <n> nodes done: <step>; <how far it is>',
      'collection <n> of <n> (<name>), <n> of <n> shards done: <step>; <how far it is>',
    ],
    cause: 'The Job is running; the message shows its progress.',
    fix: 'Nothing. `kubectl logs job/<name>` shows each step.',
  },
  {
    reason: 'RestoreStarting',
    condition: NOT_COMPLETE,
    messages: [
      'the Job was just created',
      'Metacontroller does not list Job <name> because it lost its label controller-uid; set the label (kubectl label job <name> -n <namespace> controller-uid=<uid>) or delete the Job',
      'creating ServiceAccount, Role and RoleBinding for the Job',
      'acquiring the Leases of the cluster',
      'the Leases of the cluster are acquired; checking once more for other work on it',
      'creating Job <name>',
      'Job <name> is starting',
      STOPPING_JOB.message,
    ],
    cause: 'Nothing blocks the restore, and its Job is being created.',
    fix: 'Nothing. If it stays in this state, check the pods and Events of the Job.',
  },
  {
    reason: 'BackupNotFound',
    condition: NOT_COMPLETE,
    messages: ['backup <namespace>/<name> not found', 'backup <namespace>/<name> is being deleted'],
    cause: 'The VecBackup in spec.backupRef does not exist or is being deleted.',
    fix: 'Correct the name in another VecRestore. If the objects are still in the bucket, create a VecRestore with spec.source.',
  },
  {
    reason: 'BackupNotCompleted',
    condition: NOT_COMPLETE,
    messages: ['backup is <phase>, not Completed: <namespace>/<name>'],
    cause:
      'The backup has not finished yet, or it is Failed. A Failed backup makes the restore Failed, with this message in status.error.',
    fix: 'Wait until the backup is Completed. If it is Failed, create a VecRestore of another backup.',
  },
  ...dataJobReasons({
    kind: 'VecRestore',
    noun: 'restore',
    clusterField: 'spec.targetClusterRef',
  }).map(withBackupMessages),
]

/** The VecBackup has the same annotation; its default is its own namespace. */
function withBackupMessages(reason: Reason): Reason {
  if (reason.reason !== 'RefNotPermitted') return reason
  return {
    ...reason,
    messages: [
      ...reason.messages,
      'backup <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the backup',
    ],
    cause:
      'The cluster or the backup is in another namespace and does not allow this one to use it.',
    fix: 'Add this namespace to the annotation of the VecCluster or VecBackup; the restore then starts automatically. A Job that was running is stopped, and another one continues.',
  }
}

/** Texts of `status.error`. */
export const RESTORE_FAILURES: readonly KnownFailure[] = [
  {
    patterns: ['Backup was taken from n nodes but target cluster has m; ...'],
    cause: 'each node gets the snapshot of the node with its ordinal',
    fix: 'use a cluster of n replicas, or a backup by shard',
  },
  {
    patterns: ['manifest.json: collection ... shard ...'],
    cause: 'a shard is missing, listed twice, or has the key of another one',
    fix: 'check `manifest.json`; use another backup',
  },
  {
    patterns: ['shard n of ... has m points on node i, but its snapshot holds k'],
    cause: 'points are missing, or clients deleted some at the target; the rest is there',
    fix: 'stop clients and restore again, or use another backup',
  },
  {
    patterns: ['shard n of ... has m points on node i, but k on node j'],
    cause: 'its replicas differ; the data is restored',
    fix: 'stop clients and restore again',
  },
  {
    patterns: ['shard n of ... is on no node'],
    cause: 'another client removed it during the restore',
    fix: 'restore again while no client changes the collection',
  },
  {
    patterns: [
      'collection ... was deleted during the restore',
      'collection ... was deleted and created again ...',
    ],
    cause:
      'another client deleted it, also after its points were restored, or the cluster was recreated',
    fix: 'restore it again',
  },
  {
    patterns: ['the nodes do not hold the same collection ...'],
    cause:
      'another client deleted the collection and created it again, and a node did not apply that within ten minutes',
    fix: 'check the log of that pod; once all nodes agree, restore again, or use `collectionMapping`',
  },
  {
    patterns: ['... is empty after the restore, but n points were counted ...'],
    cause: 'the backup contains none of its points',
    fix: 'use another backup',
  },
  {
    patterns: ['shard n of ... is empty after the restore, but about m points were backed up'],
    cause:
      'its node lost the points after it had taken the snapshot, or clients deleted them; the rest is there',
    fix: 'stop clients and restore again',
  },
  {
    patterns: ['the points are restored, but not all of the aliases ...'],
    cause: 'the engine rejected them; its message is at the end',
    fix: 'create the aliases yourself',
  },
  {
    patterns: ['shard n of ... is no longer on node m'],
    cause: 'another client moved it during the restore',
    fix: 'restore again while no client moves shards',
  },
  {
    patterns: ['the nodes disagree about shard ...'],
    cause:
      'a node was killed during a recovery, or missed a change of the collection, and no repair helps',
    fix: 'delete the collection at the target, or use `collectionMapping`, and restore again',
  },
  {
    patterns: ['shard n is being transferred from node m to node k ..., and there is no progress'],
    cause:
      'nothing was reported of the copy for 15 minutes, and for as long as the bytes of the collection need at 1 MB/s',
    fix: 'check the pods of both nodes and the network between them, and restore again',
  },
  {
    patterns: ['node n has disks of ..., but ... to go there'],
    cause: 'the data does not fit',
    fix: 'add nodes, or use larger volumes',
  },
  {
    patterns: ['Collections not present in backup: ...'],
    cause: 'they failed in the backup, or never existed',
    fix: 'check `manifest.json`',
  },
  {
    patterns: ['shard key n of ... is above 2^53'],
    cause: 'the backup of another program has a shard key that JavaScript cannot represent',
    fix: 'restore the other collections, and recover the snapshots of this one with the engine',
  },
  {
    patterns: ['... is that of a backup that failed, without ...'],
    cause: '`spec.source` names a backup that does not have all of its collections',
    fix: 'use another backup, or name the collections in `spec.collections`',
  },
  {
    patterns: ['collectionMapping ...'],
    cause: 'a name that is not restored, or two sources for one target',
    fix: 'correct the mapping',
  },
  {
    patterns: ['Backup was taken by engine ... but the target runs ...'],
    cause: 'only the same minor version and the next one can read a snapshot',
    fix: 'restore into a cluster of that version, then upgrade it',
  },
  {
    patterns: ['... is at the target with other ... than in the backup'],
    cause: 'vectors, shards or shard keys differ',
    fix: 'use `collectionMapping`, or delete the collection; if `shardNumber` was changed, set it back and wait',
  },
  {
    patterns: ['n shard ids of ... are no longer in use ...'],
    cause: 'by node every id must be equal, and there are too many old ids to skip',
    fix: 'use a backup with `method: Shard`; for keys with several shards, a VecMigration',
  },
  {
    patterns: ['shards ... of shard key ... are not consecutive'],
    cause: 'the key was resharded: the engine cannot create these ids',
    fix: 'restore over a collection that has them, or use a VecMigration',
  },
  {
    patterns: ['... is an alias of collection ... at the target'],
    cause: 'a collection cannot have the name of an alias',
    fix: 'use `collectionMapping`, or delete the alias',
  },
  {
    patterns: ['priority ... is refused'],
    cause: 'it would stop consensus for good, or leave replicas that differ',
    fix: 'use `priority: snapshot`',
  },
  {
    patterns: ['manifest.json has no manifestVersion: ...'],
    cause: 'another program wrote it to the folder of a VecBackup',
    fix: 'set the folder as `spec.source`',
  },
  {
    patterns: [
      'shard n of ... was Dead on node m when ...',
      'no node has a snapshot of shard ...',
      '... have different configurations ...',
    ],
    cause:
      'the other program backed up a collection that was incomplete, or changed during the backup',
    fix: 'use another backup',
  },
  {
    patterns: [
      '... it is no snapshot of a collection ...',
      'has no tar header ...',
      'ends at byte ...',
    ],
    cause: 'the object is not a complete snapshot of a node',
    fix: 'use another backup',
  },
  {
    patterns: ['s3://... is missing', 'has n bytes, not the m of the manifest'],
    cause: 'the object was deleted or truncated',
    fix: 'use another backup',
  },
  {
    patterns: [
      'the nodes do not see one cluster',
      'do not list the same collections',
      'the nodes know of n peers, ...',
    ],
    cause:
      'a node lost its volume or its connection to the others, or a removed node is still a peer, after a wait of ten minutes',
    fix: 'repair the cluster; remove peers that have no pod',
  },
  {
    patterns: ['a restore into several nodes needs 1.17.1'],
    cause: 'the target runs an older engine',
    fix: 'upgrade the target',
  },
  {
    patterns: ['consensus is ... on node n'],
    cause:
      'the cluster accepts no changes any more; engine 1.19 has tried to repair that for 15 minutes',
    fix: 'check its condition Consensus; restore into a new cluster',
  },
  {
    patterns: ['... is red on node n: ...'],
    cause: 'an optimizer of the engine failed, often because the disk is full',
    fix: 'use a larger volume; the data is restored',
  },
  {
    patterns: ['collection ... did not turn green in time: node n reports ...'],
    cause:
      'indexing took more than an hour, or the node did not answer for as long; the data is restored',
    fix: 'wait, or set `waitForIndexing: false`',
  },
  {
    patterns: [
      'node n did not respond whether ...',
      'node n has been recovering ...',
      'an earlier release of the operator started ...',
    ],
    cause: 'a node may still run a recovery whose client has disconnected',
    fix: 'restart the pod, which ends the recovery, and restore again',
  },
  {
    patterns: ['replication_factor of ... may still be 1 at the target: set it to n'],
    cause: 'pods of the Job crashed, and none was left to restore the setting',
    fix: 'set it to n with a PATCH of the collection',
  },
  JOB_CRASHED,
]
