/** Corpus of VecRestore and VecMigration. */
import { names } from './backup.ts'
import { pairCases, type Fields } from './case.ts'

export const SMALLEST_RESTORE: Fields = {
  backupRef: { name: 'nightly' },
  targetClusterRef: { name: 'main' },
}

const bucket = {
  s3: { bucket: 'backups', path: 'a/nightly', credentialsSecretRef: { name: 'bucket-keys' } },
}
function inBucket(fields: Fields): Fields {
  return { backupRef: undefined, source: { s3: { ...bucket.s3, ...fields } } }
}
const fromBucket = { backupRef: undefined, source: bucket }

const shards = [{ collection: 'docs', ids: [2, 5] }]
const NOT_WITH_SHARDS =
  'spec.shards excludes spec.collections, spec.collectionMapping, spec.replicationFactor and every spec.priority but snapshot'

const RESTORE_CASES = pairCases('VecRestore', SMALLEST_RESTORE, [
  {
    title: 'exactly one of backupRef and source',
    accepted: fromBucket,
    refused: { source: bucket },
    field: 'spec',
    because: 'exactly one of spec.backupRef and spec.source is required',
  },
  {
    title: 'one of backupRef and source is there',
    accepted: { backupRef: { name: 'nightly', namespace: 'other' } },
    refused: { backupRef: undefined },
    field: 'spec',
    because: 'exactly one of spec.backupRef and spec.source is required',
  },
  {
    title: 'the spec cannot change',
    from: {},
    accepted: {},
    refused: { waitForIndexing: false },
    field: 'spec',
    because: 'spec is immutable',
  },
  {
    title: 'a collection cannot be added to the mapping later',
    from: { collectionMapping: { a: 'b' } },
    accepted: { collectionMapping: { a: 'b' } },
    refused: { collectionMapping: { a: 'b', c: 'd' } },
    field: 'spec',
    because: 'spec is immutable',
  },
  {
    title: 'the longest spec can be compared with what it was',
    from: { collections: names(1000), collectionMapping: mapping(1000) },
    accepted: { collections: names(1000), collectionMapping: mapping(1000) },
    refused: { collections: names(1000), collectionMapping: mapping(999) },
    field: 'spec',
    because: 'spec is immutable',
  },
  {
    title: 'source.s3.path is required',
    accepted: fromBucket,
    refused: { backupRef: undefined, source: { s3: { ...bucket.s3, path: undefined } } },
    field: 'spec.source.s3.path',
    because: 'Required value',
  },
  {
    title: 'a ServiceAccount replaces the Secret of a bucket',
    accepted: inBucket({ credentialsSecretRef: undefined, serviceAccountName: 'backup' }),
    refused: inBucket({ serviceAccountName: 'backup' }),
    field: 'spec.source.s3',
    because:
      'exactly one of spec.source.s3.credentialsSecretRef and spec.source.s3.serviceAccountName is required',
  },
  {
    title: 'the authority of a store is in a Secret or in a ConfigMap',
    accepted: inBucket({ caConfigMapRef: { name: 'root' } }),
    refused: inBucket({ caSecretRef: { name: 'root' }, caConfigMapRef: { name: 'root' } }),
    field: 'spec.source.s3',
    because:
      'at most one of spec.source.s3.caSecretRef and spec.source.s3.caConfigMapRef is allowed',
  },
  {
    title: 'a path stays inside the bucket',
    accepted: { backupRef: undefined, source: { s3: { ...bucket.s3, path: 'a.b/' } } },
    refused: { backupRef: undefined, source: { s3: { ...bucket.s3, path: '../a' } } },
    field: 'spec.source.s3.path',
    because: 'spec.source.s3.path must not have . or .. between its slashes',
  },
  {
    title: 'the mapped name is one the engine can make',
    accepted: { collectionMapping: { 'Old:docs': 'docs' } },
    refused: { collectionMapping: { docs: 'a/b' } },
    field: 'spec.collectionMapping.docs',
    because: 'should match',
  },
  {
    title: 'the mapped name is not ..',
    accepted: { collectionMapping: { docs: 'docs.2' } },
    refused: { collectionMapping: { docs: '..' } },
    field: 'spec.collectionMapping[docs]',
    because: 'a collection cannot be named . or ..',
  },
  {
    title: 'collections and collectionMapping may have 1000 names each',
    accepted: { collections: names(1000), collectionMapping: mapping(1000) },
    refused: { collectionMapping: mapping(1001) },
    field: 'spec.collectionMapping',
    because: 'must have at most 1000 items',
  },
  {
    title: 'shards and collections exclude each other',
    accepted: { shards, priority: 'snapshot' },
    refused: { shards, collections: ['docs'] },
    field: 'spec',
    because: NOT_WITH_SHARDS,
  },
  {
    title: 'shards keep their collection',
    accepted: { shards: [...shards, { collection: '中文', ids: [0] }] },
    refused: { shards, collectionMapping: { docs: 'other' } },
    field: 'spec',
    because: NOT_WITH_SHARDS,
  },
  {
    title: 'shards are restored with the priority snapshot',
    accepted: { shards, waitForIndexing: false },
    refused: { shards, priority: 'no_sync' },
    field: 'spec',
    because: NOT_WITH_SHARDS,
  },
  {
    title: 'shards have ids',
    accepted: { shards: [{ collection: 'docs', ids: [0] }] },
    refused: { shards: [{ collection: 'docs', ids: [] }] },
    field: 'spec.shards[0].ids',
    because: 'should have at least 1 items',
  },
])

