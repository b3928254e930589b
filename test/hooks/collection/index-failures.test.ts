/** The VecCollection hooks without a cluster, or with an engine that rejects requests or does not answer. */
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { cluster, settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { engineError } from './engine-config.ts'
import { CollectionHarness, collection } from './stage.ts'

const timeout = (applied = false, persists = false) => ({
  error: engineError(500, 'Waiting for consensus operation commit failed'),
  applied,
  persists,
})

t.test('cluster not found: retried in 30 s, no phase change', async (t) => {
  const stage = new CollectionHarness()
  stage.cluster = undefined
  const first = await stage.sync()
  t.equal(first.resyncAfterSeconds, 30)
  matchWhole(t, first.status, {
    phase: 'Pending',
    conditions: [{ status: 'False', reason: 'ClusterNotFound', message: 'cluster ns/a not found' }],
  })
  stage.cluster = cluster()
  await stage.syncUntilStable()
  stage.cluster = undefined
  t.match((await stage.sync()).status, { phase: 'Ready', health: 'green' })
})

t.test('a hibernated cluster is not called, and the phase is unchanged', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  stage.engine.calls.length = 0
  stage.cluster = cluster({ status: { phase: 'Hibernated' } })
  stage.advance(60)
  const answer = await stage.sync()
  t.equal(answer.resyncAfterSeconds, 30)
  matchWhole(t, answer.status, {
    phase: 'Ready',
    conditions: [
      {
        ...{ status: 'False', reason: 'ClusterHibernated' },
        message: 'cluster ns/a is hibernated: no pods run until its spec.hibernate is false',
      },
    ],
  })
  t.strictSame(stage.engine.calls, [])
  stage.cluster = cluster({ status: { phase: 'Running' } })
  matchWhole(t, await stage.syncNextInterval(), {
    phase: 'Ready',
    conditions: [{ status: 'True' }],
  })
})

t.test('a cluster in a namespace that is not watched: Pending, and nothing is asked', async (t) => {
  const stage = new CollectionHarness(
    collection({ clusterRef: { name: 'a', namespace: 'elsewhere' } }),
  )
  stage.cluster = cluster({ namespace: 'elsewhere' })
  stage.settings = { ...settings, namespaces: ['ns'] }
  const answer = await stage.sync()
  t.equal(answer.resyncAfterSeconds, 30)
  matchWhole(t, answer.status, {
    phase: 'Pending',
    conditions: [
      {
        reason: 'ClusterNotServed',
        message: 'cluster elsewhere/a is in a namespace that this operator does not watch',
      },
    ],
  })
  t.strictSame(stage.engine.calls, [])
  stage.settings = { ...settings, namespaces: ['ns', 'elsewhere'] }
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
})

t.test('cluster not ready: the message says why; retried in 30 s, no phase change', async (t) => {
  const stage = new CollectionHarness()
  stage.engine.isReady = false
  const answer = await stage.sync()
  t.equal(answer.resyncAfterSeconds, 30)
  matchWhole(t, answer.status, {
    phase: 'Pending',
    conditions: [
      {
        reason: 'ClusterNotReady',
        message:
          'cluster ns/a not ready: GET /readyz on vec-a answered 503: some shards are not ready',
      },
    ],
  })
  t.strictSame(stage.engine.calls, ['readyz'])
  stage.engine.isReady = true
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
})

t.test(
  'a collection that waits for a cluster is reconciled as soon as the cluster is ready',
  async (t) => {
    const stage = new CollectionHarness()
    stage.engine.isReady = false
    await stage.sync()
    stage.engine.isReady = true
    stage.advance(11)
    const ready = {
      type: 'Ready',
      status: 'True',
      reason: 'AllReplicasReady',
      message: '1/1',
    } as const
    stage.cluster = cluster({
      status: { conditions: [{ ...ready, lastTransitionTime: '2026-03-01T12:00:00Z' }] },
    })
    t.equal((await stage.sync()).status.phase, 'Ready')
  },
)

const condition = (type: string, status: 'True' | 'False') => {
  const lastTransitionTime = '2026-03-01T12:00:00Z'
  return { type, status, reason: 'AsItIs', message: 'as it is', lastTransitionTime }
}

