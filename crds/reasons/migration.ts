/** Reasons of a VecMigration's conditions and Events, and the texts of its `status.error`. */
import {
  JOB_CRASHED,
  dataJobReasons,
  NOT_COMPLETE,
  NOTHING_TO_DO,
  type Reason,
  type KnownFailure,
  STOPPING_JOB,
} from './reason.ts'

export const MIGRATION_REASONS: readonly Reason[] = [
  {
    reason: 'MigrationCompleted',
    condition: { type: 'Complete', status: 'True' },
    event: 'Normal',
    messages: ['Copied <n>/<n>', 'Copied <n>/<n>, <n> points'],
    cause: 'Every collection was copied and compared.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'MigrationFailed',
    condition: NOT_COMPLETE,
    event: 'Warning',
    messages: [
      'Copied <n>/<n>',
      'Copied <n>/<n>: <error>',
      'Job crashed <n> times',
      'Collections not present in source: <collections>',
      'Collection missing on target and createMissing is false: <name>',
      'the target collection <name> does not fit: <reasons> (use collectionMapping or drop it)',
      '<name> would be copied onto itself: use collectionMapping',
      'both <name> and <name> would be copied to <name>',
      '<name> is an alias of <name> on the target',
    ],
    cause:
      'At least one collection could not be migrated. status.error has the first error, status.collections has all of them.',
    fix: 'Fix the cause in status.error and create another VecMigration. This one is not retried.',
  },
  {
    reason: 'MigrationStarted',
    event: 'Normal',
    messages: ['copying <n> points of <n> collections from <source>'],
    cause: 'The collections were counted, and points are being copied.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'MigrationRunning',
    condition: NOT_COMPLETE,
    messages: [
      'collection <n> of <n> (<name>): <n> of <n> points<how fast>',
      'collection <n> of <n> (<name>): <n> of <n> points compared with the target<how fast>',
      'waiting for <n> of about <n> points of <name> at the <source or target>, which cannot be read until they are indexed',
      'waiting until <name> is indexed: not all of its points are visible',
      'comparing in <n> s: an upsert that the target did not answer may still reach it',
    ],
    cause:
      'The Job is copying points, comparing both sides, or waiting for deferred points or unanswered upserts.',
    fix: 'Nothing. `kubectl logs job/<name>` shows each step.',
  },
  {
    reason: 'MigrationStarting',
    condition: NOT_COMPLETE,
    messages: [
      'the Job was just created',
      'Metacontroller does not list Job <name> because it lost its label controller-uid; set the label (kubectl label job <name> -n <namespace> controller-uid=<uid>) or delete the Job',
      'creating ServiceAccount, Role and RoleBinding for the Job',
      'counting the points of the collections',
      'waiting for the source <url or cluster>: <why it does not answer>',
      'creating Job <name>',
      'Job <name> is starting',
      STOPPING_JOB.message,
    ],
    cause:
      'Nothing blocks the migration, and its Job is being created, or the Job is connecting to the source.',
    fix: 'Nothing. If it stays in this state, check the pods and Events of the Job. The Job waits ten minutes for a source that does not answer: check the address, and that pods can reach it.',
  },
  ...dataJobReasons({
    kind: 'VecMigration',
    noun: 'migration',
    clusterField: 'spec.targetClusterRef',
  }).map(withTargetMessages),
]

/** Messages about the target name it as the target; they also cover the response of its engine. */
function withTargetMessages(reason: Reason): Reason {
  if (reason.reason !== 'ClusterNotReady') return reason
  return {
    ...reason,
    messages: [
      ...reason.messages,
      'target cluster not ready: cluster <namespace>/<name> is <phase>, not Running',
      'target cluster not ready: cluster <namespace>/<name> does not answer /readyz with 200: <response or error>',
      'target cluster not ready: cluster <namespace>/<name> does not answer /readyz with 200: no answer yet',
    ],
  }
}

