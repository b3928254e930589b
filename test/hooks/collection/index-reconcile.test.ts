/** One pass of the VecCollection hooks: its requests, its result after an error, and its messages. */
import t from 'tap'
import { EngineError, KubernetesError } from '../../../crds/contract/errors.ts'
import { matchWhole } from '../../match-whole.ts'
import { engineError } from './engine-config.ts'
import { CollectionHarness, collection, keywordIndex } from './stage.ts'

type Status = Awaited<ReturnType<CollectionHarness['syncUntilStable']>>

function phaseAndReasons({ phase, conditions = [] }: Status): (string | undefined)[] {
  const [condition] = conditions
  return [phase, condition?.reason, condition?.message]
}

/** How often the other collections were listed. */
function countingOthers(stage: CollectionHarness): { asked: number } {
  const count = { asked: 0 }
  const collectionsOf = stage.ports.collectionsOf.bind(stage.ports)
  stage.ports.collectionsOf = (...about) => {
    count.asked += 1
    return collectionsOf(...about)
  }
  return count
}

t.test(
  'ownership is checked until the collection is adopted, and then only before a write',
  async (t) => {
    const stage = new CollectionHarness()
    const count = countingOthers(stage)
    await stage.syncUntilStable()
    t.equal(count.asked, 1)
    await stage.syncNextInterval()
    t.equal(count.asked, 1, 'a pass without a write')
    stage.engine.liveInfo('docs').config.params['shard_number'] = 7
    stage.applySpec({ shardNumber: 3 })
    t.equal((await stage.syncUntilStable()).phase, 'Degraded')
    await stage.syncNextInterval()
    t.equal(count.asked, 1, 'one that is Degraded was adopted too')
    const failing = new CollectionHarness(collection({ hnsw: { unknown: 1 } }))
    const failed = countingOthers(failing)
    t.equal((await failing.syncUntilStable()).phase, 'Failed')
    const before = failed.asked
    await failing.syncNextInterval()
    t.equal(failed.asked, before + 1, 'one that failed may never have been')
  },
)

t.test('a pass waits for a created collection that is not visible yet', async (t) => {
  const stage = new CollectionHarness()
  stage.engine.beforeCall = (name) => {
    if (name === 'collectionInfo') stage.engine.collections.clear()
  }
  const { status } = await stage.sync()
  t.strictSame(phaseAndReasons(status), [
    ...['Pending', 'Waiting', 'collection docs was created but is not visible yet'],
  ])
  t.ok(stage.waits.length > 1, 'it was looked for')
})

t.test(
  'an API server that does not answer does not change the status of the collection',
  async (t) => {
    const stage = new CollectionHarness()
    stage.ports.collectionsOf = async () => {
      throw new KubernetesError('GET veccollections answered 500')
    }
    t.strictSame(phaseAndReasons((await stage.sync()).status), [
      ...['Pending', 'KubernetesNotAnswering', 'GET veccollections answered 500'],
    ])
  },
)

t.test(
  'an unexpected error is reported by its kind, because its message may have secrets',
  async (t) => {
    const stage = new CollectionHarness()
    const error = new TypeError('a secret')
    stage.engine.faults.set('collectionInfo', { error })
    const answer = await stage.sync()
    t.strictSame(answer.failures, [{ error }], 'for the log')
    t.strictSame(phaseAndReasons(answer.status), [
      ...['Pending', 'InternalError'],
      'collection docs: internal error: TypeError; see the log of the service',
    ])
  },
)

t.test('only an unreachable engine is skipped', async (t) => {
  const asksAgain = async (error: EngineError) => {
    const stage = new CollectionHarness()
    stage.engine.faults.set('collectionInfo', { error })
    await stage.sync()
    stage.advance(11)
    stage.applySpec({})
    stage.engine.calls.length = 0
    await stage.sync()
    return stage.engine.calls.includes('readyz')
  }
  t.ok(await asksAgain(engineError(500, 'no leader')))
  t.ok(await asksAgain(new EngineError('it answered something else')))
  t.ok(await asksAgain(new EngineError('it answered 503', { status: 503, cause: new Error('no') })))
  t.notOk(await asksAgain(new EngineError('no answer', { cause: new Error('refused') })))
})