t.test('only a change of a cluster’s readiness causes another pass', async (t) => {
  const stage = new CollectionHarness()
  const says = (other: 'True' | 'False', ready: 'True' | 'False') =>
    cluster({ status: { conditions: [condition('Other', other), condition('Ready', ready)] } })
  stage.cluster = says('False', 'False')
  stage.engine.isReady = false
  await stage.sync()
  stage.engine.isReady = true
  stage.advance(11)
  stage.engine.calls.length = 0
  stage.cluster = says('True', 'False')
  await stage.sync()
  t.strictSame(stage.engine.calls, [])
  stage.cluster = says('True', 'True')
  t.equal((await stage.sync()).status.phase, 'Ready')
})

t.test('a cluster without a status is called like any other', async (t) => {
  const stage = new CollectionHarness()
  stage.cluster = cluster({ status: {} })
  t.equal((await stage.sync()).status.phase, 'Ready')
})

t.test('Failed with an HTTP error: the message carries the response of the engine', async (t) => {
  const stage = new CollectionHarness(collection({ quantization: { scalr: {} } }))
  matchWhole(t, await stage.syncUntilStable(), {
    phase: 'Failed',
    error: /answered 400: .*data did not match any variant/,
    conditions: [{ reason: 'EngineRefused' }],
  })
  matchWhole(t, stage.events, [{ type: 'Warning', reason: 'EngineRefused' }])
  stage.applySpec({ quantization: {} })
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
})

for (const [title, error] of [
  [
    'no answer',
    new EngineError('GET /collections/docs got no answer', { cause: new Error('reset') }),
  ],
  ['half JSON', new EngineError('GET /collections/docs answered without a valid JSON body')],
  ['429', engineError(429, 'rate limit')],
  ['503', engineError(503, 'shard unavailable')],
  ['500', engineError(500, 'leader is not established')],
] as const) {
  t.test(
    `a transient problem is retried in 30 s with the reason, no phase change: ${title}`,
    async (t) => {
      const stage = new CollectionHarness()
      await stage.syncUntilStable()
      stage.engine.faults.set('collectionInfo', { error })
      stage.advance(60)
      const { status, resyncAfterSeconds } = await stage.sync()
      t.equal(resyncAfterSeconds, 30)
      matchWhole(t, status, {
        phase: 'Ready',
        health: 'green',
        conditions: [{ status: 'False', reason: 'EngineNotAnswering', message: error.message }],
      })
      stage.advance(30)
      matchWhole(t, (await stage.sync()).status, {
        phase: 'Ready',
        conditions: [{ status: 'True' }],
      })
    },
  )
}

for (const [asked, heeded] of [
  [60, 60],
  [0, 5],
  [86_400, 300],
] as const) {
  t.test(`a Retry-After of ${asked} s is heeded: checked again in ${heeded} s`, async (t) => {
    const stage = new CollectionHarness()
    await stage.syncUntilStable()
    const error = new EngineError('too many', { status: 429, retryAfterSeconds: asked })
    stage.engine.faults.set('collectionInfo', { error })
    stage.advance(60)
    t.equal((await stage.sync()).resyncAfterSeconds, heeded)
    stage.engine.calls.length = 0
    stage.advance(heeded - 1)
    await stage.sync()
    t.strictSame(stage.engine.calls, [])
    stage.advance(1)
    matchWhole(t, (await stage.sync()).status, { phase: 'Ready', conditions: [{ status: 'True' }] })
  })
}

for (const status of [401, 403]) {
  t.test(`${status} means the operator's key does not match: Failed`, async (t) => {
    const stage = new CollectionHarness()
    stage.engine.faults.set('aliases', { error: engineError(status, 'Invalid API key') })
    t.match(await stage.syncUntilStable(), { phase: 'Failed', error: /Invalid API key/ })
  })
}

t.test('no collection calls a cluster for 30 s after it did not answer', async (t) => {
  const stage = new CollectionHarness()
  const error = new EngineError('GET /collections/docs got no answer: timeout', {
    cause: new Error('timeout'),
  })
  stage.engine.faults.set('collectionInfo', { error, persists: true })
  await stage.sync()
  stage.engine.calls.length = 0
  const other = collection({}, { name: 'other' })
  const message = 'cluster ns/a not ready: a recent call got no answer: timeout'
  matchWhole(t, (await stage.sync(other)).status.conditions, [
    { reason: 'ClusterNotReady', message },
  ])
  t.strictSame(stage.engine.calls, [])
  stage.advance(31)
  await stage.sync(other)
  t.not(stage.engine.calls.length, 0)
})

