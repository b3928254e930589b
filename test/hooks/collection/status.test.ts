/** The status of a VecCollection after a pass, as a whole. */
import t from 'tap'
import type { CollectionStatus } from '../../../crds/collection.ts'
import { collectionStatus } from '../../../hooks/collection/status.ts'
import { cluster, NOW } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { collection } from './stage.ts'

const SINCE = { lastTransitionTime: '2026-03-01T12:00:00Z', observedGeneration: 1 }
const ready = { phase: 'Ready' as const, reason: 'CollectionReady', message: 'all of it' }

function statusOf(
  outcome: Partial<Parameters<typeof collectionStatus>[1]>,
  before?: CollectionStatus,
  spec: Parameters<typeof collection>[0] = {},
) {
  const whole = { reason: 'R', message: 'm', requeueAfterSeconds: 50, ...outcome }
  return collectionStatus(collection(spec, {}, before), whole, { now: NOW })
}

t.test('a final result has the observed fields', async (t) => {
  const facts = { health: 'green' as const, pointsCount: 3 }
  const replicated = { type: 'Replicated', status: 'True' as const, reason: 'A', message: 'b' }
  t.strictSame(statusOf({ ...ready, fields: facts, replicated }), {
    phase: 'Ready',
    collectionName: 'docs',
    ...facts,
    conditions: [
      { type: 'Ready', status: 'True', reason: ready.reason, message: ready.message, ...SINCE },
      { ...replicated, ...SINCE },
    ],
  })
})

t.test('an unsupported spec is an error too; a waiting collection keeps its error', async (t) => {
  for (const phase of ['Degraded', 'Failed'] as const) {
    const { error, conditions } = statusOf({ phase, message: 'why' })
    t.equal(error, 'why')
    matchWhole(t, conditions, [{ type: 'Ready', status: 'False', reason: 'R', message: 'why' }])
  }
  t.equal(statusOf({ message: 'soon' }, { phase: 'Failed', error: 'why' }).error, 'why')
  t.notOk('error' in statusOf({ message: 'soon' }))
  t.notOk('error' in statusOf(ready, { phase: 'Failed', error: 'why' }))
})

t.test('a condition has the first thousand characters of the error', async (t) => {
  const { error, conditions } = statusOf({ phase: 'Failed', message: 'x'.repeat(40_000) })
  t.equal(error?.length, 32 * 1024)
  t.equal(conditions?.[0]?.message.length, 1024)
})

t.test('values that could not be read are unchanged', async (t) => {
  const before: CollectionStatus = {
    phase: 'Degraded',
    ...{ health: 'yellow', pointsCount: 1, indexedVectorsCount: 2, segmentsCount: 3 },
    ...{ payloadIndexes: ['a'], aliases: ['b'] },
    ignored: { generation: 1, engineVersion: '1.18.3', paths: ['c'] },
  }
  const { conditions, collectionName, ...unchanged } = statusOf({}, before)
  t.strictSame(unchanged, before)
  t.equal(collectionName, 'docs')
  t.equal(conditions?.length, 1)
  t.equal(statusOf({}).phase, 'Pending')
  t.strictSame(Object.keys(statusOf({})).sort(), ['collectionName', 'conditions', 'phase'])
})

t.test('the state of its replicas stays until they are checked again', async (t) => {
  const words = { type: 'Replicated', status: 'False' as const, reason: 'A', message: 'b' }
  const before = { conditions: [{ ...words, ...SINCE }] }
  const conditionsWith = (spec: Parameters<typeof collection>[0]) =>
    statusOf(ready, before, spec).conditions?.map(({ type }) => type)
  t.strictSame(conditionsWith({ replicationFactor: 2 }), ['Ready', 'Replicated'])
  t.strictSame(conditionsWith({}), ['Ready'], 'replicas are not requested any more')
  const asked = statusOf(ready, before, { replicationFactor: 2 }).conditions?.[1]
  t.strictSame(asked, { ...words, ...SINCE })
})

t.test('a condition that was not checked again is about the generation of its check', async (t) => {
  const former = (type: string) => ({
    ...{ type, status: 'True' as const, reason: 'A', message: 'b' },
    ...{ lastTransitionTime: SINCE.lastTransitionTime, observedGeneration: 1 },
  })
  const spec = { replicationFactor: 3, shardNumber: 6 }
  const before = { conditions: [former('Replicated'), former('Resharding')] }
  const changed = collection(spec, { generation: 2 }, before)
  const resharding = cluster({ spec: { resharding: true } })
  const waiting = { reason: 'ClusterNotReady', message: 'm', requeueAfterSeconds: 30 }
  const { conditions = [] } = collectionStatus(changed, waiting, { now: NOW, cluster: resharding })
  t.strictSame(
    conditions.map(({ type, observedGeneration }) => [type, observedGeneration]),
    [
      ['Ready', 2],
      ['Replicated', 1],
      ['Resharding', 1],
    ],
  )
})

t.test('nothing is said of replicas that cannot be observed', async (t) => {
  const former = { type: 'Replicated', status: 'True' as const, reason: 'A', message: 'b' }
  const before = { conditions: [{ ...former, ...SINCE }] }
  const unobserved = {
    reason: 'ClusterHibernated',
    message: 'no pods',
    isUnobserved: true,
  } as const
  const { conditions } = statusOf(unobserved, before, { replicationFactor: 2 })
  t.match(conditions?.[1], {
    ...{ type: 'Replicated', status: 'Unknown', reason: 'ClusterHibernated', message: 'no pods' },
  })
  t.equal(statusOf(unobserved, {}, { replicationFactor: 2 }).conditions?.length, 1)
})
