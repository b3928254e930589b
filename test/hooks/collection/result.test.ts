/** What a pass ends with: when it is checked again, what is seen, and whether all copies are there. */
import { jitterOf } from '../../../hooks/conditions.ts'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import {
  retryDelaySeconds,
  observedFields,
  finalResult,
  pendingResult,
} from '../../../hooks/collection/result.ts'
import { replicationCondition } from '../../../hooks/collection/status.ts'
import { isTransient } from '../../../hooks/collection/reconcile-context.ts'
import { config } from './config.ts'
import { collection } from './stage.ts'

t.test('a waiting collection is checked again after 30 s by default', async (t) => {
  t.strictSame(pendingResult('Reason', 'words'), {
    ...{ reason: 'Reason', message: 'words', requeueAfterSeconds: 30 },
  })
  t.equal(pendingResult('Reason', 'words', 1).requeueAfterSeconds, 1)
})

t.test('an engine that is too busy is asked again when it says so, within bounds', async (t) => {
  const after = (retryAfterSeconds?: number) =>
    retryDelaySeconds(new EngineError('busy', { retryAfterSeconds }))
  t.strictSame([after(), after(60), after(0), after(9999)], [30, 60, 5, 300])
})

t.test(
  'drift is corrected within a minute, not for all collections at the same time',
  async (t) => {
    const words = { reason: 'x', message: 'y' }
    const seconds = Array.from({ length: 50 }, (_, index) => {
      const one = collection({}, { uid: `uid-${index}` })
      const { requeueAfterSeconds, ...result } = finalResult(one, 'Ready', words)
      t.strictSame(result, { phase: 'Ready', ...words })
      return requeueAfterSeconds
    })
    t.ok(seconds.every((one) => Number.isInteger(one) && one >= 50 && one <= 60))
    t.ok(new Set(seconds).size > 5)
    const spread = Array.from({ length: 50 }, (_, index) => jitterOf(`uid-${index}`))
    t.ok(spread.every((one) => one >= 0 && one < 1))
    t.ok(Math.max(...spread) > 0.9 && Math.min(...spread) < 0.1)
    t.equal(jitterOf('uid-1'), spread[1], 'the same for one resource')
  },
)

t.test('the status has what the engine reports, and nothing else', async (t) => {
  const info = { status: 'green', config: config({}), payload_schema: {} }
  t.strictSame(observedFields(info), { health: 'green' })
  const counts = { points_count: 0, indexed_vectors_count: null, segments_count: 2 }
  t.strictSame(observedFields({ ...info, ...counts }), {
    health: 'green',
    pointsCount: 0,
    segmentsCount: 2,
  })
  t.strictSame(observedFields({ ...info, status: 'purple' }), {})
  for (const status of ['yellow', 'grey', 'red'] as const) {
    t.equal(observedFields({ ...info, status }).health, status)
  }
  t.equal(observedFields({ ...info, indexed_vectors_count: 5 }).indexedVectorsCount, 5)
})

const copy = (shard_id: number, state = 'Active') => ({ shard_id, state })

t.test('each shard has as many Active copies as the spec asks for', async (t) => {
  const whole = { local_shards: [copy(0), copy(1)], remote_shards: [copy(0), copy(1)] }
  t.strictSame(replicationCondition(2, whole), {
    ...{ type: 'Replicated', status: 'True', reason: 'AllReplicasActive' },
    message: '4 of 4 replicas are Active',
  })
  t.strictSame(replicationCondition(3, whole), {
    ...{ type: 'Replicated', status: 'False', reason: 'ReplicasMissing' },
    message: '4 of 6 replicas are Active',
  })
})

t.test('a copy that is not Active, or too many of another shard, makes up for none', async (t) => {
  const dead = { local_shards: [copy(0, 'Dead')], remote_shards: [copy(0)] }
  t.match(replicationCondition(2, dead), { status: 'False', message: '1 of 2 replicas are Active' })
  const uneven = { local_shards: [copy(0), copy(1)], remote_shards: [copy(0), copy(0)] }
  t.match(replicationCondition(2, uneven), {
    status: 'False',
    message: '3 of 4 replicas are Active',
  })
})

t.test('transient errors are distinguished from those that need the user', async (t) => {
  const error = (status?: number, message = 'x') =>
    new EngineError(message, status === undefined ? {} : { status })
  for (const one of [error(), error(408), error(429), error(500), error(503)]) {
    t.ok(isTransient(one), String(one.status))
  }
  const dead = error(500, 'Service internal error: Channel closed')
  for (const one of [error(400), error(404), error(409), error(499), error(507), dead]) {
    t.notOk(isTransient(one), String(one.status))
  }
})
