/** The VecCollection hooks without failures: created objects, the next check, and the number of requests. */
import t from 'tap'
import { cluster } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { CollectionHarness, collection, keywordIndex, writeNames, vector } from './stage.ts'

t.test(
  'CollectionReady: collection, indexes and aliases match spec; every field of status',
  async (t) => {
    const stage = new CollectionHarness(
      collection({ payloadIndexes: [keywordIndex('a')], aliases: ['live'], replicationFactor: 1 }),
    )
    t.strictSame(await stage.syncUntilStable(), {
      phase: 'Ready',
      collectionName: 'docs',
      health: 'green',
      pointsCount: 0,
      indexedVectorsCount: 0,
      segmentsCount: 2,
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
    t.strictSame(writeNames(stage.engine.writes), ['createCollection', 'updateAliases', 'putIndex'])
    t.strictSame(
      stage.events.map(({ type, reason }) => [type, reason]),
      [['Normal', 'CollectionReady']],
    )
  },
)

t.test('the first reconcile enters Pending while the first read is in progress', async (t) => {
  const stage = new CollectionHarness(undefined, 1)
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.beforeCall = () => gate
  matchWhole(t, (await stage.sync()).status, {
    phase: 'Pending',
    collectionName: 'docs',
    conditions: [{ type: 'Ready', status: 'False', reason: 'Reconciling' }],
  })
  open()
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
})

t.test('reconciled at once when its spec is updated', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  stage.applySpec({ hnsw: { m: 5 }, aliases: ['live'], payloadIndexes: [keywordIndex('a')] })
  stage.engine.writes.length = 0
  matchWhole(t, (await stage.sync()).status, { phase: 'Ready', aliases: ['live'] })
  t.strictSame(writeNames(stage.engine.writes), ['patchCollection', 'updateAliases'])
  matchWhole(t, await stage.syncNextInterval(), { phase: 'Ready', payloadIndexes: ['a'] })
})

t.test('a value that was set while its spec changed is removed by the next one', async (t) => {
  const stage = new CollectionHarness(undefined, 1)
  await stage.syncUntilStable()
  stage.applySpec({ aliases: ['kept', 'dropped'], payloadIndexes: [keywordIndex('a')] })
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.beforeCall = () => gate
  await stage.sync()
  stage.applySpec({ aliases: ['kept'], payloadIndexes: [] })
  open()
  while (stage.engine.aliasTargets.size < 2) await new Promise((resolve) => setImmediate(resolve))
  t.strictSame([...stage.engine.aliasTargets.keys()].toSorted(), ['dropped', 'kept'])
  t.strictSame(stage.parent.status?.aliases, [], 'no status has them')
  matchWhole(t, await stage.syncUntilStable(), { phase: 'Ready', aliases: ['kept'] })
  t.strictSame([...stage.engine.aliasTargets.keys()], ['kept'])
  t.strictSame(Object.keys(stage.engine.liveInfo('docs').payload_schema), [])
})

t.test('64 vectors, 64 sparse vectors, 256 indexes and 64 aliases at once', async (t) => {
  const each = <Field>(count: number, field: (name: string) => Field) =>
    Array.from({ length: count }, (_, index) => field(`n${index}`))
  const stage = new CollectionHarness(
    collection({
      vectors: each(64, (name) => ({ ...vector, name })),
      sparseVectors: each(64, (name) => ({ name: `sparse-${name}`, index: {} })),
      payloadIndexes: each(256, keywordIndex),
      aliases: each(64, (name) => name),
    }),
  )
  const { phase, payloadIndexes = [], aliases = [] } = await stage.syncUntilStable()
  t.strictSame([phase, payloadIndexes.length, aliases.length], ['Ready', 256, 64])
  t.equal(stage.engine.writes.filter(([name]) => name === 'updateAliases').length, 1)
  const { vectors, sparse_vectors } = stage.engine.liveInfo('docs').config.params
  t.strictSame(
    [vectors, sparse_vectors].map((all) => Object.keys(all ?? {}).length),
    [64, 64],
  )
  stage.engine.writes.length = 0
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
  t.strictSame(stage.engine.writes, [])
})

t.test('a no-change pass costs at most two calls of its own', async (t) => {
  const stage = new CollectionHarness(
    collection({ replicationFactor: 1, payloadIndexes: [keywordIndex('a')] }),
  )
  await stage.syncUntilStable()
  stage.engine.calls.length = 0
  await stage.syncNextInterval()
  t.strictSame(stage.engine.calls, [
    'readyz',
    'aliases',
    'version',
    'collectionInfo',
    'collectionCluster',
  ])
})

t.test('reconciled every 60 s; in between the last result is shown, without a call', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  const { length } = stage.engine.calls
  stage.advance(40)
  const { resyncAfterSeconds = 0, status } = await stage.sync()
  t.equal(stage.engine.calls.length, length)
  t.equal(status.phase, 'Ready')
  t.ok(resyncAfterSeconds >= 10 && resyncAfterSeconds <= 20)
})

