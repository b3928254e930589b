/** The path of each value of a spec: in the live configuration that it is compared with, and in PATCH. */
import t from 'tap'
import type { CollectionSpec } from '../../../crds/collection.ts'
import {
  declaredQuantization,
  engineConfigPaths,
  mutableFields,
} from '../../../crds/engine/mutable-fields.ts'
import { collectionSpec } from '../../hooks/collection/stage.ts'

const vector = { size: 4, distance: 'Dot', hnsw: {}, quantization: {} } as const

type FieldPaths = [path: string, live: string, patch: string]

const FIELD_PATHS: [title: string, spec: Partial<CollectionSpec>, paths: FieldPaths[]][] = [
  ['nothing that is declared', { vectors: [vector] }, []],
  [
    'factors and payload',
    { replicationFactor: 2, onDiskPayload: true },
    [
      ['replicationFactor', 'params/replication_factor', 'params/replication_factor'],
      ['onDiskPayload', 'params/on_disk_payload', 'params/on_disk_payload'],
    ],
  ],
  [
    'optimizers, which bodies name otherwise than answers',
    { optimizers: { vacuum_min_vector_number: 9 } },
    [
      [
        'optimizers.vacuum_min_vector_number',
        'optimizer_config/vacuum_min_vector_number',
        'optimizers_config/vacuum_min_vector_number',
      ],
    ],
  ],
  [
    'the one vector without a name',
    { vectors: [{ ...vector, onDisk: true, hnsw: { m: 8 }, quantization: { binary: {} } }] },
    [
      ['vectors[0].onDisk', 'params/vectors/on_disk', 'vectors//on_disk'],
      ['vectors[0].hnsw.m', 'params/vectors/hnsw_config/m', 'vectors//hnsw_config/m'],
      [
        'vectors[0].quantization',
        'params/vectors/quantization_config',
        'vectors//quantization_config',
      ],
    ],
  ],
  [
    'a vector with a name',
    { vectors: [{ ...vector, name: 'a', onDisk: true, hnsw: { m: 8 } }] },
    [
      ['vectors[a].onDisk', 'params/vectors/a/on_disk', 'vectors/a/on_disk'],
      ['vectors[a].hnsw.m', 'params/vectors/a/hnsw_config/m', 'vectors/a/hnsw_config/m'],
    ],
  ],
  [
    'a sparse vector',
    { vectors: [], sparseVectors: [{ name: 's', modifier: 'idf', index: { on_disk: true } }] },
    [
      [
        'sparseVectors[s].modifier',
        'params/sparse_vectors/s/modifier',
        'sparse_vectors/s/modifier',
      ],
      [
        'sparseVectors[s].index.on_disk',
        'params/sparse_vectors/s/index/on_disk',
        'sparse_vectors/s/index/on_disk',
      ],
    ],
  ],
]

for (const [title, spec, paths] of FIELD_PATHS) {
  t.test(`the same fields are compared and patched: ${title}`, async (t) => {
    const fields = mutableFields(collectionSpec({ vectors: [vector], ...spec }))
    t.strictSame(
      fields.map(({ path, live, patch }) => [path, live.join('/'), patch.join('/')]),
      paths,
    )
  })
}

for (const name of [
  'full_scan_threshold',
  'max_segment_size',
  'memmap_threshold',
  'indexing_threshold',
]) {
  t.test(`the engine reads ${name}_kb and shows ${name}`, async (t) => {
    const [field] = mutableFields(collectionSpec({ optimizers: { [`${name}_kb`]: 5 } }))
    t.strictSame(field?.live, ['optimizer_config', name])
    t.strictSame(field?.patch, ['optimizers_config', `${name}_kb`])
  })
}

t.test('a spec without any vectors has no fields of vectors', async (t) => {
  const spec = collectionSpec()
  delete spec.vectors
  t.strictSame(mutableFields(spec), [])
})

t.test('Disabled is a removal, whatever its value; another kind stays as declared', async (t) => {
  for (const value of [null, {}, true]) {
    t.strictSame(declaredQuantization({ Disabled: value }), { Disabled: null })
  }
  t.strictSame(declaredQuantization({ binary: {}, scalar: null }), { binary: {} })
  t.equal(declaredQuantization({ scalar: null }), undefined)
  t.equal(declaredQuantization(undefined), undefined)
})

t.test('values that the CRD passes through to the engine', async (t) => {
  const spec = collectionSpec({
    ...{
      replicationFactor: 2,
      writeConsistencyFactor: 1,
      readFanOutFactor: 1,
      onDiskPayload: true,
    },
    vectors: [{ ...vector, name: 'a', onDisk: true, hnsw: { m: 8 }, quantization: { turbo: {} } }],
    sparseVectors: [{ name: 's', modifier: 'idf', index: { on_disk: true } }],
    ...{ hnsw: { m: 8 }, optimizers: { max_segment_size: 9 }, quantization: { binary: {} } },
    ...{ wal: { wal_capacity_mb: 8, wal_segments_ahead: null }, strictMode: { enabled: true } },
  })
  t.strictSame(engineConfigPaths(spec), [
    'hnsw.m',
    'optimizers.max_segment_size',
    'quantization',
    'strictMode.enabled',
    'vectors[a].hnsw.m',
    'vectors[a].quantization',
    'sparseVectors[s].index.on_disk',
    'wal.wal_capacity_mb',
  ])
  t.strictSame(engineConfigPaths(collectionSpec({ replicationFactor: 2 })), [])
})
