/** Reasons of a VecRestore's conditions and Events. */
import { dataJobReasons, NOT_COMPLETE, NOTHING_TO_DO, type Reason } from './reason.ts'

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
      '<name> is an alias of collection <name> at the target: use collectionMapping',
    ],
    cause:
      'At least one collection could not be restored. status.error has the first error, status.restoredCollections has all of them.',
    fix: 'Fix the cause in status.error and create another VecRestore. This one is not retried.',
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
      'Job <name> was started',
      'Job <name> is starting',
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
