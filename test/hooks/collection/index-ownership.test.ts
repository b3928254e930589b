/** The VecCollection hooks with collections, aliases and indexes that others created or claim. */
import t from 'tap'
import { ago } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { engineError } from './engine-config.ts'
import { CollectionHarness, collection, keywordIndex } from './stage.ts'

t.test(
  'an alias by the name of the collection is a conflict, and the other collection stays as it is',
  async (t) => {
    const stage = new CollectionHarness(collection({ hnsw: { m: 5 } }))
    await stage.engine.createCollection('other', { vectors: { size: 4, distance: 'Cosine' } })
    stage.engine.aliasTargets.set('docs', 'other')
    stage.engine.writes.length = 0
    t.match(await stage.syncUntilStable(), {
      phase: 'Failed',
      error: 'docs is an alias of collection other',
    })
    t.strictSame(stage.engine.writes, [])
  },
)

t.test(
  'an alias by that name made after the last look at aliases is seen before a write',
  async (t) => {
    const stage = new CollectionHarness(collection({ hnsw: { m: 5 } }))
    await stage.engine.createCollection('other', { vectors: { size: 4, distance: 'Cosine' } })
    stage.engine.writes.length = 0
    stage.engine.beforeCall = (name) => {
      if (name === 'version') stage.engine.aliasTargets.set('docs', 'other')
    }
    t.match(await stage.syncUntilStable(), {
      phase: 'Failed',
      error: 'docs is an alias of collection other',
    })
    t.strictSame(stage.engine.writes, [])
  },
)

t.test('a namespace that the cluster does not allow claims no name and no alias', async (t) => {
  const clusterRef = { name: 'a', namespace: 'ns' }
  const spec = { clusterRef, collectionName: 'docs', aliases: ['current'] }
  const squatter = collection(spec, {
    ...{ name: 'squat', namespace: 'far', creationTimestamp: '2026-01-01T00:00:00Z' },
  })
  const stage = new CollectionHarness(collection({ aliases: ['current'] }))
  stage.otherCollections = [squatter]
  t.match(await stage.syncUntilStable(), { phase: 'Failed' }, 'one that is allowed does')
  stage.settings = { ...stage.settings, crossNamespace: 'closed' }
  const owner = new CollectionHarness(collection({ aliases: ['current'] }))
  Object.assign(owner, { otherCollections: [squatter], settings: stage.settings })
  matchWhole(t, await owner.syncUntilStable(), { phase: 'Ready', aliases: ['current'] })
})

t.test('of two VecCollections for one name the younger says so and changes nothing', async (t) => {
  const older = { name: 'older', creationTimestamp: '2026-01-01T00:00:00Z' }
  const stage = new CollectionHarness(collection({ hnsw: { m: 5 }, deletionPolicy: 'Delete' }))
  stage.otherCollections = [collection({ collectionName: 'docs' }, older)]
  t.match(await stage.syncUntilStable(), {
    phase: 'Failed',
    error: 'collection docs belongs to VecCollection ns/older',
  })
  await stage.engine.createCollection('docs', { vectors: { size: 4, distance: 'Cosine' } })
  stage.engine.writes.length = 0
  t.equal((await stage.syncNextInterval()).phase, 'Failed')
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.writes, [])
})

t.test('a namespace that cannot be read blocks only what may be taken from it', async (t) => {
  const docs = { vectors: { size: 4, distance: 'Cosine' } }
  const stageWith = async (unreadable: string[]) => {
    const stage = new CollectionHarness(collection({ hnsw: { m: 5 }, deletionPolicy: 'Delete' }))
    await stage.engine.createCollection('docs', docs)
    stage.engine.writes.length = 0
    stage.unreadable = unreadable
    return stage
  }
  const waiting = await stageWith(['far'])
  const { status } = await waiting.sync()
  t.equal(status.phase, 'Pending')
  const message = String(status.conditions?.[0]?.message)
  t.match(message, /^collection docs exists and may belong to .* namespace far, which/)
  t.equal((await waiting.finalize()).finalized, true)
  t.strictSame(waiting.engine.writes, [], 'it was never its own: nothing is deleted')

  const forbidden = await stageWith(['far'])
  forbidden.settings = { ...forbidden.settings, crossNamespace: 'closed' }
  t.match(await forbidden.syncUntilStable(), { phase: 'Ready' }, 'far may not use the cluster')

  const created = await stageWith(['far'])
  await created.engine.deleteCollection('docs')
  t.match(await created.syncUntilStable(), { phase: 'Ready' }, 'there was no collection')

  const adopted = await stageWith([])
  await adopted.syncUntilStable()
  adopted.unreadable = ['far']
  adopted.applySpec({ hnsw: { m: 7 }, deletionPolicy: 'Delete' })
  t.match(await adopted.syncUntilStable(), { phase: 'Ready' }, 'it still changes its own')
  t.equal((await adopted.finalize()).finalized, true)
  t.notOk(adopted.engine.collections.has('docs'))
})