t.test('a resync of a thousand collections after a start spreads out', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
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

t.test('drift by hand in the engine is corrected within a minute', async (t) => {
  const stage = new CollectionHarness(
    collection({ hnsw: { m: 32 }, aliases: ['live'], payloadIndexes: [keywordIndex('a')] }),
  )
  await stage.syncUntilStable()
  stage.engine.writes.length = 0
  stage.engine.liveInfo('docs').config.hnsw_config['m'] = 8
  stage.engine.aliasTargets.delete('live')
  stage.engine.liveInfo('docs').payload_schema['a'] = { data_type: 'integer' }
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
  t.strictSame(writeNames(stage.engine.writes), ['patchCollection', 'putIndex', 'updateAliases'])
  t.equal(stage.engine.liveInfo('docs').config.hnsw_config['m'], 32)
  t.equal(stage.engine.liveInfo('docs').payload_schema['a']?.data_type, 'keyword')
})

t.test('a restore that holds the cluster: the repair waits and says so', async (t) => {
  const stage = new CollectionHarness(collection({ hnsw: { m: 32 } }))
  await stage.syncUntilStable()
  stage.engine.liveInfo('docs').config.hnsw_config['m'] = 8
  stage.engine.writes.length = 0
  stage.holder = 'VecRestore ns/r'
  stage.advance(60)
  matchWhole(t, (await stage.sync()).status, {
    phase: 'Ready',
    conditions: [
      {
        status: 'False',
        message: 'waiting for VecRestore ns/r, which holds the write Lease of the cluster',
      },
    ],
  })
  t.strictSame(stage.engine.writes, [])
})

t.test('a cluster that moves to TLS or a new key is asked at once', async (t) => {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  const { length } = stage.engine.calls
  stage.cluster = cluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } })
  matchWhole(t, (await stage.sync()).status.conditions, [{ status: 'True' }])
  t.ok(stage.engine.calls.length > length)
})

t.test('a cluster may name the namespaces that may use its key', async (t) => {
  const stage = new CollectionHarness(collection({ clusterRef: { name: 'a', namespace: 'else' } }))
  const elsewhere = cluster({ annotations: { 'vec-operator.dev/allowed-namespaces': 'one, two' } })
  elsewhere.metadata.namespace = 'else'
  stage.cluster = elsewhere
  matchWhole(t, (await stage.sync()).status, {
    phase: 'Failed',
    conditions: [{ reason: 'RefNotPermitted' }],
  })
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.calls, [])
})

t.test('a cluster that names no namespaces may be used from all of them', async (t) => {
  const clusterRef = { name: 'a', namespace: 'else' }
  const stage = new CollectionHarness(collection({ clusterRef, deletionPolicy: 'Delete' }))
  stage.cluster = cluster({ namespace: 'else' })
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
  t.ok(stage.engine.collections.has('docs'))
  t.equal((await stage.finalize()).finalized, true)
  t.notOk(stage.engine.collections.has('docs'))
})

t.test('a namespace that the cluster refuses claims neither a name nor an alias', async (t) => {
  const claimed = collection({ aliases: ['live'] })
  const rival = collection({ clusterRef: { name: 'a', namespace: 'ns' }, aliases: ['live'] })
  Object.assign(rival.metadata, {
    ...{ namespace: 'far', name: 'docs', uid: 'uid-rival' },
    creationTimestamp: '2020-01-01T00:00:00Z',
  })
  const stage = new CollectionHarness(claimed)
  stage.otherCollections = [rival]
  stage.cluster = cluster({ annotations: { 'vec-operator.dev/allowed-namespaces': '' } })
  matchWhole(t, await stage.syncUntilStable(), { phase: 'Ready', aliases: ['live'] })
  const open = new CollectionHarness(collection({ aliases: ['live'] }))
  open.otherCollections = [rival]
  t.match((await open.syncUntilStable()).error, /belongs to VecCollection far\/docs/)
})

t.test('at most eight passes of a cluster run concurrently', async (t) => {
  const stage = new CollectionHarness(undefined, 1)
  let running = 0
  let most = 0
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.beforeCall = async (name) => {
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
  stage.engine.beforeCall = () => undefined
  for (let look = 0; last !== undefined && look < 500; look += 1) {
    if ((await stage.sync(last)).status.phase === 'Ready') break
  }
  t.equal(stage.engine.collections.size, 20)
})

t.test('drift is corrected within a minute although the clock was set back', async (t) => {
  const stage = new CollectionHarness(collection({ hnsw: { m: 32 } }))
  await stage.syncUntilStable()
  stage.engine.liveInfo('docs').config.hnsw_config['m'] = 8
  stage.advance(-3600)
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
  t.equal(stage.engine.liveInfo('docs').config.hnsw_config['m'], 32)
})
