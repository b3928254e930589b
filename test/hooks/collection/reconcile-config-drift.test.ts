/** What of a collection is patched. */
import t from 'tap'
import type { CollectionSpec } from '../../../crds/collection.ts'
import { findDrift } from '../../../hooks/collection/reconcile-config.ts'
import { collectionSpec, vector } from './stage.ts'
import { type ConfigOverrides, config, singleVector } from './config.ts'

type Case = [title: string, spec: Partial<CollectionSpec>, live: ConfigOverrides, paths: string[]]

const scalar = (inner: object) => ({ quantization_config: { scalar: { type: 'int8', ...inner } } })

const MUTABLE: Case[] = [
  ['only fields the spec declares are compared', {}, { hnsw_config: { m: 99 } }, []],
  ['a declared value that differs', { hnsw: { m: 8 } }, {}, ['hnsw.m']],
  [
    'a declared value that is not there',
    { strictMode: { enabled: true } },
    {},
    ['strictMode.enabled'],
  ],
  ['false matches a value reported as unset', { strictMode: { enabled: false } }, {}, []],
  [
    'false is a restriction where unset allows',
    {
      strictMode: {
        ...{ enabled: true, search_allow_exact: false, max_query_limit: 5 },
        ...{ unindexed_filtering_retrieve: false, unindexed_filtering_update: false },
      },
    },
    { strict_mode_config: { enabled: true, max_query_limit: 5, search_allow_exact: null } },
    [
      'strictMode.search_allow_exact',
      'strictMode.unindexed_filtering_retrieve',
      'strictMode.unindexed_filtering_update',
    ],
  ],
  [
    'such a restriction that is set',
    { strictMode: { unindexed_filtering_retrieve: false } },
    { strict_mode_config: { unindexed_filtering_retrieve: false } },
    [],
  ],
  [
    'false matches null',
    { optimizers: { prevent_unoptimized: false } },
    { optimizer_config: { prevent_unoptimized: null } },
    [],
  ],
  [
    'false does not match true',
    { hnsw: { on_disk: false } },
    { hnsw_config: { on_disk: true } },
    ['hnsw.on_disk'],
  ],
  [
    'true against unset is a mismatch',
    { vectors: [{ ...vector, onDisk: true }] },
    {},
    ['vectors[0].onDisk'],
  ],
  ['onDisk false matches unset', { vectors: [{ ...vector, onDisk: false }] }, {}, []],
  [
    'onDiskPayload',
    { onDiskPayload: false },
    { params: { on_disk_payload: true } },
    ['onDiskPayload'],
  ],
  [
    'max_optimization_threads auto matches null',
    { optimizers: { max_optimization_threads: 'auto' } },
    {},
    [],
  ],
  [
    'max_optimization_threads auto against a number',
    { optimizers: { max_optimization_threads: 'auto' } },
    { optimizer_config: { max_optimization_threads: 2 } },
    ['optimizers.max_optimization_threads'],
  ],
  ['null means do not care', { hnsw: { m: null }, strictMode: { x: null } }, {}, []],
  ['wal is never compared', { wal: { wal_capacity_mb: 1 } }, {}, []],
  [
    'a name with _kb is shown without',
    { hnsw: { full_scan_threshold_kb: 5 } },
    { hnsw_config: { full_scan_threshold: 5 } },
    [],
  ],
  ['replicationFactor', { replicationFactor: 2 }, {}, ['replicationFactor']],
  [
    'writeConsistencyFactor',
    { writeConsistencyFactor: 2 },
    { params: { write_consistency_factor: 1 } },
    ['writeConsistencyFactor'],
  ],
  ['readFanOutFactor 0 must be there', { readFanOutFactor: 0 }, {}, ['readFanOutFactor']],
  [
    'false of a vector that would inherit true',
    { hnsw: { on_disk: true }, vectors: [{ ...vector, hnsw: { on_disk: false } }] },
    { hnsw_config: { on_disk: true } },
    ['vectors[0].hnsw.on_disk'],
  ],
  [
    'false of a vector, and true of its collection, at once',
    { hnsw: { on_disk: true }, vectors: [{ ...vector, hnsw: { on_disk: false } }] },
    {},
    ['hnsw.on_disk', 'vectors[0].hnsw.on_disk'],
  ],
  [
    'true of a vector that inherits true is its own',
    { vectors: [{ ...vector, hnsw: { on_disk: true } }] },
    { hnsw_config: { on_disk: true } },
    ['vectors[0].hnsw.on_disk'],
  ],
  [
    'false of a vector that inherits false',
    { vectors: [{ ...vector, hnsw: { on_disk: false } }] },
    { hnsw_config: { on_disk: false } },
    [],
  ],
  [
    'per-vector hnsw',
    { vectors: [{ ...vector, hnsw: { m: 8 } }] },
    singleVector({ hnsw_config: { ef_construct: 5 } }),
    ['vectors[0].hnsw.m'],
  ],
  [
    'a named vector',
    { vectors: [{ ...vector, name: 'a', hnsw: { m: 8 } }] },
    { params: { vectors: { a: { size: 4, hnsw_config: { m: 9 } } } } },
    ['vectors[a].hnsw.m'],
  ],
  [
    'modifier none matches absent',
    { sparseVectors: [{ name: 's', modifier: 'none', index: {} }] },
    { params: { sparse_vectors: { s: {} } } },
    [],
  ],
  [
    'modifier idf does not',
    { sparseVectors: [{ name: 's', modifier: 'idf', index: {} }] },
    { params: { sparse_vectors: { s: {} } } },
    ['sparseVectors[s].modifier'],
  ],
  [
    'sparse index values',
    { sparseVectors: [{ name: 's', index: { on_disk: true, datatype: 'float32' } }] },
    { params: { sparse_vectors: { s: { index: { on_disk: false } } } } },
    ['sparseVectors[s].index.on_disk'],
  ],
  [
    'an object within strict mode, value by value',
    { strictMode: { multivector_config: { a: { max_vectors: 2 } } } },
    { strict_mode_config: { multivector_config: { a: { max_vectors: 3 }, b: {} } } },
    ['strictMode.multivector_config.a.max_vectors'],
  ],
  ['an empty object matches absent', { strictMode: { multivector_config: {} } }, {}, []],
  [
    'lists compare as sets',
    { strictMode: { x: ['a', 'b', 'a'] } },
    { strict_mode_config: { x: ['b', 'a'] } },
    [],
  ],
  [
    'lists of other members differ',
    { strictMode: { x: ['a', 'c'] } },
    { strict_mode_config: { x: ['b', 'a'] } },
    ['strictMode.x'],
  ],
  ['an object against a number', { hnsw: { m: { a: 1 } } }, {}, ['hnsw.m']],
  [
    'quantile is kept in 32 bits',
    { quantization: { scalar: { type: 'int8', quantile: 0.99 } } },
    scalar({ quantile: Math.fround(0.99) }),
    [],
  ],
  [
    'a limit that a node without a shard shows with 32 bits',
    { strictMode: { search_max_oversampling: 1.1 } },
    { strict_mode_config: { search_max_oversampling: Math.fround(1.1) } },
    [],
  ],
  [
    'another limit',
    { strictMode: { search_max_oversampling: 1.1 } },
    { strict_mode_config: { search_max_oversampling: 1.2 } },
    ['strictMode.search_max_oversampling'],
  ],
  [
    'another quantile',
    { quantization: { scalar: { type: 'int8', quantile: 0.98 } } },
    scalar({ quantile: 0.99 }),
    ['quantization.scalar.quantile'],
  ],
  [
    'always_ram false matches absent',
    { quantization: { scalar: { type: 'int8', always_ram: false } } },
    scalar({}),
    [],
  ],
  [
    'binary defaults match absent',
    { quantization: { binary: { encoding: 'one_bit', query_encoding: 'default' } } },
    { quantization_config: { binary: {} } },
    [],
  ],
  [
    'turbo bits4 matches absent',
    { quantization: { turbo: { bits: 'bits4' } } },
    { quantization_config: { turbo: {} } },
    [],
  ],
  [
    'turbo bits2 does not',
    { quantization: { turbo: { bits: 'bits2' } } },
    { quantization_config: { turbo: {} } },
    ['quantization.turbo.bits'],
  ],
  [
    'a quantization of another kind, though it declares nothing',
    { quantization: { binary: {} } },
    scalar({}),
    ['quantization'],
  ],
  [
    'no quantization where one is declared',
    { quantization: { binary: {} } },
    { quantization_config: null },
    ['quantization'],
  ],
  ['Disabled where there is one', { quantization: { Disabled: {} } }, scalar({}), ['quantization']],
  [
    'Disabled where there is none',
    { quantization: { Disabled: {} } },
    { quantization_config: null },
    [],
  ],
  [
    'per-vector quantization',
    { vectors: [{ ...vector, quantization: { product: { compression: 'x16' } } }] },
    singleVector({ quantization_config: { product: { compression: 'x4' } } }),
    ['vectors[0].quantization.product.compression'],
  ],
]

for (const [title, spec, live, paths] of MUTABLE) {
  t.test(`what is patched: ${title}`, async (t) => {
    const drift = findDrift(collectionSpec(spec), config(live))
    t.strictSame(
      drift.flatMap(({ differences }) => differences.map(({ path }) => path)),
      paths,
    )
  })
}