/** Texts of `status.error`. */
export const MIGRATION_FAILURES: readonly KnownFailure[] = [
  {
    patterns: ['Collections not present in source: ...'],
    cause: '`collections` names a collection that the source does not have, or an alias',
    fix: 'name the collection itself',
  },
  {
    patterns: ['Collection missing on target and createMissing is false'],
    cause: 'the collection or one of its shard keys is missing on the target',
    fix: 'create it, or set `createMissing: true`',
  },
  {
    patterns: ['answered 401', 'answered 403'],
    cause: 'wrong or missing key, or a token without read access',
    fix: 'correct the key in the Secret',
  },
  {
    patterns: ['got no answer', 'certificate'],
    cause: 'the source is unreachable, or its certificate is not trusted',
    fix: 'check network policies; set `caSecretRef`',
  },
  {
    patterns: ['the nodes do not ...'],
    cause: 'the nodes of the source do not form one cluster, or one has not caught up',
    fix: 'see the condition `Consensus` of that VecCluster; for one with a lost node, name its address in `source.endpoint`',
  },
  {
    patterns: ['does not fit: dimension error: ...'],
    cause: 'the target collection has another vector size',
    fix: 'use `collectionMapping`, or delete the collection',
  },
  {
    patterns: ['does not fit: ...'],
    cause: 'names of vectors, distance, datatype or sharding differ',
    fix: 'use `collectionMapping`, or delete the collection',
  },
  {
    patterns: ['... is an alias of ... on the target'],
    cause: 'points would go into another collection',
    fix: 'use `collectionMapping`',
  },
  {
    patterns: ['both ... and ... would be copied to ...'],
    cause: 'two collections under one name',
    fix: 'use `collectionMapping`',
  },
  {
    patterns: ['... was created on the target by another client ...'],
    cause: 'it is not empty, or has another configuration than this migration gives it',
    fix: 'delete it, or use `collectionMapping`',
  },
  {
    patterns: ['n missing on the target', 'n different on the target'],
    cause: 'clients wrote points faster than the migration could copy them again',
    fix: 'stop writing, and create another VecMigration',
  },
  {
    patterns: ['n on the target only', 'shard keys on the target only'],
    cause: 'deleted on the source during the migration, or written to the target',
    fix: 'delete them on the target',
  },
  {
    patterns: ['shard keys not compared: ...'],
    cause: 'the source keeps creating shard keys',
    fix: 'create another VecMigration',
  },
  {
    patterns: ['n of about m points of ... cannot be read'],
    cause: 'deferred until they are indexed (`prevent_unoptimized`)',
    fix: 'stop writing until the collection is green',
  },
  {
    patterns: ['the source counts about n points and shows m'],
    cause: 'hidden until they are indexed, or being resharded',
    fix: 'wait until it is green and resharding has finished',
  },
  {
    patterns: ['the target did not answer upserts in each of 5 attempts ...'],
    cause: 'the target or its network fails again and again',
    fix: 'repair it, and create another VecMigration',
  },
  {
    patterns: ['... was created on the source while others ...'],
    cause: 'the source keeps creating collections',
    fix: 'create another VecMigration',
  },
  {
    patterns: ['the source has n collections, and one VecMigration copies ...'],
    cause: 'its report cannot hold more',
    fix: 'distribute them over the `spec.collections` of several VecMigrations',
  },
  {
    patterns: ['indexing_threshold of ... 0 on the target: set it to n'],
    cause: 'no pod could restore the setting: the target did not respond, or pods crashed',
    fix: 'set it to n with a PATCH of the collection',
  },
  {
    patterns: ['collection ... was deleted at the ...', 'shard key ... was deleted at the ...'],
    cause: 'a client deleted or emptied it, also after it was copied; the others are copied',
    fix: 'create another VecMigration',
  },
  {
    patterns: ['... was deleted and created again by another client ...'],
    cause: 'the target collection is another one than at the beginning, also after it was copied',
    fix: 'delete it, or use `collectionMapping`, and create another VecMigration',
  },
  {
    patterns: ['the nodes do not hold the same collection ...'],
    cause:
      'another client deleted the target collection and created it again, and a node did not apply that in time',
    fix: 'check the log of that pod; once all nodes agree, create another VecMigration',
  },
  {
    patterns: ['the point ... has n bytes, more than the target takes'],
    cause: '`service.max_request_size_mb` of the target is smaller',
    fix: 'raise it in the `config` of the VecCluster',
  },
  JOB_CRASHED,
]
