/** What of a collection is fixed at its creation. */
import t from 'tap'
import type { CollectionSpec } from '../../../crds/collection.ts'
import {
  formatDifference,
  immutableDifferences,
} from '../../../hooks/collection/reconcile-config.ts'
import { collectionSpec, vector } from './stage.ts'
import { type ConfigOverrides, config, singleVector } from './config.ts'

const two = [
  { ...vector, name: 'a' },
  { ...vector, name: 'b' },
]

const named = (names: Record<string, object>) => ({ params: { vectors: names } })

const plainVector = { size: 4, distance: 'Cosine' }

const FIXED: [string, Partial<CollectionSpec>, ConfigOverrides, string[]][] = [
  ['nothing differs', {}, {}, []],
  ['size', { vectors: [{ ...vector, size: 8 }] }, {}, ['vectors[0].size: desired 8, live 4']],
  [
    'distance',
    { vectors: [{ ...vector, distance: 'Dot' }] },
    {},
    ['vectors[0].distance: desired Dot, live Cosine'],
  ],
  ['datatype float32 matches absent', { vectors: [{ ...vector, datatype: 'float32' }] }, {}, []],
  [
    'datatype',
    { vectors: [{ ...vector, datatype: 'uint8' }] },
    {},
    ['vectors[0].datatype: desired uint8, live unset'],
  ],
  ['datatype that the spec does not declare', {}, singleVector({ datatype: 'float16' }), []],
  [
    'multivector',
    { vectors: [{ ...vector, multivector: { comparator: 'max_sim' } }] },
    {},
    ['vectors[0].multivector.comparator: desired max_sim, live unset'],
  ],
  [
    'multivector that is there',
    { vectors: [{ ...vector, multivector: { comparator: 'max_sim' } }] },
    singleVector({ multivector_config: { comparator: 'max_sim' } }),
    [],
  ],
  [
    'one unnamed vector against named ones',
    {},
    named({ a: plainVector }),
    ['vectors: desired one unnamed vector, live named vectors a'],
  ],
  [
    'named vectors against the unnamed one',
    { vectors: two },
    {},
    ['vectors: desired named vectors a, b, live one unnamed vector'],
  ],
  [
    'one unnamed vector against none',
    {},
    named({}),
    ['vectors: desired one unnamed vector, live no dense vector'],
  ],
  [
    'a named vector that is missing, not one that the spec does not name',
    { vectors: two },
    named({ b: plainVector, c: plainVector }),
    ['vectors[a]: desired a vector, live unset'],
  ],
  [
    'a vector called size is a named one',
    { vectors: [{ ...vector, name: 'size' }] },
    named({ size: plainVector }),
    [],
  ],
  [
    'a sparse vector that is missing, not one that the spec does not name',
    { sparseVectors: [{ name: 's', index: {} }] },
    { params: { sparse_vectors: { r: {} } } },
    ['sparseVectors[s]: desired a vector, live unset'],
  ],
  [
    'a sparse vector where the spec names dense ones only',
    {},
    { params: { vectors: { size: 4, distance: 'Cosine' }, sparse_vectors: { r: {} } } },
    [],
  ],
  [
    'a dense vector where the spec names sparse ones only',
    { vectors: [], sparseVectors: [{ name: 's', index: {} }] },
    { params: { vectors: { size: 4, distance: 'Cosine' }, sparse_vectors: { s: {} } } },
    [],
  ],
  [
    'named dense vectors where the spec names sparse ones only',
    { vectors: [], sparseVectors: [{ name: 's', index: {} }] },
    { params: { vectors: { a: plainVector }, sparse_vectors: { s: {} } } },
    [],
  ],
  ['shardNumber, if declared', { shardNumber: 2 }, {}, ['shardNumber: desired 2, live 3']],
  ['shardNumber that is not declared', {}, { params: { shard_number: 9 } }, []],
  ['shardingMethod auto matches absent', { shardingMethod: 'auto' }, {}, []],
  [
    'shardingMethod',
    { shardingMethod: 'custom' },
    {},
    ['shardingMethod: desired custom, live auto'],
  ],
]

for (const [title, spec, live, lines] of FIXED) {
  t.test(`what is fixed at creation: ${title}`, async (t) => {
    t.strictSame(
      immutableDifferences(collectionSpec(spec), config(live)).map(formatDifference),
      lines,
    )
  })
}
