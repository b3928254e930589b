/** What a Job waits for before it can start. */
import t from 'tap'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import type { Condition } from '../../../crds/schema.ts'
import {
  bucketBlocker,
  clusterBlocker,
  mixedVersionsBlocker,
  secretBlocker,
  selectBlocker,
} from '../../../hooks/data-job/preconditions.ts'
import { ago, cluster, secret, settings } from '../../builders.ts'

type Phase = NonNullable<ClusterStatus['phase']>

/** What a Job on a cluster of this phase waits for. */
function blockerOf(phase: Phase, conditions: Condition[] = []) {
  const found = cluster({ status: { phase, conditions } })
  return clusterBlocker({ namespace: 'ns', name: 'a' }, found, { from: 'ns', settings })
}

function conditionOf(type: string, status: Condition['status'], reason: string): Condition {
  return { type, status, reason, message: `${type} is ${status}`, lastTransitionTime: ago(60) }
}

const HELD = conditionOf('Progressing', 'False', 'LastCopy')
const CONTINUING = conditionOf('Progressing', 'True', 'HelmReleaseApplied')
const ROLLED_OUT = conditionOf('Progressing', 'False', 'RolloutComplete')
const SPLIT = conditionOf('Consensus', 'False', 'SplitBrain')
const UNKNOWN = conditionOf('Consensus', 'Unknown', 'PodsNotAnswering')

t.test('a Job may start during a drain, and in an update that cannot continue', async (t) => {
  t.equal(blockerOf('Running', [ROLLED_OUT]), undefined)
  t.equal(blockerOf('Draining', [ROLLED_OUT]), undefined)
  t.equal(blockerOf('Draining'), undefined)
  t.equal(blockerOf('Upgrading', [HELD]), undefined)
  t.equal(blockerOf('Upgrading', [HELD, UNKNOWN]), undefined)
})

t.test('a Job waits while an update continues, and before the first rollout', async (t) => {
  const notRunning = (phase: Phase) => ({
    reason: 'ClusterNotReady',
    message: `cluster ns/a is ${phase}, not Running`,
  })
  t.strictSame(blockerOf('Upgrading', [CONTINUING]), notRunning('Upgrading'))
  t.strictSame(blockerOf('Upgrading'), notRunning('Upgrading'))
  t.strictSame(blockerOf('Upgrading', [CONTINUING, SPLIT]), notRunning('Upgrading'))
  t.strictSame(blockerOf('Pending', [HELD]), notRunning('Pending'))
})

t.test('a Job waits for consensus in each phase in which it could start', async (t) => {
  const waits = { reason: 'ClusterNotReady', message: 'cluster ns/a: Consensus is False' }
  t.strictSame(blockerOf('Running', [ROLLED_OUT, SPLIT]), waits)
  t.strictSame(blockerOf('Draining', [ROLLED_OUT, SPLIT]), waits)
  t.strictSame(blockerOf('Upgrading', [HELD, SPLIT]), waits)
})

t.test('a Job that needs one version waits while the pods have two', async (t) => {
  const mixed = (phase: Phase, conditions: Condition[], podVersions = ['1.16.3', '1.17.1']) =>
    mixedVersionsBlocker(cluster({ status: { phase, conditions, podVersions } }))
  const waits = (cause = '') => ({
    reason: 'ClusterNotReady',
    message: `cluster ns/a: the pods have the versions 1.16.3, 1.17.1${cause}`,
  })
  t.strictSame(mixed('Upgrading', [HELD]), waits('; Progressing is False'))
  t.strictSame(mixed('Draining', [ROLLED_OUT]), waits(), 'it says nothing about the versions')
  t.strictSame(mixed('Draining', []), waits())
  t.equal(mixed('Upgrading', [HELD], []), undefined)
  t.equal(mixedVersionsBlocker(cluster({ status: { phase: 'Upgrading' } })), undefined)
  t.equal(mixedVersionsBlocker(cluster()), undefined)
  t.equal(mixedVersionsBlocker(undefined), undefined)
})

t.test('a Secret serves only with a value in each of the keys', async (t) => {
  const blocker = (found: ReturnType<typeof secret> | undefined) =>
    secretBlocker({ namespace: 'ns', name: 's' }, ['one', 'other'], found)
  t.equal(blocker(secret({ one: '1', other: '2' })), undefined)
  t.strictSame(blocker(undefined), {
    reason: 'SecretNotFound',
    message: 'Secret ns/s not found',
  })
  const without = (key: string) => ({
    reason: 'InvalidSecret',
    message: `Secret ns/s has no value in key ${key}`,
  })
  t.strictSame(blocker(secret({ one: '1' })), without('other'))
  t.strictSame(blocker(secret({ one: '', other: '2' })), without('one'))
  const bare = secret({})
  delete bare.data
  t.strictSame(blocker(bare), without('one'), 'one without data has none')
})

t.test('a session token that is named must be in the Secret; by default it may be', async (t) => {
  const reference = { name: 's', accessKeyIdKey: 'id', secretAccessKeyKey: 'secret' }
  const blocker = (sessionTokenKey: string | undefined, data: Record<string, string>) => {
    const named = { ...reference, ...(sessionTokenKey !== undefined && { sessionTokenKey }) }
    const access = { credentialsSecretRef: named }
    return bucketBlocker('spec', access, 'ns', {
      ...{ secret: secret(data), account: undefined, ca: undefined },
    })
  }
  t.equal(blocker(undefined, { id: '1', secret: '2' }), undefined)
  t.equal(blocker('token', { id: '1', secret: '2', token: '3' }), undefined)
  t.strictSame(blocker('token', { id: '1', secret: '2' }), {
    reason: 'InvalidSecret',
    message: 'Secret ns/s has no value in key token',
  })
})

t.test('a copy is reported first, then a permission, then a terminal blocker', async (t) => {
  const waits = { reason: 'ClusterNotFound', message: 'not found' }
  const ends = { reason: 'BackupNotCompleted', message: 'Failed', terminal: true as const }
  const forbidden = { reason: 'RefNotPermitted', message: 'not allowed' }
  const copy = { reason: 'CopyOfEnded', message: 'a copy', terminal: true as const }
  t.equal(selectBlocker([waits, ends, forbidden, copy]), copy)
  t.equal(selectBlocker([waits, ends, undefined, forbidden]), forbidden)
  t.equal(selectBlocker([waits, ends]), ends)
  t.equal(selectBlocker([undefined, waits]), waits)
  t.equal(selectBlocker([undefined]), undefined)
})