t.test(
  'of two VecCollections made in one second the one that adopted the name keeps it',
  async (t) => {
    const creationTimestamp = '2026-03-01T11:59:00Z'
    const named = { collectionName: 'docs', deletionPolicy: 'Delete' as const }
    const adopted = new CollectionHarness(
      collection(named, { name: 'first', uid: 'z', creationTimestamp }),
    )
    await adopted.syncUntilStable()
    const late = new CollectionHarness(
      collection(named, { name: 'late', uid: 'a', creationTimestamp }),
    )
    late.otherCollections = [adopted.parent]
    const failure = { phase: 'Failed', error: 'collection docs belongs to VecCollection ns/first' }
    t.match(await late.syncUntilStable(), failure)
    t.equal((await late.finalize()).finalized, true)
    t.strictSame(late.engine.writes, [])
    adopted.otherCollections = [late.parent]
    adopted.engine.faults.set('collectionInfo', { error: engineError(401, 'Invalid API key') })
    t.match(await adopted.syncNextInterval(), { phase: 'Failed', error: /Invalid API key/ })
    late.otherCollections = [adopted.parent]
    t.match(await late.syncNextInterval(), failure, 'also while the other one has failed')
    adopted.applySpec({ hnsw: { m: 5 } })
    t.equal((await adopted.syncUntilStable()).phase, 'Ready', 'it still writes')
  },
)

t.test(
  'of two resources created in the same second without an adoption the uid decides',
  async (t) => {
    const creationTimestamp = '2026-03-01T11:59:00Z'
    const stage = new CollectionHarness(collection({}, { uid: 'z', creationTimestamp }))
    stage.otherCollections = [
      collection({ collectionName: 'docs' }, { name: 'other', uid: 'a', creationTimestamp }),
    ]
    t.match(await stage.syncUntilStable(), {
      phase: 'Failed',
      error: /belongs to VecCollection ns\/other/,
    })
  },
)

t.test(
  'an alias is never taken from a collection while another VecCollection claims it',
  async (t) => {
    const stage = new CollectionHarness(collection({ aliases: ['live', 'own'] }))
    await stage.engine.createCollection('v1', {})
    stage.engine.aliasTargets.set('live', 'v1')
    stage.otherCollections = [collection({ aliases: ['live'] }, { name: 'v1' })]
    matchWhole(t, await stage.syncUntilStable(), {
      phase: 'Failed',
      error: 'alias live is claimed by VecCollection ns/v1 and points at collection v1',
      aliases: ['own'],
      conditions: [{ reason: 'AliasClaimed' }],
    })
    t.equal(stage.engine.aliasTargets.get('live'), 'v1')
    stage.otherCollections = [collection({ aliases: [] }, { name: 'v1' })]
    matchWhole(t, await stage.syncNextInterval(), { phase: 'Ready', aliases: ['live', 'own'] })
    t.equal(
      stage.engine.aliasTargets.get('live'),
      'docs',
      'it moves in one step once no resource claims it',
    )
  },
)

t.test('a free alias goes to the older of the resources that claim it', async (t) => {
  const stage = new CollectionHarness(collection({ aliases: ['live'] }))
  stage.otherCollections = [
    collection({ aliases: ['live'] }, { name: 'v1', creationTimestamp: '2026-01-01T00:00:00Z' }),
  ]
  t.match(await stage.syncUntilStable(), {
    phase: 'Failed',
    error: /claimed by VecCollection ns\/v1/,
  })
  stage.otherCollections = [
    collection({ aliases: ['live'] }, { name: 'v1', creationTimestamp: '2026-03-01T11:59:00Z' }),
  ]
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
})

t.test(
  'an alias that leaves the spec is deleted, unless it points elsewhere or another resource claims it',
  async (t) => {
    const stage = new CollectionHarness(collection({ aliases: ['a', 'b', 'c'] }))
    await stage.syncUntilStable()
    await stage.engine.createCollection('other', {})
    stage.engine.aliasTargets.set('b', 'other')
    stage.otherCollections = [collection({ aliases: ['c'] }, { name: 'v2' })]
    stage.applySpec({ aliases: [] })
    stage.engine.writes.length = 0
    stage.advance(11)
    matchWhole(t, await stage.syncUntilStable(), { phase: 'Ready', aliases: [] })
    t.strictSame(stage.engine.writes, [['updateAliases', [{ delete_alias: { alias_name: 'a' } }]]])
  },
)

/** Its aliases were looked at a moment ago; now it declares one more. */
async function declaresLive(
  change: (stage: CollectionHarness) => void | Promise<void>,
): Promise<CollectionHarness> {
  const stage = new CollectionHarness()
  await stage.syncUntilStable()
  await change(stage)
  stage.applySpec({ aliases: ['live'] })
  stage.engine.writes.length = 0
  return stage
}

