/** Reasons of a VecRestore's conditions and Events. */
import { dataJobReasons, NOT_COMPLETE, NOTHING_TO_DO, type Reason } from './reason.ts'

export const RESTORE_REASONS: readonly Reason[] = [
  {
    reason: 'RestoreCompleted',
    condition: { type: 'Complete', status: 'True' },
    event: 'Normal',
    messages: ['Restored <n>/<n>', 'Restored <n>/<n>, <size>'],
    cause: 'Every collection is there, with its copies, indexes and aliases.',
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
    cause: 'status.error has the first error, status.restoredCollections all of them.',
    fix: 'Mend what it names and make another VecRestore: this one is not tried again.',
  },
  {
    reason: 'RestoreStarted',
    event: 'Normal',
    messages: ['reads <backup>'],
    cause: 'The Job has reported that it works.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'RestoreRunning',
    condition: NOT_COMPLETE,
    messages: [
      'the restore has started',
      'reads the manifest',
      'collection <n> of <n> (<name>), <n> of <n> nodes done: <step>; <how far it is>',
      'collection <n> of <n> (<name>), <n> of <n> shards done: <step>; <how far it is>',
    ],
    cause: 'The Job works; its message tells how far it is.',
    fix: 'Nothing; `kubectl logs job/<name>` has each step.',
  },
  {
    reason: 'RestoreStarting',
    condition: NOT_COMPLETE,
    messages: [
      'the Job was just made',
      'Metacontroller does not show Job <name>: it lost its label controller-uid. Set it again (kubectl label job <name> -n <namespace> controller-uid=<uid>), or delete the Job',
      'the rights of the Job are being made',
      'the Leases of the cluster are being taken',
      'the Leases of the cluster are held: looks once more who is at work there',
      'Job <name> was started',
      'Job <name> is starting',
    ],
    cause: 'Everything is there, and the Job is on its way.',
    fix: 'Nothing; when it stays, look at the pods and Events of the Job.',
  },
  {
    reason: 'BackupNotFound',
    condition: NOT_COMPLETE,
    messages: ['backup <namespace>/<name> not found', 'backup <namespace>/<name> is being deleted'],
    cause: 'There is no VecBackup that spec.backupRef names.',
    fix: 'Make the VecRestore anew with spec.source, where its objects are still in the bucket.',
  },
  {
    reason: 'BackupNotCompleted',
    condition: NOT_COMPLETE,
    messages: ['backup is <phase>, not Completed: <namespace>/<name>'],
    cause:
      'The backup has not ended yet. One that Failed ends the restore, and this is in status.error.',
    fix: 'Wait for the backup; after a Failed one name another in a new VecRestore.',
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
      'backup <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the backup',
    ],
    cause:
      'The cluster or the backup is in another namespace and does not allow this one to use it.',
    fix: 'Add this namespace to that annotation of the VecCluster or VecBackup; the restore then starts by itself. A Job that was running is stopped, and another continues.',
  }
}
