/** The VecCollection hooks with an engine whose reads lag, that ignores fields, or that is silent. */
import t from 'tap'
import { cluster } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { engineError } from './engine-config.ts'
import { CollectionHarness, collection, keywordIndex, writeNames, vector } from './stage.ts'

t.test('a value is polled after a PATCH, for a read may still show the old one', async (t) => {
  const stage = new CollectionHarness(collection({ hnsw: { m: 32 } }))
  await stage.syncUntilStable()
  stage.engine.liveInfo('docs').config.hnsw_config['m'] = 8
  stage.engine.staleReads = 5
  stage.engine.writes.length = 0
  t.match(await stage.syncNextInterval(), { phase: 'Ready', ignored: undefined })
  t.strictSame(stage.engine.writes, [['patchCollection', 'docs', { hnsw_config: { m: 32 } }]])
})

t.test('readFanOutFactor is patched right after the collection is created', async (t) => {
  const stage = new CollectionHarness(collection({ readFanOutFactor: 0 }))
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
  t.strictSame(stage.engine.writes.at(-1), [
    'patchCollection',
    'docs',
    { params: { read_fan_out_factor: 0 } },
  ])
})

t.test(
  'a leaf silently ignored by the engine is found and named, and not patched again',
  async (t) => {
    const stage = new CollectionHarness(
      collection({
        hnsw: { m: 32, mm: 1 },
        quantization: { binary: { foo: 2 } },
        vectors: [{ ...vector, hnsw: { foo: 1 } }],
        payloadIndexes: [{ ...keywordIndex('a'), params: { is_tenant: true, bar: 2 } }],
      }),
    )
    const status = await stage.syncUntilStable()
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
    t.strictSame((await stage.syncNextInterval()).ignored, status.ignored)
    t.strictSame(stage.engine.writes, [], 'the same spec and engine')
    stage.engine.engineVersion = '1.19.0'
    t.match((await stage.syncNextInterval()).ignored, { engineVersion: '1.19.0' })
    t.ok(writeNames(stage.engine.writes).includes('patchCollection'), 'another engine')
    stage.applySpec({
      hnsw: { m: 32 },
      quantization: {},
      vectors: [vector],
      payloadIndexes: [keywordIndex('a')],
    })
    t.match(await stage.syncUntilStable(), { phase: 'Ready', ignored: undefined, error: undefined })
  },
)

t.test('a value next to one that the engine ignores is patched, and looked for', async (t) => {
  const stage = new CollectionHarness(
    collection({ quantization: { binary: { foo: 2, encoding: 'two_bits' } } }),
  )
  await stage.syncUntilStable()
  stage.engine.liveInfo('docs').config.quantization_config = { binary: { encoding: 'one_bit' } }
  stage.engine.staleReads = 2
  stage.waits.length = 0
  const { ignored } = await stage.syncNextInterval()
  t.strictSame(stage.engine.liveInfo('docs').config.quantization_config, {
    binary: { encoding: 'two_bits' },
  })
  t.strictSame(stage.waits, [10, 20], 'until the value shows, and not for the other one')
  t.strictSame(ignored?.paths, ['quantization.binary.foo'])
})

t.test('a value that is not sent, for the call would hang, is not looked for', async (t) => {
  const vectors = [{ ...vector, hnsw: { foo: 1 } }]
  const stage = new CollectionHarness(collection({ vectors, readFanOutFactor: 0 }))
  stage.engine.staleReads = 0
  const { ignored } = (await stage.sync()).status
  t.strictSame(writeNames(stage.engine.writes), ['createCollection', 'patchCollection'])
  t.strictSame(ignored?.paths, ['vectors[0].hnsw.foo'])
  t.strictSame(stage.waits, [])
})

t.test('ignored fields are recorded also if a later call of the reconcile fails', async (t) => {
  const stage = new CollectionHarness(collection({ hnsw: { mm: 1 }, replicationFactor: 1 }))
  stage.engine.faults.set('collectionCluster', {
    error: engineError(500, 'no replica'),
    persists: true,
  })
  matchWhole(t, (await stage.sync()).status, { phase: 'Pending', ignored: { paths: ['hnsw.mm'] } })
  stage.engine.writes.length = 0
  stage.advance(30)
  await stage.sync()
  t.strictSame(stage.engine.writes, [])
})

t.test(
  'Degraded names every differing path with desired and live value; nothing is changed',
  async (t) => {
    const stage = new CollectionHarness(
      collection({ aliases: ['live'], payloadIndexes: [keywordIndex('a')], replicationFactor: 1 }),
    )
    await stage.syncUntilStable()
    stage.engine.writes.length = 0
    stage.engine.replicas = { local_shards: [], remote_shards: [{ shard_id: 0, state: 'Dead' }] }
    stage.applySpec({
      vectors: [{ ...vector, size: 8 }],
      shardNumber: 3,
      aliases: [],
      payloadIndexes: [],
      hnsw: { m: 5 },
    })
    const error = 'vectors[0].size: desired 8, live 4; shardNumber: desired 3, live 1'
    matchWhole(t, await stage.syncUntilStable(), {
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
    stage.applySpec({ vectors: [vector], aliases: ['live'], hnsw: {} })
    stage.parent.spec = { ...stage.parent.spec, shardNumber: 1 }
    matchWhole(t, await stage.syncUntilStable(), {
      phase: 'Ready',
      error: undefined,
      payloadIndexes: [],
    })
  },
)

t.test('a restriction of strict mode that is added later reaches the engine', async (t) => {
  const stage = new CollectionHarness(collection())
  await stage.syncUntilStable()
  stage.engine.writes.length = 0
  const strictMode = { enabled: true, unindexed_filtering_retrieve: false }
  stage.applySpec({ strictMode })
  t.match(await stage.syncUntilStable(), { phase: 'Ready' })
  t.strictSame(stage.engine.writes, [
    ['patchCollection', 'docs', { strict_mode_config: strictMode }],
  ])
})

/** Whether it has ended by the time that everything which waits for no timer has run. */
async function isAnsweredAtOnce(hook: Promise<unknown>): Promise<boolean> {
  let isAnswered = false
  void hook.then(() => {
    isAnswered = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  return isAnswered
}

/** Collections of a cluster whose engine never answers. */
function silentEngine() {
  const stage = new CollectionHarness(undefined, 100)
  stage.engine.beforeCall = () => new Promise(() => undefined)
  const sync = (name: string) => stage.sync(collection({}, { name }))
  const finalize = (name: string) => {
    stage.parent = collection({ deletionPolicy: 'Delete' }, { name })
    return stage.finalize()
  }
  return { stage, hooks: { sync, finalize } }
}

for (const hook of ['sync', 'finalize'] as const) {
  t.test(`of the collections of a silent engine, one ${hook} waits for it`, async (t) => {
    const { stage, hooks } = silentEngine()
    const first = hooks[hook]('first')
    t.notOk(await isAnsweredAtOnce(first), 'the engine may answer in time')
    await first
    t.ok(await isAnsweredAtOnce(hooks[hook]('second')))
    stage.cluster = cluster({ name: 'b' })
    const elsewhere = hooks[hook]('elsewhere')
    t.notOk(await isAnsweredAtOnce(elsewhere), 'another engine may be faster')
    await elsewhere
  })
}
