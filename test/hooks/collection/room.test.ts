import t from 'tap'
import { EngineError } from '../../../crds/errors.ts'
import { cluster, settings } from '../../builders.ts'
import { refused } from './engine.ts'
import { Stage, collection } from './stage.ts'

const names = (writes: readonly unknown[][]) => writes.map(([name]) => name)
const vector = { size: 4, distance: 'Cosine', hnsw: {}, quantization: {} } as const
const keyword = (field: string) => ({ field, type: 'keyword' as const, params: {} })
const timeout = (applied = false, stays = false) => ({
  error: refused(500, 'Waiting for consensus operation commit failed'),
  applied,
  stays,
})

t.test(
  'CollectionReady: collection, indexes and aliases match spec; every field of status',
  async (t) => {
    const stage = new Stage(
      collection({ payloadIndexes: [keyword('a')], aliases: ['live'], replicationFactor: 1 }),
    )
    t.strictSame(await stage.settle(), {
      phase: 'Ready',
      collectionName: 'docs',
      health: 'green',
      pointsCount: 0,
      indexedVectorsCount: 0,
      segmentsCount: 6,
      payloadIndexes: ['a'],
      aliases: ['live'],
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'CollectionReady',
          message: 'collection, indexes and aliases match spec',
          lastTransitionTime: stage.parent.status?.conditions?.[0]?.lastTransitionTime,
          observedGeneration: 1,
        },
        {
          type: 'Replicated',
          status: 'True',
          reason: 'AllReplicasActive',
          message: '1 of 1 replicas are Active',
          lastTransitionTime: '2026-03-01T12:00:00Z',
          observedGeneration: 1,
        },
      ],
    })
    t.strictSame(names(stage.engine.writes), ['createCollection', 'updateAliases', 'putIndex'])
    t.strictSame(
      stage.events.map(({ type, reason }) => [type, reason]),
      [['Normal', 'CollectionReady']],
    )
  },
)

t.test('the first reconcile enters Pending while the first look is under way', async (t) => {
  const stage = new Stage(undefined, 1)
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.before = () => gate
  t.match((await stage.sync()).status, {
    phase: 'Pending',
    collectionName: 'docs',
    conditions: [{ type: 'Ready', status: 'False', reason: 'Reconciling' }],
  })
  open()
  t.equal((await stage.settle()).phase, 'Ready')
})

t.test('reconciled at once when its spec is updated', async (t) => {
  const stage = new Stage()
  await stage.settle()
  stage.change({ hnsw: { m: 5 }, aliases: ['live'], payloadIndexes: [keyword('a')] })
  stage.engine.writes.length = 0
  t.match((await stage.sync()).status, { phase: 'Ready', aliases: ['live'] })
  t.strictSame(names(stage.engine.writes), ['patchCollection', 'updateAliases'])
  t.match(await stage.nextPass(), { phase: 'Ready', payloadIndexes: ['a'] })
})

t.test('64 vectors, 64 sparse vectors, 256 indexes and 64 aliases at once', async (t) => {
  const each = <Field>(count: number, field: (name: string) => Field) =>
    Array.from({ length: count }, (_, index) => field(`n${index}`))
  const stage = new Stage(
    collection({
      vectors: each(64, (name) => ({ ...vector, name })),
      sparseVectors: each(64, (name) => ({ name: `sparse-${name}`, index: {} })),
      payloadIndexes: each(256, keyword),
      aliases: each(64, (name) => name),
    }),
  )
  const { phase, payloadIndexes = [], aliases = [] } = await stage.settle()
  t.strictSame([phase, payloadIndexes.length, aliases.length], ['Ready', 256, 64])
  t.equal(stage.engine.writes.filter(([name]) => name === 'updateAliases').length, 1)
  const { vectors, sparse_vectors } = stage.engine.live('docs').config.params
  t.strictSame(
    [vectors, sparse_vectors].map((all) => Object.keys(all ?? {}).length),
    [64, 64],
  )
  stage.engine.writes.length = 0
  t.equal((await stage.nextPass()).phase, 'Ready')
  t.strictSame(stage.engine.writes, [])
})

