/** Corpus of VecCollection: its admission rules and the sizes of its lists. */
import { pairCases, type Fields } from './case.ts'

export const SMALLEST_COLLECTION: Fields = {
  clusterRef: { name: 'main' },
  vectors: [{ size: 4, distance: 'Dot' }],
}

const dense = { size: 4, distance: 'Cosine' }

function named(count: number, fields: Fields = {}): Fields[] {
  return Array.from({ length: count }, (_, index) => ({ name: `v-${index}`, ...fields }))
}

export const COLLECTION_CASES = pairCases('VecCollection', SMALLEST_COLLECTION, [
  {
    title: 'clusterRef.name is required',
    accepted: { clusterRef: { name: 'main', namespace: 'other' } },
    refused: { clusterRef: { namespace: 'other' } },
    field: 'spec.clusterRef.name',
    because: 'Required value',
  },
  {
    title: 'at least one of vectors and sparseVectors',
    accepted: { vectors: undefined, sparseVectors: [{ name: 'words' }] },
    refused: { vectors: undefined },
    field: 'spec',
    because: 'at least one of spec.vectors and spec.sparseVectors is required',
  },
  {
    title: 'an empty list of vectors is none',
    accepted: { vectors: [], sparseVectors: [{ name: 'words' }] },
    refused: { vectors: [], sparseVectors: [] },
    field: 'spec',
    because: 'at least one of spec.vectors and spec.sparseVectors is required',
  },
  {
    title: 'an unnamed vector must be the only vector',
    accepted: { vectors: [{ ...dense }], sparseVectors: [{ name: 'words' }] },
    refused: { vectors: [{ ...dense }, { ...dense, name: 'text' }] },
    field: 'spec.vectors',
    because: 'spec.vectors: an unnamed vector must be the only vector',
  },
  {
    title: 'names are required when there is more than one entry',
    accepted: { vectors: named(2, dense) },
    refused: { vectors: [{ ...dense }, { ...dense }] },
    field: 'spec.vectors',
    because: 'spec.vectors: an unnamed vector must be the only vector',
  },
  {
    title: 'a vector name appears once',
    accepted: { vectors: [{ ...dense, name: 'text' }] },
    refused: { vectors: [...named(1, dense), ...named(1, dense)] },
    field: 'spec.vectors',
    because: 'spec.vectors: a name may appear only once',
  },
  {
    title: 'dense and sparse vectors share no name',
    accepted: { vectors: named(2, dense), sparseVectors: [{ name: 'words' }] },
    refused: { vectors: named(2, dense), sparseVectors: [{ name: 'v-1' }] },
    field: 'spec',
    because: 'spec.vectors and spec.sparseVectors must not share a name',
  },
  {
    title: 'sparse vectors are keyed by name',
    accepted: { sparseVectors: named(2) },
    refused: { sparseVectors: [{ name: 'a' }, { name: 'a' }] },
    field: 'spec.sparseVectors[1]',
    because: 'Duplicate value',
  },
  {
    title: 'payloadIndexes are keyed by field',
    accepted: {
      payloadIndexes: [
        { field: 'a', type: 'keyword' },
        { field: 'b', type: 'text', params: { tokenizer: 'word' } },
      ],
    },
    refused: {
      payloadIndexes: [
        { field: 'a', type: 'keyword' },
        { field: 'a', type: 'text' },
      ],
    },
    field: 'spec.payloadIndexes[1]',
    because: 'Duplicate value',
  },
  {
    title: 'an alias appears once',
    accepted: { aliases: ['current', 'Old_1'] },
    refused: { aliases: ['current', 'current'] },
    field: 'spec.aliases[1]',
    because: 'Duplicate value',
  },
  {
    title: 'clusterRef cannot change',
    from: {},
    accepted: { vectors: [{ size: 8, distance: 'Dot' }] },
    refused: { clusterRef: { name: 'other' } },
    field: 'spec.clusterRef',
    because: 'spec.clusterRef is immutable',
  },
  {
    title: 'clusterRef.namespace cannot be set later',
    from: {},
    accepted: { replicationFactor: 2 },
    refused: { clusterRef: { name: 'main', namespace: 'other' } },
    field: 'spec.clusterRef',
    because: 'spec.clusterRef is immutable',
  },
  {
    title: 'collectionName cannot change',
    from: { collectionName: 'Docs_1' },
    accepted: { collectionName: 'Docs_1', deletionPolicy: 'Delete' },
    refused: { collectionName: 'Docs_2' },
    field: 'spec',
    because: 'spec.collectionName is immutable',
  },
  {
    title: 'collectionName cannot be set later',
    from: {},
    accepted: { aliases: ['current'] },
    refused: { collectionName: 'Docs_1' },
    field: 'spec',
    because: 'spec.collectionName is immutable',
  },
  {
    title: 'collectionName cannot be taken away',
    from: { collectionName: 'Docs_1' },
    accepted: { collectionName: 'Docs_1', shardNumber: 3 },
    refused: {},
    field: 'spec',
    because: 'spec.collectionName is immutable',
  },
  {
    title: 'collectionName is what the engine allows: underscores and upper case, no slash',
    accepted: { collectionName: 'My_Collection 1' },
    refused: { collectionName: 'a/b' },
    field: 'spec.collectionName',
    because: 'should match',
  },
  {
    title: 'a collection is not named ..',
    accepted: { collectionName: '...' },
    refused: { collectionName: '..' },
    field: 'spec.collectionName',
    because: 'a collection cannot be named . or ..',
  },
  {
    title: 'vectors has up to 64 entries',
    accepted: { vectors: named(64, dense) },
    refused: { vectors: named(65, dense) },
    field: 'spec.vectors',
    because: 'must have at most 64 items',
  },
  {
    title: 'vectors and sparseVectors have up to 64 entries each',
    accepted: {
      vectors: named(64, dense).map((vector) => ({
        ...vector,
        name: String(vector['name']).padEnd(200, 'x'),
      })),
      sparseVectors: named(64),
    },
    refused: { sparseVectors: named(65) },
    field: 'spec.sparseVectors',
    because: 'must have at most 64 items',
  },
  {
    title: 'payloadIndexes has up to 256 entries',
    accepted: { payloadIndexes: indexes(256) },
    refused: { payloadIndexes: indexes(257) },
    field: 'spec.payloadIndexes',
    because: 'must have at most 256 items',
  },
  {
    title: 'aliases has up to 64 entries',
    accepted: { aliases: named(64).map(({ name }) => name) },
    refused: { aliases: named(65).map(({ name }) => name) },
    field: 'spec.aliases',
    because: 'must have at most 64 items',
  },
])

function indexes(count: number): Fields[] {
  return Array.from({ length: count }, (_, index) => ({ field: `f.${index}`, type: 'keyword' }))
}
