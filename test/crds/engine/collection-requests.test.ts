import t from 'tap'
import type { CollectionSpec } from '../../../crds/collection.ts'
import {
  createBody,
  unsafeHnswPatches,
  indexBody,
  patchBody,
} from '../../../crds/engine/collections.ts'
import { mutableFields } from '../../../crds/engine/mutable-fields.ts'
import { collectionSpec } from '../../hooks/collection/stage.ts'

const VERSION = '1.18.3'
const unnamed = { size: 4, distance: 'Dot', hnsw: {}, quantization: {} } as const
const singleVector = { vectors: { size: 4, distance: 'Dot' } }

/** A body as it goes over the wire. */
function wire(body: unknown): unknown {
  return JSON.parse(JSON.stringify(body))
}

const CREATED: [string, Partial<CollectionSpec>, object][] = [
  ['a collection without more omits every empty object', {}, singleVector],
  [
    'one entry without name is the single unnamed vector, with all that a vector can have',
    {
      vectors: [
        {
          size: 4,
          distance: 'Dot',
          datatype: 'uint8',
          multivector: { comparator: 'max_sim' },
          onDisk: false,
          hnsw: { m: 8 },
          quantization: { scalar: { type: 'int8' } },
        },
      ],
    },
    {
      vectors: {
        size: 4,
        distance: 'Dot',
        datatype: 'uint8',
        multivector_config: { comparator: 'max_sim' },
        on_disk: false,
        hnsw_config: { m: 8 },
        quantization_config: { scalar: { type: 'int8' } },
      },
    },
  ],
  [
    'named vectors are a map, also when there is only one',
    { vectors: [{ ...unnamed, name: 'a' }] },
    { vectors: { a: { size: 4, distance: 'Dot' } } },
  ],
  [
    'sparse vectors stand beside no dense ones',
    {
      vectors: [],
      sparseVectors: [
        { name: 's', modifier: 'idf', index: { on_disk: true } },
        { name: 'r', index: {} },
      ],
    },
    { sparse_vectors: { s: { modifier: 'idf', index: { on_disk: true } }, r: {} } },
  ],
  [
    'sharding and replication go by the names of the engine',
    {
      shardNumber: 3,
      shardingMethod: 'custom',
      replicationFactor: 2,
      writeConsistencyFactor: 1,
      onDiskPayload: false,
    },
    {
      ...singleVector,
      shard_number: 3,
      sharding_method: 'custom',
      replication_factor: 2,
      write_consistency_factor: 1,
      on_disk_payload: false,
    },
  ],
  ['sharding_method is named only when custom', { shardingMethod: 'auto' }, singleVector],
  ['readFanOutFactor is never in PUT', { readFanOutFactor: 1 }, singleVector],
  [
    'the config objects are passed through, optimizers as optimizers_config',
    {
      hnsw: { m: 32, full_scan_threshold_kb: 5 },
      optimizers: { indexing_threshold: 0 },
      wal: { wal_capacity_mb: 1 },
      quantization: { binary: {} },
      strictMode: { enabled: true, multivector_config: { a: { max_vectors: 2 } } },
    },
    {
      ...singleVector,
      hnsw_config: { m: 32, full_scan_threshold_kb: 5 },
      optimizers_config: { indexing_threshold: 0 },
      wal_config: { wal_capacity_mb: 1 },
      quantization_config: { binary: {} },
      strict_mode_config: { enabled: true, multivector_config: { a: { max_vectors: 2 } } },
    },
  ],
  [
    'an object of nulls only is an empty one',
    { hnsw: { m: null }, strictMode: { enabled: null } },
    singleVector,
  ],
  [
    'a collection is made without the quantization that is declared as removed',
    { quantization: { Disabled: {} }, vectors: [{ ...unnamed, quantization: { Disabled: null } }] },
    singleVector,
  ],
  [
    'a per-vector hnsw of unknown fields only would hang the call and is left out',
    { vectors: [{ ...unnamed, hnsw: { memory: 'cold' } }] },
    singleVector,
  ],
]

for (const [title, spec, body] of CREATED) {
  t.test(`PUT: ${title}`, async (t) => {
    const whole = collectionSpec({ vectors: [unnamed], ...spec })
    t.strictSame(createBody(whole, VERSION), body)
  })
}

t.test('PUT: a vector may have any name, also one that JavaScript has a use for', async (t) => {
  const vectors = ['__proto__', 'constructor'].map((name) => ({ ...unnamed, name, hnsw: { m: 8 } }))
  const spec = collectionSpec({ vectors })
  const vector = '{"size":4,"distance":"Dot","hnsw_config":{"m":8}}'
  t.equal(
    JSON.stringify(createBody(spec, VERSION)),
    `{"vectors":{"__proto__":${vector},"constructor":${vector}}}`,
  )
  const change = '{"hnsw_config":{"m":8}}'
  t.equal(
    JSON.stringify(patchBody(mutableFields(spec))),
    `{"vectors":{"__proto__":${change},"constructor":${change}}}`,
  )
})

