/** The payload indexes of a VecCollection: announced, made, waited for, refused and removed. */
import t from 'tap'
import { VecCluster } from '../../../crds/cluster.ts'
import { customize } from '../../../hooks/collection/index.ts'
import { engineError } from './engine-config.ts'
import { CollectionHarness, collection, keywordIndex, writeNames } from './stage.ts'

const ready = ({ conditions = [] }: Awaited<ReturnType<CollectionHarness['syncUntilStable']>>) => {
  const [condition] = conditions
  return [condition?.reason, condition?.message]
}

/** A collection whose index is recorded as its own and will be created by the next pass. */
async function announced(fields = ['a']): Promise<CollectionHarness> {
  const stage = new CollectionHarness(collection({ payloadIndexes: fields.map(keywordIndex) }))
  await stage.sync()
  stage.advance(1)
  stage.engine.writes.length = 0
  return stage
}

t.test('a collection gets its cluster as a related object', async (t) => {
  const rule = { apiVersion: 'vec-operator.dev/v1alpha1', resource: VecCluster.plural }
  t.strictSame(customize(collection()), [{ ...rule, namespace: 'ns', names: ['a'] }])
  const far = collection({ clusterRef: { name: 'b', namespace: 'far' } })
  t.strictSame(customize(far), [{ ...rule, namespace: 'far', names: ['b'] }])
})

t.test('indexes are recorded first, and created by the next pass', async (t) => {
  const stage = new CollectionHarness(collection({ payloadIndexes: ['b', 'a'].map(keywordIndex) }))
  const first = await stage.sync()
  t.strictSame(ready(first.status), ['IndexesPending', '2 payload indexes are about to be created'])
  t.strictSame(first.status.payloadIndexes, ['a', 'b'])
  t.equal(first.resyncAfterSeconds, 1)
  t.strictSame(writeNames(stage.engine.writes), ['createCollection'])
  stage.advance(1)
  const { status } = await stage.sync()
  t.strictSame(ready(status), ['CollectionReady', 'collection, indexes and aliases match spec'])
  t.strictSame(writeNames(stage.engine.writes).slice(1), ['putIndex', 'putIndex'])
})

t.test('an index that takes longer is not created again in the meantime', async (t) => {
  const stage = await announced()
  stage.engine.beforeCall = (name) => {
    if (name === 'collectionInfo') stage.engine.liveInfo('docs').payload_schema = {}
  }
  stage.waits.length = 0
  const { status, resyncAfterSeconds } = await stage.sync()
  t.strictSame(ready(status), ['IndexesPending', 'payload indexes in progress: a'])
  t.equal(resyncAfterSeconds, Math.ceil(5.08 + 10), 'ten seconds after that look')
  const looked = stage.waits.reduce((sum, one) => sum + one, 0)
  t.equal(looked, 5080, 'it was looked for five seconds')
  stage.engine.beforeCall = () => undefined
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
})

t.test('an index that the engine refuses is named; the others are created', async (t) => {
  const stage = await announced(['a', 'b'])
  stage.engine.faults.set('putIndex', { error: engineError(400, 'no such tokenizer') })
  stage.waits.length = 0
  const { status, resyncAfterSeconds = 0 } = await stage.sync()
  t.equal(status.phase, 'Failed')
  t.equal(ready(status)[0], 'EngineRefused')
  t.match(ready(status)[1], /^payloadIndexes\[a\]: .*no such tokenizer/)
  t.ok(resyncAfterSeconds >= 50, 'nothing is waited for')
  t.strictSame(stage.waits, [], 'nor looked for')
  t.strictSame(Object.keys(stage.engine.liveInfo('docs').payload_schema), ['b'])
  t.strictSame(status.payloadIndexes, ['a', 'b'])
})