for (const applied of [true, false]) {
  const what = applied ? 'applied after all' : 'lost'
  t.test(`after a time-out of a write the state is read before a result: ${what}`, async (t) => {
    const stage = new CollectionHarness(collection({ hnsw: { m: 32 }, aliases: ['live'] }))
    stage.engine.faults.set('createCollection', timeout(applied))
    const first = await stage.sync()
    t.equal(first.status.phase, applied ? 'Ready' : 'Pending')
    t.equal((await stage.syncNextInterval()).phase, 'Ready')
    stage.engine.liveInfo('docs').config.hnsw_config['m'] = 8
    stage.engine.faults.set('patchCollection', timeout(applied))
    stage.advance(60)
    const second = await stage.sync()
    matchWhole(t, second.status, {
      phase: 'Ready',
      ignored: undefined,
      conditions: [{ reason: applied ? 'CollectionReady' : 'EngineNotAnswering' }],
    })
    t.equal((await stage.syncNextInterval()).phase, 'Ready')
    stage.engine.aliasTargets.clear()
    stage.engine.faults.set('updateAliases', timeout(applied))
    stage.advance(60)
    matchWhole(t, (await stage.sync()).status.conditions, [{ status: applied ? 'True' : 'False' }])
    t.equal(stage.engine.liveInfo('docs').config.hnsw_config['m'], 32)
  })
}

t.test('a collection that is deleted by hand during a patch is recreated', async (t) => {
  const stage = new CollectionHarness(collection({ hnsw: { m: 32 } }))
  await stage.syncUntilStable()
  stage.engine.liveInfo('docs').config.hnsw_config['m'] = 8
  stage.engine.beforeCall = (name) => {
    if (name === 'patchCollection') stage.engine.collections.delete('docs')
  }
  t.equal((await stage.sync()).status.phase, 'Ready')
  stage.advance(60)
  const gone = await stage.sync()
  matchWhole(t, gone.status, {
    phase: 'Ready',
    conditions: [
      {
        status: 'False',
        reason: 'Waiting',
        message: 'collection docs was deleted during the reconcile',
      },
    ],
  })
  stage.engine.beforeCall = () => undefined
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
})

t.test('a missing collection that had points is reported, and not created empty', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  Object.assign(stage.parent.status ?? {}, { pointsCount: 242 })
  stage.engine.collections.clear()
  stage.time += 120_000
  const { status, events = [] } = await stage.sync()
  matchWhole(t, status, {
    phase: 'Failed',
    pointsCount: 242,
    conditions: [{ type: 'Ready', status: 'False', reason: 'CollectionMissing' }],
  })
  t.match(status.error, /is missing from the engine; it had 242 points/)
  matchWhole(
    t,
    events.map(({ reason }) => reason),
    ['CollectionMissing'],
  )
  t.equal(stage.engine.collections.size, 0)
})

t.test('a missing collection that was empty is recreated with a Warning', async (t) => {
  const recreated = async (pointsCount: number, annotations: Record<string, string>) => {
    const stage = new CollectionHarness(collection({}, { annotations }))
    await stage.syncUntilStable()
    Object.assign(stage.parent.status ?? {}, { pointsCount })
    stage.engine.collections.clear()
    stage.time += 120_000
    const { status, events = [] } = await stage.sync()
    return [status.phase, stage.engine.collections.size, ...events.map(({ reason }) => reason)]
  }
  const again = ['Ready', 1, 'CollectionRecreated']
  t.strictSame(await recreated(0, {}), again)
  const accepted = { 'vec-operator.dev/accept-risk': 'x, empty-collection' }
  t.strictSame(await recreated(5, accepted), again, 'where the loss is accepted')
})

t.test('while a restore holds the cluster a missing collection is not recreated', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  Object.assign(stage.parent.status ?? {}, { pointsCount: 242 })
  stage.engine.collections.clear()
  stage.holder = 'VecRestore ns/r'
  stage.time += 120_000
  matchWhole(t, (await stage.sync()).status, {
    phase: 'Ready',
    conditions: [{ reason: 'Waiting' }],
  })
  t.equal(stage.engine.collections.size, 0)
})
