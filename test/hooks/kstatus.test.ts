/** Reconciling, Stalled and Failed of every kind, as tools read them that know nothing of the kind. */
import t from 'tap'
import type { Condition } from '../../crds/schema.ts'
import { REJECTED_REASONS } from '../../hooks/cluster/helm-result.ts'
import { withKstatus } from '../../hooks/conditions.ts'
import { NOW, ago } from '../builders.ts'

const NEW = '2026-03-01T12:00:00Z'

function condition(type: string, status: Condition['status'], reason: string): Condition {
  const times = { lastTransitionTime: ago(60), observedGeneration: 1 }
  return { type, status, reason, message: `message of ${reason}`, ...times }
}

interface Parts {
  phase?: string
  error?: string
  before?: Condition[]
  generation?: number
}

/** Type, reason and time of each condition that was added. */
function added(kind: string, conditions: Condition[], parts: Parts = {}) {
  const { before = [], generation = 1, ...fields } = parts
  const parent = { kind, metadata: { generation }, status: { conditions: before } }
  const status = withKstatus(parent, { ...fields, conditions }, NOW)
  return status.conditions
    .slice(conditions.length)
    .map(({ type, reason, lastTransitionTime }) => [type, reason, lastTransitionTime])
}

t.test('a VecCluster is Reconciling while helm or the rollout is at work', async (t) => {
  const applied = condition('Applied', 'True', 'UpToDate')
  t.strictSame(added('VecCluster', [condition('Applied', 'False', 'HelmRunning')]), [
    ['Reconciling', 'HelmRunning', NEW],
  ])
  t.strictSame(added('VecCluster', [condition('Applied', 'False', 'HelmFailed')]), [
    ['Reconciling', 'HelmFailed', NEW],
  ])
  const rolling = condition('Progressing', 'True', 'HelmReleaseApplied')
  t.strictSame(added('VecCluster', [rolling, applied]), [
    ['Reconciling', 'HelmReleaseApplied', NEW],
  ])
  const done = condition('Progressing', 'False', 'RolloutComplete')
  t.strictSame(added('VecCluster', [done, applied]), [])
})

t.test(
  'a VecCluster is Reconciling while its update is held, and Stalled for a user',
  async (t) => {
    const applied = condition('Applied', 'True', 'UpToDate')
    const ready = condition('Ready', 'True', 'AllReplicasReady')
    const held = (reason: string) => [condition('Progressing', 'False', reason), ready, applied]
    for (const reason of ['LastCopy', 'NodeMissing', 'NoQuorum', 'ReplicasNotCounted']) {
      t.strictSame(added('VecCluster', held(reason)), [['Reconciling', reason, NEW]])
    }
    t.strictSame(added('VecCluster', held('ReplicasDiffer')), [
      ['Reconciling', 'ReplicasDiffer', NEW],
    ])
    t.strictSame(added('VecCluster', held('SingleCopies')), [['Stalled', 'SingleCopies', NEW]])
    t.strictSame(
      added('VecCluster', [condition('Progressing', 'False', 'Hibernated'), applied]),
      [],
    )
  },
)

t.test('a VecCluster is Stalled where only a user helps', async (t) => {
  const split = condition('Consensus', 'False', 'SplitBrain')
  const refused = condition('Applied', 'False', 'VersionSkipped')
  t.strictSame(added('VecCluster', [refused]), [['Stalled', 'VersionSkipped', NEW]])
  t.strictSame(added('VecCluster', [split, condition('Applied', 'True', 'UpToDate')]), [
    ['Stalled', 'SplitBrain', NEW],
  ])
})

t.test(
  'a VecCluster is Stalled with each reason of a helm Job that rejects its plan',
  async (t) => {
    for (const reason of REJECTED_REASONS)
      t.strictSame(added('VecCluster', [condition('Applied', 'False', reason)]), [
        ['Stalled', reason, NEW],
      ])
  },
)

for (const kind of ['VecBackup', 'VecRestore', 'VecMigration']) {
  t.test(`a ${kind} is Reconciling until it ends, and Failed is a condition`, async (t) => {
    const open = condition('Complete', 'False', 'Running')
    t.strictSame(added(kind, [open], { phase: 'InProgress' }), [['Reconciling', 'Running', NEW]])
    const done = condition('Complete', 'True', 'Completed')
    t.strictSame(added(kind, [done], { phase: 'Completed' }), [])
    const failed = condition('Complete', 'False', 'BackupFailed')
    t.strictSame(added(kind, [failed], { phase: 'Failed', error: 'no space' }), [
      ['Stalled', 'BackupFailed', NEW],
      ['Failed', 'BackupFailed', NEW],
    ])
  })
}

t.test('other kinds are Reconciling until they are Ready, or Stalled for a user', async (t) => {
  const waits = condition('Ready', 'False', 'ClusterNotReady')
  const refused = condition('Ready', 'False', 'EngineRefused')
  t.strictSame(added('VecCollection', [waits], { phase: 'Ready' }), [
    ['Reconciling', 'ClusterNotReady', NEW],
  ])
  t.strictSame(added('VecCollection', [refused], { phase: 'Failed' }), [
    ['Stalled', 'EngineRefused', NEW],
  ])
  t.strictSame(added('VecAccessKey', [condition('Ready', 'False', 'JwtRbacDisabled')]), [
    ['Stalled', 'JwtRbacDisabled', NEW],
  ])
  t.strictSame(added('VecBackupSchedule', [condition('Ready', 'True', 'Scheduled')]), [])
})

t.test('a Ready of an earlier generation is Reconciling', async (t) => {
  const ready = condition('Ready', 'True', 'CollectionReady')
  t.strictSame(added('VecCollection', [ready], { generation: 2 }), [
    ['Reconciling', 'SpecChanged', NEW],
  ])
})

t.test('a failure of an earlier generation is Reconciling: the new spec may cure it', async (t) => {
  const refused = condition('Ready', 'False', 'EngineRefused')
  t.strictSame(added('VecCollection', [refused], { phase: 'Failed', generation: 2 }), [
    ['Reconciling', 'SpecChanged', NEW],
  ])
})

t.test('a condition keeps its time while it is True, and is removed afterwards', async (t) => {
  const before = [condition('Reconciling', 'True', 'HelmRunning')]
  const still = condition('Applied', 'False', 'HelmFailed')
  t.strictSame(added('VecCluster', [still], { before }), [['Reconciling', 'HelmFailed', ago(60)]])
  // A finished resource echoes the conditions that it had.
  const parent = { kind: 'VecBackup', metadata: { generation: 1 } }
  const echoed = [condition('Complete', 'True', 'BackupCompleted'), ...before]
  const { conditions } = withKstatus(parent, { phase: 'Completed', conditions: echoed }, NOW)
  t.strictSame(
    conditions.map(({ type }) => type),
    ['Complete'],
  )
})

t.test('a status without conditions stays as it is', async (t) => {
  const status = { phase: 'Pending' }
  t.equal(withKstatus({ kind: 'VecBackup', metadata: { generation: 1 } }, status, NOW), status)
})