t.test(
  'after a timeout of an index the live indexes are read: an existing one was created',
  async (t) => {
    const stage = await announced()
    stage.engine.faults.set('putIndex', { error: engineError(500, 'time-out'), applied: true })
    t.equal((await stage.sync()).status.phase, 'Ready')
    const lost = await announced()
    lost.engine.faults.set('putIndex', { error: engineError(500, 'time-out') })
    const { status } = await lost.sync()
    t.equal(ready(status)[0], 'EngineNotAnswering')
    t.match(ready(status)[1], /time-out/)
  },
)

t.test('an engine that is too busy for an index is asked again later', async (t) => {
  const stage = await announced()
  stage.engine.faults.set('putIndex', { error: engineError(429, 'busy') })
  t.equal(ready((await stage.sync()).status)[0], 'EngineNotAnswering')
})

t.test('a collection that disappears while its indexes are created is retried', async (t) => {
  const stage = await announced()
  let isMade = false
  stage.engine.beforeCall = (name) => {
    if (name === 'collectionInfo' && isMade) stage.engine.collections.delete('docs')
    isMade ||= name === 'putIndex'
  }
  const { status } = await stage.sync()
  t.strictSame(ready(status), ['Waiting', 'collection docs was deleted during the reconcile'])
})

t.test('an index that is not declared any more is removed, if it was created here', async (t) => {
  const stage = await announced(['a', 'b'])
  await stage.sync()
  stage.engine.writes.length = 0
  stage.applySpec({ payloadIndexes: [keywordIndex('b')] })
  const status = await stage.syncUntilStable()
  t.strictSame(stage.engine.writes, [['deleteIndex', 'docs', 'a']])
  t.strictSame(status.payloadIndexes, ['b'])
  t.equal(status.phase, 'Ready')
})

t.test('an index that stays after its removal is waited for, and is still recorded', async (t) => {
  const stage = await announced()
  await stage.sync()
  const schema = structuredClone(stage.engine.liveInfo('docs').payload_schema)
  stage.engine.beforeCall = (name) => {
    if (name === 'collectionInfo') stage.engine.liveInfo('docs').payload_schema = { ...schema }
  }
  stage.applySpec({ payloadIndexes: [] })
  const { status } = await stage.sync()
  t.strictSame(ready(status), ['IndexesPending', 'payload indexes in progress: a'])
  t.strictSame(status.payloadIndexes, ['a'])
})

/** One of two indexes is dropped, and the other one was removed by hand. */
async function replacedDeclaration(): Promise<CollectionHarness> {
  const stage = await announced(['a', 'b'])
  await stage.sync()
  Reflect.deleteProperty(stage.engine.liveInfo('docs').payload_schema, 'b')
  stage.applySpec({ payloadIndexes: [keywordIndex('b')] })
  stage.engine.writes.length = 0
  return stage
}

t.test('an index is removed and another one made in the same pass', async (t) => {
  const stage = await replacedDeclaration()
  const { status } = await stage.sync()
  t.strictSame(ready(status), ['CollectionReady', 'collection, indexes and aliases match spec'])
  t.strictSame(writeNames(stage.engine.writes), ['deleteIndex', 'putIndex'])
})

t.test('all indexes that are waited for are named, those to be created first', async (t) => {
  const stage = await replacedDeclaration()
  stage.engine.beforeCall = (name) => {
    if (name === 'collectionInfo') {
      stage.engine.liveInfo('docs').payload_schema = { a: { data_type: 'keyword' } }
    }
  }
  const { status } = await stage.sync()
  t.strictSame(ready(status), ['IndexesPending', 'payload indexes in progress: b, a'])
})

t.test(
  'after a timeout of a removal the live indexes are read: a missing one was removed',
  async (t) => {
    for (const applied of [true, false]) {
      const stage = await announced(['a', 'b'])
      await stage.sync()
      stage.engine.faults.set('deleteIndex', { error: engineError(500, 'time-out'), applied })
      stage.applySpec({ payloadIndexes: [] })
      const [reason] = ready((await stage.sync()).status)
      t.equal(reason, applied ? 'CollectionReady' : 'EngineNotAnswering')
    }
  },
)