t.test('a no-change pass costs at most two calls of its own', async (t) => {
  const stage = new Stage(collection({ replicationFactor: 1, payloadIndexes: [keyword('a')] }))
  await stage.settle()
  stage.engine.calls.length = 0
  await stage.nextPass()
  t.strictSame(stage.engine.calls, [
    'readyz',
    'aliases',
    'version',
    'collectionInfo',
    'collectionCluster',
  ])
})

t.test('reconciled every 60 s: what is known is shown in between, without a call', async (t) => {
  const stage = new Stage()
  await stage.settle()
  const { length } = stage.engine.calls
  stage.later(40)
  const { resyncAfterSeconds = 0, status } = await stage.sync()
  t.equal(stage.engine.calls.length, length)
  t.equal(status.phase, 'Ready')
  t.ok(resyncAfterSeconds >= 10 && resyncAfterSeconds <= 20)
})

t.test('a resync of a thousand collections after a start spreads out', async (t) => {
  const stage = new Stage()
  await stage.settle()
  const { status } = stage.parent
  const due: number[] = []
  for (let index = 0; index < 1000; index += 1) {
    const metadata = { name: `docs-${index}`, uid: `uid-${index}` }
    const { resyncAfterSeconds = 0 } = await stage.sync(collection({}, metadata, status))
    due.push(resyncAfterSeconds)
  }
  t.ok(stage.engine.calls.length < 50)
  for (let start = 0; start < 50; start += 10) {
    const share = due.filter((seconds) => seconds > start && seconds <= start + 10).length
    t.ok(share > 120 && share < 280, `${share} between ${start} s and ${start + 10} s`)
  }
})

t.test('drift made by hand in the engine is put right within a minute', async (t) => {
  const stage = new Stage(
    collection({ hnsw: { m: 32 }, aliases: ['live'], payloadIndexes: [keyword('a')] }),
  )
  await stage.settle()
  stage.engine.writes.length = 0
  stage.engine.live('docs').config.hnsw_config['m'] = 8
  stage.engine.aliasTargets.delete('live')
  stage.engine.live('docs').payload_schema['a'] = { data_type: 'integer' }
  t.equal((await stage.nextPass()).phase, 'Ready')
  t.strictSame(names(stage.engine.writes), ['patchCollection', 'putIndex', 'updateAliases'])
  t.equal(stage.engine.live('docs').config.hnsw_config['m'], 32)
  t.equal(stage.engine.live('docs').payload_schema['a']?.data_type, 'keyword')
})

t.test('a value is polled after a PATCH, for a read may still show the old one', async (t) => {
  const stage = new Stage(collection({ hnsw: { m: 32 } }))
  await stage.settle()
  stage.engine.live('docs').config.hnsw_config['m'] = 8
  stage.engine.staleReads = 5
  stage.engine.writes.length = 0
  t.match(await stage.nextPass(), { phase: 'Ready', ignored: undefined })
  t.strictSame(stage.engine.writes, [['patchCollection', 'docs', { hnsw_config: { m: 32 } }]])
})

t.test('readFanOutFactor is patched right after the collection is made', async (t) => {
  const stage = new Stage(collection({ readFanOutFactor: 0 }))
  t.equal((await stage.settle()).phase, 'Ready')
  t.strictSame(stage.engine.writes.at(-1), [
    'patchCollection',
    'docs',
    { params: { read_fan_out_factor: 0 } },
  ])
})

