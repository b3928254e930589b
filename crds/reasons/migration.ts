/** Reasons of a VecMigration's conditions and Events. */
import { dataJobReasons, NOT_COMPLETE, NOTHING_TO_DO, type Reason } from './reason.ts'

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
    ],
    cause: 'The Job is copying points, comparing both sides, or waiting for deferred points.',
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
      'Job <name> was started',
      'Job <name> is starting',
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
      'target cluster not ready: cluster <namespace>/<name> does not answer /readyz with 200',
    ],
  }
}