function mapping(count: number): Fields {
  return Object.fromEntries(names(count).map((name) => [name, name.toUpperCase()]))
}

export const SMALLEST_MIGRATION: Fields = {
  source: { clusterRef: { name: 'old' } },
  targetClusterRef: { name: 'main' },
}

function outside(url: string): Fields {
  return { source: { endpoint: { url } } }
}

const keys = { apiKeySecretRef: { name: 'a', key: 'b' }, caSecretRef: { name: 'a', key: 'ca.crt' } }
const endpoint = { url: 'https://engine.example.com:6333/api', ...keys }

const MIGRATION_CASES = pairCases('VecMigration', SMALLEST_MIGRATION, [
  {
    title: 'exactly one of source.clusterRef and source.endpoint',
    accepted: { source: { endpoint } },
    refused: { source: { clusterRef: { name: 'old' }, endpoint } },
    field: 'spec.source',
    because: 'exactly one of spec.source.clusterRef and spec.source.endpoint is required',
  },
  {
    title: 'one of source.clusterRef and source.endpoint is there',
    accepted: { source: { clusterRef: { name: 'old', namespace: 'other' } } },
    refused: { source: {} },
    field: 'spec.source',
    because: 'exactly one of spec.source.clusterRef and spec.source.endpoint is required',
  },
  {
    title: 'the spec cannot change',
    from: {},
    accepted: {},
    refused: { batchSize: 100 },
    field: 'spec',
    because: 'spec is immutable',
  },
  {
    title: 'target cannot be set later',
    from: {},
    accepted: {},
    refused: { target: { shardNumber: 2 } },
    field: 'spec',
    because: 'spec is immutable',
  },
  {
    title: 'the source is an http or https URL',
    accepted: outside('http://10.0.0.1:6333'),
    refused: outside('grpc://10.0.0.1:6334'),
    field: 'spec.source.endpoint.url',
    because: 'should match',
  },
  {
    title: 'the URL of the source holds no user and password',
    accepted: outside('https://engine.example.com/'),
    refused: outside('https://user:secret@engine.example.com'),
    field: 'spec.source.endpoint.url',
    because: 'should match',
  },
  ...['/?a=b', '?a=b', '/#a', '#a'].map((end) => ({
    title: `the URL of the source holds no query and fragment: ${end}`,
    accepted: outside('https://engine.example.com/path'),
    refused: outside(`https://engine.example.com${end}`),
    field: 'spec.source.endpoint.url',
    because: 'should match',
  })),
  {
    title: 'batchSize is 1 to 10000',
    accepted: { batchSize: 10_000 },
    refused: { batchSize: 10_001 },
    field: 'spec.batchSize',
    because: 'should be less than or equal to 10000',
  },
  {
    title: 'a key reference has name and key',
    accepted: { source: { endpoint } },
    refused: { source: { endpoint: { ...endpoint, apiKeySecretRef: { name: 'a' } } } },
    field: 'spec.source.endpoint.apiKeySecretRef.key',
    because: 'Required value',
  },
])

export const RESTORE_AND_MIGRATION_CASES = [...RESTORE_CASES, ...MIGRATION_CASES]