t.test(
  'a leaf silently ignored by the engine is found and named, and not patched again',
  async (t) => {
    const stage = new Stage(
      collection({
        hnsw: { m: 32, mm: 1 },
        quantization: { binary: { foo: 2 } },
        vectors: [{ ...vector, hnsw: { foo: 1 } }],
        payloadIndexes: [{ ...keyword('a'), params: { is_tenant: true, bar: 2 } }],
      }),
    )
    const status = await stage.settle()
    const paths = [
      'hnsw.mm',
      'payloadIndexes[a].params.bar',
      'quantization.binary.foo',
      'vectors[0].hnsw.foo',
    ]
    t.match(status, {
      phase: 'Failed',
      error: `engine 1.18.3 ignores ${paths.join(', ')}`,
      ignored: { generation: 1, engineVersion: '1.18.3', paths },
    })
    stage.engine.writes.length = 0
    t.strictSame((await stage.nextPass()).ignored, status.ignored)
    t.strictSame(stage.engine.writes, [], 'the same spec and engine')
    stage.engine.release = '1.19.0'
    t.match((await stage.nextPass()).ignored, { engineVersion: '1.19.0' })
    t.ok(names(stage.engine.writes).includes('patchCollection'), 'another engine')
    stage.change({
      hnsw: { m: 32 },
      quantization: {},
      vectors: [vector],
      payloadIndexes: [keyword('a')],
    })
    t.match(await stage.settle(), { phase: 'Ready', ignored: undefined, error: undefined })
  },
)

t.test('what the engine ignores is known also when a later call of the pass fails', async (t) => {
  const stage = new Stage(collection({ hnsw: { mm: 1 }, replicationFactor: 1 }))
  stage.engine.faults.set('collectionCluster', { error: refused(500, 'no replica'), stays: true })
  t.match((await stage.sync()).status, { phase: 'Pending', ignored: { paths: ['hnsw.mm'] } })
  stage.engine.writes.length = 0
  stage.later(30)
  await stage.sync()
  t.strictSame(stage.engine.writes, [])
})

t.test(
  'Degraded names every differing path with wanted and live value; nothing is touched',
  async (t) => {
    const stage = new Stage(
      collection({ aliases: ['live'], payloadIndexes: [keyword('a')], replicationFactor: 1 }),
    )
    await stage.settle()
    stage.engine.writes.length = 0
    stage.engine.copies = { local_shards: [], remote_shards: [{ shard_id: 0, state: 'Dead' }] }
    stage.change({
      vectors: [{ ...vector, size: 8 }],
      shardNumber: 3,
      aliases: [],
      payloadIndexes: [],
      hnsw: { m: 5 },
    })
    const error = 'vectors[0].size: wanted 8, live 4; shardNumber: wanted 3, live 1'
    t.match(await stage.settle(), {
      phase: 'Degraded',
      error,
      payloadIndexes: ['a'],
      aliases: ['live'],
      conditions: [
        { reason: 'ImmutableFieldMismatch', message: error },
        {
          type: 'Replicated',
          status: 'False',
          reason: 'ReplicasMissing',
          message: '0 of 1 replicas are Active',
        },
      ],
    })
    t.strictSame(stage.engine.writes, [])
    stage.change({ vectors: [vector], aliases: ['live'], hnsw: {} })
    stage.parent.spec = { ...stage.parent.spec, shardNumber: 1 }
    t.match(await stage.settle(), { phase: 'Ready', error: undefined, payloadIndexes: [] })
  },
)

t.test('cluster not found: retried in 30 s, no phase change', async (t) => {
  const stage = new Stage()
  stage.cluster = undefined
  const first = await stage.sync()
  t.equal(first.resyncAfterSeconds, 30)
  t.match(first.status, {
    phase: 'Pending',
    conditions: [{ status: 'False', reason: 'ClusterNotFound', message: 'cluster ns/a not found' }],
  })
  stage.cluster = cluster()
  await stage.settle()
  stage.cluster = undefined
  t.match((await stage.sync()).status, { phase: 'Ready', health: 'green' })
})

t.test('a cluster in a namespace that is not served: Pending, and nothing is asked', async (t) => {
  const stage = new Stage(collection({ clusterRef: { name: 'a', namespace: 'elsewhere' } }))
  stage.cluster = cluster({ namespace: 'elsewhere' })
  stage.settings = { ...settings, namespaces: ['ns'] }
  const answer = await stage.sync()
  t.equal(answer.resyncAfterSeconds, 30)
  t.match(answer.status, {
    phase: 'Pending',
    conditions: [
      {
        reason: 'ClusterNotServed',
        message: 'cluster elsewhere/a is in a namespace that this operator does not serve',
      },
    ],
  })
  t.strictSame(stage.engine.calls, [])
})