const PATCHED: [string, Partial<CollectionSpec>, object][] = [
  [
    'the unnamed vector is the empty name',
    { vectors: [{ ...unnamed, onDisk: true, hnsw: { m: 32 } }] },
    { vectors: { '': { on_disk: true, hnsw_config: { m: 32 } } } },
  ],
  [
    'quantization is sent whole, and Disabled removes it',
    {
      vectors: [{ ...unnamed, name: 'a', quantization: { Disabled: {} } }],
      quantization: { scalar: { type: 'int8', quantile: 0.99 } },
    },
    {
      vectors: { a: { quantization_config: 'Disabled' } },
      quantization_config: { scalar: { type: 'int8', quantile: 0.99 } },
    },
  ],
  [
    'factors and onDiskPayload are params',
    { replicationFactor: 2, writeConsistencyFactor: 1, readFanOutFactor: 0, onDiskPayload: true },
    {
      params: {
        replication_factor: 2,
        write_consistency_factor: 1,
        read_fan_out_factor: 0,
        on_disk_payload: true,
      },
    },
  ],
  [
    'sparse vectors have index and modifier',
    { sparseVectors: [{ name: 's', modifier: 'none', index: { on_disk: true } }] },
    { sparse_vectors: { s: { modifier: 'none', index: { on_disk: true } } } },
  ],
  [
    'hnsw, optimizers and strict mode go value by value; wal never',
    { hnsw: { m: 1 }, optimizers: { x: 2 }, strictMode: { y: 3 }, wal: { wal_capacity_mb: 1 } },
    { hnsw_config: { m: 1 }, optimizers_config: { x: 2 }, strict_mode_config: { y: 3 } },
  ],
  ['a declared null leaves as it is', { hnsw: { m: null } }, {}],
  ['what is fixed is never in PATCH', { shardNumber: 2 }, {}],
]

for (const [title, spec, body] of PATCHED) {
  t.test(`PATCH: ${title}`, async (t) => {
    const fields = mutableFields(collectionSpec({ vectors: [unnamed], ...spec }))
    t.strictSame(wire(patchBody(fields)), body)
  })
}

const UNSAFE: [string, object, string, string[]][] = [
  ['holds only unknown fields', { foo: 1 }, VERSION, ['vectors[0].hnsw.foo']],
  ['holds a known field too', { foo: 1, m: 4 }, VERSION, []],
  [
    'holds a field of a later version',
    { inline_storage: true },
    '1.15.4',
    ['vectors[0].hnsw.inline_storage'],
  ],
  ['holds a field of this version', { inline_storage: true }, '1.16.0', []],
  ['may be known to a newer engine', { foo: 1 }, '1.20.0', []],
  ['may be known to an engine of another kind of version', { foo: 1 }, 'dev', []],
]

for (const [title, hnsw, version, paths] of UNSAFE) {
  t.test(`PATCH: whether it would hang: a per-vector hnsw that ${title}`, async (t) => {
    const spec = collectionSpec({ vectors: [{ ...unnamed, hnsw: { ...hnsw } }], hnsw: { foo: 1 } })
    t.strictSame(
      unsafeHnswPatches(mutableFields(spec), version).map(({ path }) => path),
      paths,
    )
  })
}

t.test('PATCH: each vector would hang the call by itself, and only by its hnsw', async (t) => {
  const spec = collectionSpec({
    vectors: [
      { ...unnamed, name: 'm', hnsw: { foo: 1, bar: 2 }, onDisk: true },
      { ...unnamed, name: 'b', hnsw: { m: 4 } },
    ],
    sparseVectors: [{ name: 's', index: { foo: 1 } }],
  })
  t.strictSame(
    unsafeHnswPatches(mutableFields(spec), VERSION).map(({ path }) => path),
    ['vectors[m].hnsw.foo', 'vectors[m].hnsw.bar'],
  )
})

t.test('PATCH: only a quantization is removed by its field Disabled', async (t) => {
  const fields = mutableFields(collectionSpec({ strictMode: { rule: { Disabled: {} } } }))
  t.strictSame(wire(patchBody(fields)), { strict_mode_config: { rule: { Disabled: {} } } })
})

t.test('PUT: a spec without any vectors makes a collection without any', async (t) => {
  const spec = collectionSpec()
  delete spec.vectors
  t.strictSame(createBody(spec, VERSION), {})
})

t.test(
  'field_schema is the bare type, or the type plus params when params are given',
  async (t) => {
    t.strictSame(indexBody({ field: 'a', type: 'keyword', params: {} }), {
      field_name: 'a',
      field_schema: 'keyword',
    })
    t.strictSame(indexBody({ field: 'a', type: 'text', params: { lowercase: false, type: 'x' } }), {
      field_name: 'a',
      field_schema: { lowercase: false, type: 'text' },
    })
  },
)
