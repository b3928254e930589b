import t from 'tap'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { clusterSpec } from '../builders.ts'
import { admit } from '../world/admission/admit.ts'
import { SMALLEST_ACCESS_KEY } from './corpus/access-key.ts'
import { SMALLEST_BACKUP, SMALLEST_SCHEDULE } from './corpus/backup.ts'
import { object, type Fields, type KindName } from './corpus/case.ts'
import { SMALLEST_CLUSTER } from './corpus/cluster.ts'
import { SMALLEST_COLLECTION } from './corpus/collection.ts'
import { SMALLEST_MIGRATION, SMALLEST_RESTORE } from './corpus/restore.ts'

function admitted(kind: KindName, spec: Fields): unknown {
  const resource = RESOURCES.find((candidate) => candidate.kind === kind)
  const crd = resource === undefined ? {} : customResourceDefinition(resource, '1.0.0')
  return (admit(crd, object(kind, spec)) as unknown as { spec: unknown }).spec
}

const s3 = {
  bucket: 'backups',
  prefix: '',
  region: 'us-east-1',
  forcePathStyle: false,
  credentialsSecretRef: {
    name: 'bucket-keys',
    accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
    secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
  },
}

const DEFAULTED: [KindName, given: Fields, stored: Fields][] = [
  [
    'VecCluster',
    SMALLEST_CLUSTER,
    // The spec that tests of the hooks use is the one that the API server stores, with all defaults.
    clusterSpec({ version: '1.16.0' }),
  ],
  [
    'VecCollection',
    {
      ...SMALLEST_COLLECTION,
      sparseVectors: [{ name: 'words' }],
      payloadIndexes: [{ field: 'a', type: 'text' }],
    },
    {
      clusterRef: { name: 'main' },
      vectors: [{ size: 4, distance: 'Dot', hnsw: {}, quantization: {} }],
      sparseVectors: [{ name: 'words', index: {} }],
      payloadIndexes: [{ field: 'a', type: 'text', params: {} }],
      shardingMethod: 'auto',
      hnsw: {},
      optimizers: {},
      quantization: {},
      wal: {},
      strictMode: {},
      deletionPolicy: 'Retain',
    },
  ],
  ['VecAccessKey', SMALLEST_ACCESS_KEY, { clusterRef: { name: 'main' }, access: 'r' }],
  [
    'VecBackup',
    SMALLEST_BACKUP,
    { clusterRef: { name: 'main' }, storage: { s3 }, method: 'Node', parallelism: 2 },
  ],
  [
    'VecBackupSchedule',
    SMALLEST_SCHEDULE,
    {
      clusterRef: { name: 'main' },
      storage: { s3 },
      schedule: '0 3 * * *',
      method: 'Node',
      parallelism: 2,
      suspend: false,
      concurrencyPolicy: 'Forbid',
    },
  ],
  [
    'VecRestore',
    SMALLEST_RESTORE,
    {
      ...SMALLEST_RESTORE,
      collectionMapping: {},
      priority: 'snapshot',
      waitForIndexing: true,
    },
  ],
  [
    'VecMigration',
    SMALLEST_MIGRATION,
    { ...SMALLEST_MIGRATION, collectionMapping: {}, batchSize: 256, createMissing: true },
  ],
]

for (const [kind, given, stored] of DEFAULTED) {
  t.test(`the defaults of ${kind} are those of the specification`, async (t) => {
    t.strictSame(admitted(kind, given), stored)
  })
}

t.test('autoGenerate and jwtRbac are false where a key is given', async (t) => {
  const secretRef = { name: 'keys', key: 'full' }
  const spec = { ...SMALLEST_CLUSTER, apiKey: { secretRef }, readOnlyApiKey: { secretRef } }
  t.match(admitted('VecCluster', spec), {
    apiKey: { secretRef, autoGenerate: false, jwtRbac: false },
    readOnlyApiKey: { secretRef, autoGenerate: false },
  })
})

t.test("the engine's own objects are kept field by field", async (t) => {
  const hnsw = { m: 16, unheard_of: { deep: [1, null] } }
  t.match(admitted('VecCollection', { ...SMALLEST_COLLECTION, hnsw, optimizers: hnsw }), {
    hnsw,
    optimizers: hnsw,
  })
})