t.test(
  'cluster not ready: /readyz did not answer 200; retried in 30 s, no phase change',
  async (t) => {
    const stage = new Stage()
    stage.engine.isReady = false
    const answer = await stage.sync()
    t.equal(answer.resyncAfterSeconds, 30)
    t.match(answer.status, {
      phase: 'Pending',
      conditions: [{ reason: 'ClusterNotReady', message: 'cluster ns/a not ready' }],
    })
    t.strictSame(stage.engine.calls, ['readyz'])
    stage.engine.isReady = true
    t.equal((await stage.nextPass()).phase, 'Ready')
  },
)

t.test('who waits for a cluster looks again as soon as the cluster says it is ready', async (t) => {
  const stage = new Stage()
  stage.engine.isReady = false
  await stage.sync()
  stage.engine.isReady = true
  stage.later(11)
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
})

t.test('Failed with an HTTP error: the message carries the response of the engine', async (t) => {
  const stage = new Stage(collection({ quantization: { scalr: {} } }))
  t.match(await stage.settle(), {
    phase: 'Failed',
    error: /answered 400: data did not match any variant/,
    conditions: [{ reason: 'EngineRefused' }],
  })
  t.match(stage.events, [{ type: 'Warning', reason: 'EngineRefused' }])
  stage.change({ quantization: {} })
  t.equal((await stage.settle()).phase, 'Ready')
})

for (const [title, error] of [
  [
    'no answer',
    new EngineError('GET /collections/docs got no answer', { cause: new Error('reset') }),
  ],
  ['half JSON', new EngineError('GET /collections/docs answered without a valid JSON body')],
  ['429', refused(429, 'rate limit')],
  ['503', refused(503, 'shard unavailable')],
  ['500', refused(500, 'leader is not established')],
] as const) {
  t.test(
    `a transient problem is retried in 30 s with the reason, no phase change: ${title}`,
    async (t) => {
      const stage = new Stage()
      await stage.settle()
      stage.engine.faults.set('collectionInfo', { error })
      stage.later(60)
      const { status, resyncAfterSeconds } = await stage.sync()
      t.equal(resyncAfterSeconds, 30)
      t.match(status, {
        phase: 'Ready',
        health: 'green',
        conditions: [{ status: 'False', reason: 'EngineNotAnswering', message: error.message }],
      })
      stage.later(30)
      t.match((await stage.sync()).status, { phase: 'Ready', conditions: [{ status: 'True' }] })
    },
  )
}

for (const [asked, heeded] of [
  [60, 60],
  [0, 5],
  [86_400, 300],
] as const) {
  t.test(`a Retry-After of ${asked} s is heeded: looked at again in ${heeded} s`, async (t) => {
    const stage = new Stage()
    await stage.settle()
    const error = new EngineError('too many', { status: 429, retryAfterSeconds: asked })
    stage.engine.faults.set('collectionInfo', { error })
    stage.later(60)
    t.equal((await stage.sync()).resyncAfterSeconds, heeded)
    stage.engine.calls.length = 0
    stage.later(heeded - 1)
    await stage.sync()
    t.strictSame(stage.engine.calls, [])
    stage.later(1)
    t.match((await stage.sync()).status, { phase: 'Ready', conditions: [{ status: 'True' }] })
  })
}

for (const status of [401, 403]) {
  t.test(`${status} means the operator's key does not match: Failed`, async (t) => {
    const stage = new Stage()
    stage.engine.faults.set('aliases', { error: refused(status, 'Invalid API key') })
    t.match(await stage.settle(), { phase: 'Failed', error: /Invalid API key/ })
  })
}

t.test('a cluster that did not answer is left alone for 30 s by all its collections', async (t) => {
  const stage = new Stage()
  const error = new EngineError('got no answer', { cause: new Error('timeout') })
  stage.engine.faults.set('collectionInfo', { error, stays: true })
  await stage.sync()
  stage.engine.calls.length = 0
  const other = collection({}, { name: 'other' })
  t.match((await stage.sync(other)).status.conditions, [{ reason: 'ClusterNotReady' }])
  t.strictSame(stage.engine.calls, [])
})