const INDEX = { ...keywordIndex('a'), params: { bar: 2 } }
const ignored = ['hnsw.unknown', 'payloadIndexes[a].params.bar']

async function ignoring(): Promise<CollectionHarness> {
  const spec = { hnsw: { unknown: 1 }, payloadIndexes: [INDEX], aliases: ['live'] }
  const stage = new CollectionHarness(collection(spec))
  await stage.syncUntilStable()
  return stage
}

t.test('ignored fields are a separate failure', async (t) => {
  const { parent } = await ignoring()
  matchWhole(t, phaseAndReasons(parent.status ?? {}), [
    'Failed',
    'UnsupportedFields',
    /ignores hnsw\.unknown, /,
  ])
})

t.test('ignored fields remain recorded if the indexes cannot be created', async (t) => {
  const stage = await ignoring()
  stage.engine.liveInfo('docs').payload_schema = {}
  stage.engine.faults.set('putIndex', { error: engineError(503, 'busy'), persists: true })
  const { ignored: known, aliases } = await stage.syncNextInterval()
  t.strictSame(known?.paths, ignored)
  t.strictSame(aliases, ['live'])
})

t.test('ignored fields remain recorded while the collection is Degraded', async (t) => {
  const stage = await ignoring()
  stage.engine.liveInfo('docs').config.params['vectors'] = { size: 99, distance: 'Cosine' }
  const { phase, ignored: known } = await stage.syncNextInterval()
  t.equal(phase, 'Degraded')
  t.strictSame(known?.paths, ignored)
})

t.test('an alias that cannot be corrected stays recorded for this resource', async (t) => {
  const stage = new CollectionHarness(collection({ aliases: ['live'] }))
  await stage.syncUntilStable()
  stage.engine.aliasTargets.clear()
  stage.engine.faults.set('updateAliases', { error: engineError(503, 'busy'), persists: true })
  const status = await stage.syncNextInterval()
  t.equal(phaseAndReasons(status)[1], 'EngineNotAnswering')
  t.strictSame(status.aliases, ['live'])
})

t.test('an ignored field and a claimed alias are in one message', async (t) => {
  const stage = new CollectionHarness(collection({ hnsw: { unknown: 1 }, aliases: ['live'] }))
  await stage.engine.createCollection('v1', {})
  stage.engine.aliasTargets.set('live', 'v1')
  stage.otherCollections = [collection({ aliases: ['live'] }, { name: 'v1' })]
  t.strictSame(phaseAndReasons(await stage.syncUntilStable()), [
    ...['Failed', 'UnsupportedFields'],
    'engine 1.18.3 ignores hnsw.unknown; alias live is claimed by VecCollection ns/v1 and points at collection v1',
  ])
})

t.test('an existing collection that differs is Degraded after the first pass', async (t) => {
  const stage = new CollectionHarness()
  await stage.engine.createCollection('docs', { vectors: { size: 8, distance: 'Cosine' } })
  stage.engine.writes.length = 0
  const { status } = await stage.sync()
  t.strictSame(phaseAndReasons(status), [
    ...['Degraded', 'ImmutableFieldMismatch', 'vectors[0].size: desired 4, live 8'],
  ])
  t.equal(status.ignored, undefined)
  t.strictSame(stage.engine.writes, [])
})

t.test('replicas are counted only when the spec has a replication factor', async (t) => {
  const calls = async (spec: Parameters<typeof collection>[0]) => {
    const stage = new CollectionHarness(collection(spec))
    await stage.syncUntilStable()
    return stage.engine.calls
  }
  t.notOk((await calls({})).includes('collectionCluster'))
  t.ok((await calls({ replicationFactor: 1 })).includes('collectionCluster'))
})

t.test('a name that is an alias is a conflict', async (t) => {
  const stage = new CollectionHarness()
  stage.engine.aliasTargets.set('docs', 'other')
  t.strictSame(phaseAndReasons((await stage.sync()).status), [
    ...['Failed', 'Conflict', 'docs is an alias of collection other'],
  ])
})