t.test('an alias that was moved since the last look is not taken from who claims it', async (t) => {
  const stage = await declaresLive(async ({ engine }) => {
    await engine.createCollection('v1', {})
    engine.aliasTargets.set('live', 'v1')
  })
  stage.otherCollections = [
    collection({ aliases: ['live'] }, { name: 'v1', creationTimestamp: '2026-03-01T11:59:00Z' }),
  ]
  t.match((await stage.sync()).status, {
    phase: 'Failed',
    error: 'alias live is claimed by VecCollection ns/v1 and points at collection v1',
  })
  t.strictSame(stage.engine.writes, [])
})

t.test('an alias that was pointed here since the last look is not pointed again', async (t) => {
  const stage = await declaresLive(({ engine }) => void engine.aliasTargets.set('live', 'docs'))
  matchWhole(t, (await stage.sync()).status, { phase: 'Ready', aliases: ['live'] })
  t.strictSame(stage.engine.writes, [])
})

t.test('aliases are not checked again once their change was answered', async (t) => {
  const stage = await declaresLive(() => undefined)
  t.equal((await stage.sync()).status.phase, 'Ready')
  t.equal(stage.engine.calls.at(-1), 'updateAliases')
})

t.test('a declared index that someone else made differently is replaced', async (t) => {
  const stage = new CollectionHarness(
    collection({ payloadIndexes: [keywordIndex('a'), keywordIndex('b')] }),
  )
  await stage.engine.createCollection('docs', { vectors: { size: 4, distance: 'Cosine' } })
  stage.engine.liveInfo('docs').payload_schema = {
    a: { data_type: 'integer' },
    c: { data_type: 'geo' },
  }
  matchWhole(t, await stage.syncUntilStable(), { phase: 'Ready', payloadIndexes: ['a', 'b'] })
  t.match(stage.engine.liveInfo('docs').payload_schema, {
    a: { data_type: 'keyword' },
    b: { data_type: 'keyword' },
    c: { data_type: 'geo' },
  })
  t.strictSame(
    stage.engine.writes.filter(([call]) => call === 'deleteIndex'),
    [],
  )
})

t.test('an index of another client, as declared or not declared, is not changed', async (t) => {
  const stage = new CollectionHarness(
    collection({ payloadIndexes: [keywordIndex('a'), keywordIndex('b')] }),
  )
  await stage.engine.createCollection('docs', { vectors: { size: 4, distance: 'Cosine' } })
  stage.engine.liveInfo('docs').payload_schema = {
    a: { data_type: 'keyword' },
    c: { data_type: 'geo' },
  }
  matchWhole(t, await stage.syncUntilStable(), { phase: 'Ready', payloadIndexes: ['b'] })
  stage.applySpec({ payloadIndexes: [] })
  matchWhole(t, await stage.syncUntilStable(), { phase: 'Ready', payloadIndexes: [] })
  t.strictSame(Object.keys(stage.engine.liveInfo('docs').payload_schema), ['a', 'c'])
})

t.test(
  'an index the engine refuses is named, the others are created and the old one stays',
  async (t) => {
    const integer = (field: string, params: Record<string, unknown> = {}) => ({
      field,
      type: 'integer' as const,
      params,
    })
    const stage = new CollectionHarness(collection({ payloadIndexes: [integer('a')] }))
    await stage.syncUntilStable()
    stage.applySpec({
      payloadIndexes: [integer('a', { range: false, lookup: false }), integer('b')],
    })
    matchWhole(t, await stage.syncUntilStable(), {
      phase: 'Failed',
      error: /^payloadIndexes\[a\]: the engine answered 422/,
      payloadIndexes: ['a', 'b'],
    })
    t.strictSame(Object.keys(stage.engine.liveInfo('docs').payload_schema), ['a', 'b'])
  },
)

t.test('two payload indexes for one field are a conflict', async (t) => {
  const stage = new CollectionHarness(
    collection({ payloadIndexes: [keywordIndex('a'), keywordIndex('"a"')] }),
  )
  t.match(await stage.syncUntilStable(), {
    phase: 'Failed',
    error: 'payloadIndexes: a and "a" are the same field',
  })
})

t.test('an alias never takes the name of an older collection that is not there', async (t) => {
  const rival = collection({ aliases: ['orders'] }, { creationTimestamp: ago(60) })
  const stage = new CollectionHarness(rival)
  const lost = { phase: 'Failed' as const, health: 'green' as const, pointsCount: 7 }
  const orders = collection({}, { name: 'orders' }, lost)
  stage.otherCollections = [orders]
  const status = await stage.syncUntilStable()
  t.match(status, {
    phase: 'Failed',
    error: 'alias orders is the collection of VecCollection ns/orders',
  })
  t.strictSame(status.aliases, [])
  t.strictSame([...stage.engine.aliasTargets], [])
  stage.otherCollections = []
  matchWhole(t, await stage.syncNextInterval(), { phase: 'Ready', aliases: ['orders'] })
})