for (const applied of [true, false]) {
  const what = applied ? 'applied after all' : 'lost'
  t.test(`a time-out of a write is followed by a read, not by a verdict: ${what}`, async (t) => {
    const stage = new Stage(collection({ hnsw: { m: 32 }, aliases: ['live'] }))
    stage.engine.faults.set('createCollection', timeout(applied))
    const first = await stage.sync()
    t.equal(first.status.phase, applied ? 'Ready' : 'Pending')
    t.equal((await stage.nextPass()).phase, 'Ready')
    stage.engine.live('docs').config.hnsw_config['m'] = 8
    stage.engine.faults.set('patchCollection', timeout(applied))
    stage.later(60)
    const second = await stage.sync()
    t.match(second.status, {
      phase: 'Ready',
      ignored: undefined,
      conditions: [{ reason: applied ? 'CollectionReady' : 'EngineNotAnswering' }],
    })
    t.equal((await stage.nextPass()).phase, 'Ready')
    stage.engine.aliasTargets.clear()
    stage.engine.faults.set('updateAliases', timeout(applied))
    stage.later(60)
    t.match((await stage.sync()).status.conditions, [{ status: applied ? 'True' : 'False' }])
    t.equal(stage.engine.live('docs').config.hnsw_config['m'], 32)
  })
}

t.test('a collection deleted by hand while it is patched is made again', async (t) => {
  const stage = new Stage(collection({ hnsw: { m: 32 } }))
  await stage.settle()
  stage.engine.live('docs').config.hnsw_config['m'] = 8
  stage.engine.before = (name) => {
    if (name === 'patchCollection') stage.engine.collections.delete('docs')
  }
  t.equal((await stage.sync()).status.phase, 'Ready')
  stage.later(60)
  const gone = await stage.sync()
  t.match(gone.status, { phase: 'Ready', conditions: [{ status: 'False', reason: 'Waiting' }] })
  stage.engine.before = () => undefined
  t.equal((await stage.nextPass()).phase, 'Ready')
})

t.test(
  'an alias by the name of the collection is a conflict, and the other collection stays as it is',
  async (t) => {
    const stage = new Stage(collection({ hnsw: { m: 5 } }))
    await stage.engine.createCollection('other', { vectors: { size: 4, distance: 'Cosine' } })
    stage.engine.aliasTargets.set('docs', 'other')
    stage.engine.writes.length = 0
    t.match(await stage.settle(), {
      phase: 'Failed',
      error: 'docs is an alias of collection other',
    })
    t.strictSame(stage.engine.writes, [])
  },
)

t.test(
  'an alias by that name made after the last look at aliases is seen before a write',
  async (t) => {
    const stage = new Stage(collection({ hnsw: { m: 5 } }))
    await stage.engine.createCollection('other', { vectors: { size: 4, distance: 'Cosine' } })
    stage.engine.writes.length = 0
    stage.engine.before = (name) => {
      if (name === 'version') stage.engine.aliasTargets.set('docs', 'other')
    }
    t.match(await stage.settle(), {
      phase: 'Failed',
      error: 'docs is an alias of collection other',
    })
    t.strictSame(stage.engine.writes, [])
  },
)

t.test('of two VecCollections for one name the younger says so and touches nothing', async (t) => {
  const older = { name: 'older', creationTimestamp: '2026-01-01T00:00:00Z' }
  const stage = new Stage(collection({ hnsw: { m: 5 }, deletionPolicy: 'Delete' }))
  stage.others = [collection({ collectionName: 'docs' }, older)]
  t.match(await stage.settle(), {
    phase: 'Failed',
    error: 'collection docs belongs to VecCollection ns/older',
  })
  await stage.engine.createCollection('docs', { vectors: { size: 4, distance: 'Cosine' } })
  stage.engine.writes.length = 0
  t.equal((await stage.nextPass()).phase, 'Failed')
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.writes, [])
})

