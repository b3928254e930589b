import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import t from 'tap'
import { VecCollection } from '../../../crds/collection.ts'
import { CollectionHarness, collection } from './stage.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 300)

const name = fc.oneof(
  fc.constantFrom('a', 'size', '__proto__', 'constructor', 'x.y', 'ü[0]', 'hnsw_config'),
  fc.stringMatching(/^[a-zA-Z0-9_.-]{1,12}$/),
)
const scalar = fc.oneof(fc.integer(), fc.boolean(), fc.double({ noNaN: true, min: 0, max: 1 }))

/** An object of the engine's: known fields with values that it takes, unknown ones, nulls and nesting. */
function passedThrough(
  known: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<Record<string, unknown>> {
  const value = fc.oneof(
    scalar,
    fc.constant(null),
    fc.array(fc.string({ maxLength: 3 }), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b'), scalar, { maxKeys: 2, noNullPrototype: true }),
  )
  const fields = Object.entries(known).map(([field, values]) => [field, fc.option(values)] as const)
  const key = fc.constantFrom('unknown', 'constructor', 'other_kb')
  return fc
    .tuple(
      fc.record(Object.fromEntries(fields), { requiredKeys: [], noNullPrototype: true }),
      fc.dictionary(key, value, { maxKeys: 2, noNullPrototype: true }),
    )
    .map(([taken, unknown]) => ({ ...unknown, ...taken }))
}

const count = fc.integer({ min: 10, max: 1_000_000 })
const hnsw = passedThrough({
  ...{ m: count, ef_construct: count, on_disk: fc.boolean(), full_scan_threshold_kb: count },
  memory: scalar,
})
const quantization = fc.oneof(
  fc.constant({}),
  fc.constant({ Disabled: {} }),
  fc.record({
    scalar: fc.record(
      {
        type: fc.constant('int8'),
        quantile: fc.double({ min: 0.5, max: 1, noNaN: true }),
        always_ram: fc.boolean(),
        other: scalar,
      },
      { requiredKeys: ['type'] },
    ),
  }),
  fc.record({
    binary: fc.record(
      {
        encoding: fc.constantFrom('one_bit', 'two_bits'),
        query_encoding: fc.constantFrom('default', 'binary'),
      },
      { requiredKeys: [] },
    ),
  }),
  fc.record({
    turbo: fc.record({ bits: fc.constantFrom('bits4', 'bits2') }, { requiredKeys: [] }),
  }),
)
const dense = {
  size: fc.integer({ min: 1, max: 65_536 }),
  distance: fc.constantFrom('Cosine', 'Euclid', 'Dot', 'Manhattan'),
  datatype: fc.constantFrom('float32', 'float16', 'uint8'),
  multivector: fc.constant({ comparator: 'max_sim' as const }),
  onDisk: fc.boolean(),
  hnsw,
  quantization,
}
const requiredKeys = ['size', 'distance', 'hnsw', 'quantization'] as const
const unnamed = fc.record(dense, { requiredKeys: [...requiredKeys] }).map((vector) => [vector])
const named = fc.uniqueArray(
  fc.record({ name, ...dense }, { requiredKeys: ['name', ...requiredKeys] }),
  { maxLength: 4, selector: (vector) => vector.name },
)
const sparse = fc.uniqueArray(
  fc.record(
    {
      name: name.map((text) => `s ${text}`),
      modifier: fc.constantFrom('none', 'idf'),
      index: passedThrough({
        ...{ full_scan_threshold: count, on_disk: fc.boolean() },
        datatype: fc.constantFrom('float32', 'float16', 'uint8'),
      }),
    },
    { requiredKeys: ['name', 'index'] },
  ),
  { maxLength: 4, selector: (vector) => vector.name },
)
const index = fc.record({
  field: fc.constantFrom('a', 'a.b', '"a"', '"quoted key"', 'arr[].x', '__proto__', 'ünï'),
  type: fc.constantFrom('keyword', 'integer', 'float', 'geo', 'text', 'bool', 'datetime', 'uuid'),
  params: passedThrough({
    ...{ is_tenant: fc.boolean(), lookup: fc.boolean(), on_disk: fc.boolean() },
    ...{ lowercase: fc.boolean(), tokenizer: fc.constantFrom('word', 'prefix', 'whitespace') },
    stopwords: fc.constantFrom('english', 'german', 'en'),
  }),
})
const factor = fc.integer({ min: 1, max: 3 })

const spec = fc.record(
  {
    vectors: fc.oneof(unnamed, named),
    sparseVectors: sparse,
    shardNumber: factor,
    shardingMethod: fc.constantFrom('auto', 'custom'),
    replicationFactor: factor,
    writeConsistencyFactor: factor,
    readFanOutFactor: fc.integer({ min: 0, max: 3 }),
    onDiskPayload: fc.boolean(),
    hnsw,
    optimizers: passedThrough({
      deleted_threshold: fc.double({ min: 0, max: 1, noNaN: true }),
      max_optimization_threads: fc.oneof(count, fc.constant('auto')),
      indexing_threshold_kb: count,
    }),
    quantization,
    wal: passedThrough({ wal_capacity_mb: count }),
    strictMode: passedThrough({
      ...{ enabled: fc.boolean(), max_query_limit: count },
      multivector_config: fc.dictionary(fc.constantFrom('a', 'b'), scalar, { maxKeys: 2 }),
    }),
    payloadIndexes: fc.uniqueArray(index, { maxLength: 5, selector: ({ field }) => field }),
    aliases: fc.uniqueArray(fc.stringMatching(/^alias [a-z]{1,3}$/), { maxLength: 5 }),
  },
  { requiredKeys: ['shardingMethod', 'hnsw', 'optimizers', 'quantization', 'wal', 'strictMode'] },
)

t.test('after a pass has settled, another one makes no write, for any spec', async (t) => {
  const property = fc.asyncProperty(spec, fc.integer({ min: 0, max: 4 }), async (drawn, stale) => {
    const parent = collection(drawn)
    fc.pre(Value.Check(VecCollection.schema, parent))
    const stage = new CollectionHarness(parent)
    stage.engine.staleReads = stale
    await stage.syncUntilStable()
    stage.engine.writes.length = 0
    const status = await stage.syncNextInterval()
    if (stage.engine.writes.length === 0) return
    throw new Error(`${JSON.stringify(stage.engine.writes)} after ${status.error ?? 'Ready'}`)
  })
  await t.resolves(fc.assert(property, { numRuns: RUNS }))
})

t.test(
  'whatever is changed in a spec, no collection and no foreign index is deleted',
  async (t) => {
    const property = fc.asyncProperty(spec, spec, async (before, after) => {
      const stage = new CollectionHarness(collection(before))
      await stage.syncUntilStable()
      stage.engine.liveInfo('docs').payload_schema['theirs'] = { data_type: 'keyword' }
      stage.applySpec(after)
      await stage.syncUntilStable()
      const deleted = stage.engine.writes.filter(([call]) => call === 'deleteCollection')
      if (deleted.length > 0) throw new Error('the collection was deleted')
      if (!Object.hasOwn(stage.engine.liveInfo('docs').payload_schema, 'theirs')) {
        throw new Error('a foreign index was deleted')
      }
    })
    await t.resolves(fc.assert(property, { numRuns: RUNS }))
  },
)
