/** `migration run` that is rejected: what does not fit is said before the first batch, each message from its cause. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import { ONE, TWO } from '../../metacontroller/certificates.ts'
import { instantClock } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isScroll,
  isUpsert,
  manyPoints,
  startEnginePair,
} from './engine-pair.ts'

/** Refused as a whole, before anything is created. */
const REJECTIONS: [string, Parameters<typeof startEnginePair>[1], RegExp][] = [
  [
    'a collection that the source does not list',
    { spec: { collections: ['docs', 'gone', 'live'] } },
    /^Collections not present in source: gone, live$/,
  ],
  [
    'two collections for one name',
    { spec: { collectionMapping: { other: 'docs' } } },
    /^both docs and other would be copied to docs$/,
  ],
  [
    'a wrong API key of the source',
    { sourceConfig: { service: { api_key: 'full' } } },
    /GET \/collections on http.* answered 401: Must provide an API key/,
  ],
]
for (const [what, options, message] of REJECTIONS) {
  t.test(`${what} fails the migration before anything is created`, async (t) => {
    const { source, target, world } = await startEnginePair(t, options)
    await createCollection(source, 'docs', manyPoints(1))
    await createCollection(source, 'other', manyPoints(1))
    source.engine.aliases.set('live', 'docs')
    const { code } = await world.run()
    t.equal(code, EXIT.failed)
    t.match(await world.progress(), { state: 'Failed', message, migration: { error: message } })
    t.equal(target.engine.collections.size, 0)
  })
}

t.test('TLS verification failed: a source behind a private CA needs caSecretRef', async (t) => {
  for (const authority of [undefined, TWO.cert, ONE.cert]) {
    const { source, target, world } = await startEnginePair(t, { sourceTls: ONE })
    source.engine.addCollection('docs', { vectors: { size: 2, distance: 'Dot' } })
    world.plan.source = { url: source.url, ca: 'bundle.pem' }
    if (authority !== undefined) world.credential('source-tls', 'bundle.pem', authority)
    const { code, log } = await world.run()
    t.equal(code, authority === ONE.cert ? EXIT.done : EXIT.failed, log)
    if (authority === ONE.cert) {
      t.ok(target.engine.find('docs'))
      continue
    }
    t.match((await world.progress())?.message, /TLS verification failed: .*needs caSecretRef\)$/)
    t.notMatch(log, /waiting for the engine/)
  }
})

t.test('a token without read access is a 4xx from the source on points/scroll', async (t) => {
  const { source, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(3))
  source.node.misbehave((request) =>
    isScroll(request)
      ? { status: 403, body: '{"status":{"error":"Forbidden: Read access is required"},"time":0}' }
      : undefined,
  )
  t.equal((await world.run()).code, EXIT.failed)
  const { error } = await world.result()
  t.match(error, /POST .*points\/scroll on http.* answered 403: Forbidden: Read access is required/)
})

/** One collection fails, and the others do not. */
const INCOMPATIBILITIES: [
  string,
  object,
  Partial<Parameters<typeof startEnginePair>[1]>,
  RegExp,
][] = [
  [
    'another vector size',
    { vectors: { size: 4, distance: 'Dot' } },
    {},
    /does not fit: dimension error: the unnamed vector has size 2, in the target 4 \(use collectionMapping or drop it\)/,
  ],
  [
    'another distance',
    { vectors: { size: 2, distance: 'Cosine' } },
    {},
    /the unnamed vector has distance Dot, in the target Cosine/,
  ],
  [
    'other names of vectors',
    { vectors: { title: { size: 2, distance: 'Dot' } } },
    {},
    /the unnamed vector is missing in the target/,
  ],
  [
    'another datatype',
    { vectors: { size: 2, distance: 'Dot', datatype: 'uint8' } },
    {},
    /the unnamed vector has datatype float32, in the target uint8/,
  ],
  [
    'another sharding',
    { ...SMALL, sharding_method: 'custom' },
    {},
    /its sharding is auto, in the target custom/,
  ],
]
for (const [what, body, options, message] of INCOMPATIBILITIES) {
  t.test(`a target collection with ${what} is reported before the first batch`, async (t) => {
    const { source, target, world } = await startEnginePair(t, options)
    await createCollection(source, 'docs', manyPoints(3))
    await createCollection(source, 'other', manyPoints(3))
    await createCollection(target, 'docs', [], body)
    let upserts = 0
    target.node.misbehave((request) => {
      upserts += isUpsert(request) && request.path[1] === 'docs' ? 1 : 0
      return undefined
    })
    t.equal((await world.run()).code, EXIT.failed)
    t.equal(upserts, 0)
    matchWhole(t, await world.progress(), {
      state: 'Failed',
      message: 'Copied 1/2',
      migration: {
        error: message,
        collections: [
          { name: 'docs', status: 'Failed', error: message },
          { name: 'other', status: 'Completed' },
        ],
      },
    })
  })
}

t.test(
  'a sparse vector that is missing at the target is reported before the first batch',
  async (t) => {
    const { source, target, world } = await startEnginePair(t)
    await createCollection(source, 'docs', [], { ...SMALL, sparse_vectors: { words: {} } })
    await createCollection(target, 'docs', [])
    await world.run()
    t.match((await world.result()).error, /sparse vector words is missing in the target/)
  },
)

t.test('Collection missing on target and createMissing is false', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { createMissing: false } })
  await createCollection(source, 'docs', manyPoints(3))
  await createCollection(source, 'there', manyPoints(3))
  await createCollection(target, 'there', [])
  t.equal((await world.run()).code, EXIT.failed)
  t.match(await world.result(), {
    error: /^docs: Collection missing on target and createMissing is false: docs$/,
    completed: 1,
  })
  t.equal(target.engine.find('docs'), undefined)
})

t.test('a shard key that is missing on the target is named, and not created', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { createMissing: false } })
  const keyed = { ...SMALL, sharding_method: 'custom', shard_number: 1 }
  for (const [side, keys] of [
    [source, ['eu', 'us', 7]],
    [target, ['us']],
  ] as const) {
    await createCollection(side, 'docs', [], keyed)
    for (const key of keys) {
      await side.call('PUT', '/collections/docs/shards', { shard_key: key, shards_number: 1 })
    }
  }
  t.equal((await world.run()).code, EXIT.failed)
  t.match(await world.result(), {
    error:
      /^docs: Collection missing on target and createMissing is false: docs has no shard key ("eu", 7|7, "eu")$/,
  })
  t.strictSame(
    target.engine.find('docs')?.shards.map(({ key }) => key),
    ['us'],
  )
})

t.test('an alias of the target is no name for a collection', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(1))
  await createCollection(target, 'real', [])
  target.engine.aliases.set('docs', 'real')
  await world.run()
  t.match((await world.result()).error, /docs is an alias of real on the target/)
  t.equal(target.engine.find('real')?.points.length, 0)
})

t.test('a target cluster that is not ready is waited for, and then reported', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(1))
  target.node.setReady(false)
  const { code } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.failed)
  t.match(await world.progress(), {
    message: /^target cluster not ready: GET \/readyz on vec-a-0\.ns answered 503: some shards/,
  })
  const later = await startEnginePair(t)
  await createCollection(later.source, 'docs', manyPoints(1))
  later.target.node.setReady(false)
  const time = instantClock((slept) => slept > 3 && later.target.node.setReady(true))
  t.equal((await later.world.run({ time })).code, EXIT.done)
})