t.test(
  'of two VecCollections made in one second the one that adopted the name keeps it',
  async (t) => {
    const creationTimestamp = '2026-03-01T11:59:00Z'
    const named = { collectionName: 'docs', deletionPolicy: 'Delete' as const }
    const adopted = new Stage(collection(named, { name: 'first', uid: 'z', creationTimestamp }))
    await adopted.settle()
    const late = new Stage(collection(named, { name: 'late', uid: 'a', creationTimestamp }))
    late.others = [adopted.parent]
    const refusal = { phase: 'Failed', error: 'collection docs belongs to VecCollection ns/first' }
    t.match(await late.settle(), refusal)
    t.equal((await late.finalize()).finalized, true)
    t.strictSame(late.engine.writes, [])
    adopted.others = [late.parent]
    adopted.engine.faults.set('collectionInfo', { error: refused(401, 'Invalid API key') })
    t.match(await adopted.nextPass(), { phase: 'Failed', error: /Invalid API key/ })
    late.others = [adopted.parent]
    t.match(await late.nextPass(), refusal, 'also while the other one has failed')
    adopted.change({ hnsw: { m: 5 } })
    t.equal((await adopted.settle()).phase, 'Ready', 'it still writes')
  },
)

t.test('of two made in one second that nobody adopted yet the uid decides', async (t) => {
  const creationTimestamp = '2026-03-01T11:59:00Z'
  const stage = new Stage(collection({}, { uid: 'z', creationTimestamp }))
  stage.others = [
    collection({ collectionName: 'docs' }, { name: 'other', uid: 'a', creationTimestamp }),
  ]
  t.match(await stage.settle(), { phase: 'Failed', error: /belongs to VecCollection ns\/other/ })
})

t.test(
  'an alias is never taken from a collection while another VecCollection claims it',
  async (t) => {
    const stage = new Stage(collection({ aliases: ['live', 'own'] }))
    await stage.engine.createCollection('v1', {})
    stage.engine.aliasTargets.set('live', 'v1')
    stage.others = [collection({ aliases: ['live'] }, { name: 'v1' })]
    t.match(await stage.settle(), {
      phase: 'Failed',
      error: 'alias live is claimed by VecCollection ns/v1 and points at collection v1',
      aliases: ['own'],
      conditions: [{ reason: 'AliasClaimed' }],
    })
    t.equal(stage.engine.aliasTargets.get('live'), 'v1')
    stage.others = [collection({ aliases: [] }, { name: 'v1' })]
    t.match(await stage.nextPass(), { phase: 'Ready', aliases: ['live', 'own'] })
    t.equal(
      stage.engine.aliasTargets.get('live'),
      'docs',
      'it moves in one step once nobody claims it',
    )
  },
)

t.test('an alias nobody has goes to the older of those that claim it', async (t) => {
  const stage = new Stage(collection({ aliases: ['live'] }))
  stage.others = [
    collection({ aliases: ['live'] }, { name: 'v1', creationTimestamp: '2026-01-01T00:00:00Z' }),
  ]
  t.match(await stage.settle(), { phase: 'Failed', error: /claimed by VecCollection ns\/v1/ })
  stage.others = [
    collection({ aliases: ['live'] }, { name: 'v1', creationTimestamp: '2026-03-01T11:59:00Z' }),
  ]
  t.equal((await stage.nextPass()).phase, 'Ready')
})

t.test(
  'a dropped alias is released, unless it points elsewhere or somebody claims it',
  async (t) => {
    const stage = new Stage(collection({ aliases: ['a', 'b', 'c'] }))
    await stage.settle()
    await stage.engine.createCollection('other', {})
    stage.engine.aliasTargets.set('b', 'other')
    stage.others = [collection({ aliases: ['c'] }, { name: 'v2' })]
    stage.change({ aliases: [] })
    stage.engine.writes.length = 0
    stage.later(11)
    t.match(await stage.settle(), { phase: 'Ready', aliases: [] })
    t.strictSame(stage.engine.writes, [['updateAliases', [{ delete_alias: { alias_name: 'a' } }]]])
  },
)

t.test('an index someone else made is left alone', async (t) => {
  const stage = new Stage(collection({ payloadIndexes: [keyword('a'), keyword('b')] }))
  await stage.engine.createCollection('docs', { vectors: { size: 4, distance: 'Cosine' } })
  stage.engine.live('docs').payload_schema = {
    a: { data_type: 'integer' },
    c: { data_type: 'geo' },
  }
  t.match(await stage.settle(), {
    phase: 'Failed',
    payloadIndexes: ['b'],
    error:
      'payloadIndexes[a].type: wanted keyword, live integer; this resource did not make that index',
  })
  stage.change({ payloadIndexes: [] })
  t.match(await stage.settle(), { phase: 'Ready', payloadIndexes: [] })
  t.strictSame(Object.keys(stage.engine.live('docs').payload_schema), ['a', 'c'])
})

t.test(
  'an index the engine refuses is named, the others are made and the old one stays',
  async (t) => {
    const integer = (field: string, params: Record<string, unknown> = {}) => ({
      field,
      type: 'integer' as const,
      params,
    })
    const stage = new Stage(collection({ payloadIndexes: [integer('a')] }))
    await stage.settle()
    stage.change({ payloadIndexes: [integer('a', { range: false, lookup: false }), integer('b')] })
    t.match(await stage.settle(), {
      phase: 'Failed',
      error: /^payloadIndexes\[a\]: the engine answered 422/,
      payloadIndexes: ['a', 'b'],
    })
    t.strictSame(Object.keys(stage.engine.live('docs').payload_schema), ['a', 'b'])
  },
)

t.test('two payload indexes for one field are a conflict', async (t) => {
  const stage = new Stage(collection({ payloadIndexes: [keyword('a'), keyword('"a"')] }))
  t.match(await stage.settle(), {
    phase: 'Failed',
    error: 'payloadIndexes: a and "a" are the same field',
  })
})

t.test('a restore that holds the cluster: the repair waits and says so', async (t) => {
  const stage = new Stage(collection({ hnsw: { m: 32 } }))
  await stage.settle()
  stage.engine.live('docs').config.hnsw_config['m'] = 8
  stage.engine.writes.length = 0
  stage.holder = 'VecRestore ns/r'
  stage.later(60)
  t.match((await stage.sync()).status, {
    phase: 'Ready',
    conditions: [
      { status: 'False', message: 'waits for VecRestore ns/r, which holds the cluster' },
    ],
  })
  t.strictSame(stage.engine.writes, [])
})

t.test('a cluster that moves to TLS or a new key is asked at once', async (t) => {
  const stage = new Stage()
  await stage.settle()
  const { length } = stage.engine.calls
  stage.cluster = cluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } })
  t.match((await stage.sync()).status.conditions, [{ status: 'True' }])
  t.ok(stage.engine.calls.length > length)
})

t.test('a cluster may name the namespaces that may use its key', async (t) => {
  const stage = new Stage(collection({ clusterRef: { name: 'a', namespace: 'else' } }))
  const elsewhere = cluster({ annotations: { 'vec-operator.dev/allow-from': 'one, two' } })
  elsewhere.metadata.namespace = 'else'
  stage.cluster = elsewhere
  t.match((await stage.sync()).status, { phase: 'Failed', conditions: [{ reason: 'NotAllowed' }] })
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.calls, [])
})

t.test('at most eight passes of a cluster are under way at once', async (t) => {
  const stage = new Stage(undefined, 1)
  let running = 0
  let most = 0
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.before = async (name) => {
    if (name !== 'collectionInfo') return
    running += 1
    most = Math.max(most, running)
    await gate
    running -= 1
  }
  const many = Array.from({ length: 20 }, (_, index) => collection({}, { name: `c${index}` }))
  const answers = await Promise.all(many.map((each) => stage.sync(each)))
  t.equal(most, 8)
  t.ok(answers.every(({ status }) => status.phase === 'Pending'))
  t.equal(answers[0]?.resyncAfterSeconds, 2)
  open()
  const last = many.at(-1)
  stage.engine.before = () => undefined
  for (let look = 0; last !== undefined && look < 500; look += 1) {
    if ((await stage.sync(last)).status.phase === 'Ready') break
  }
  t.equal(stage.engine.collections.size, 20)
})
