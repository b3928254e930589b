/** Objects with every field of spec set, as valid as can be: two where fields exclude each other. */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { object } from './case.ts'

const s3 = {
  bucket: 'backups',
  region: 'eu-1',
  endpoint: 'https://s3.example.com',
  forcePathStyle: true,
  credentialsSecretRef: {
    name: 'bucket-keys',
    accessKeyIdKey: 'id',
    secretAccessKeyKey: 'secret',
    sessionTokenKey: 'session',
  },
  caSecretRef: { name: 'root', key: 'root.pem' },
}
const clusterRef = { name: 'main', namespace: 'other' }
const secretKey = { name: 'keys', key: 'full' }
const amounts = { cpu: '500m', memory: '2Gi' }
const backup = {
  clusterRef,
  storage: {
    s3: {
      ...{ ...s3, prefix: 'a/b', storageClass: 'STANDARD_IA' },
      encryption: { type: 'aws:kms', kmsKeyId: 'key' },
    },
  },
  collections: ['docs'],
  method: 'Shard',
  parallelism: 4,
  deletionPolicy: 'Retain',
}
const mapping = { collections: ['docs'], collectionMapping: { docs: 'documents' } }

const cluster = {
  version: 'v1.16.0',
  replicas: 3,
  hibernate: true,
  hibernation: { backupScheduleRef: { name: 'nightly' } },
  maintenanceWindows: [{ schedule: '0 2 * * 6', duration: '3h', timeZone: 'Europe/Berlin' }],
  image: {
    repository: 'registry.example.com/engine',
    digest: `sha256:${'0123456789abcdef'.repeat(4)}`,
    pullPolicy: 'Always',
    unprivileged: true,
  },
  resources: { requests: amounts, limits: amounts },
  persistence: {
    size: '20Gi',
    storageClassName: 'fast',
    volumeAttributesClassName: 'gold',
    accessModes: ['ReadWriteOncePod'],
    autoGrow: { above: 60, by: '10Gi', max: '1Ti' },
    onScaleIn: 'Keep',
    onDelete: 'Delete',
  },
  shards: { balance: 'Always', maxTransfers: 4 },
  healing: { replicas: false, lostNodes: 'WhenSafe' },
  resharding: false,
  update: { singleCopies: 'Refuse' },
  snapshotPersistence: {
    enabled: true,
    size: '5Gi',
    storageClassName: 'slow',
    volumeAttributesClassName: 'silver',
  },
  cluster: { enabled: true, p2p: { port: 6400, enableTls: true } },
  service: { type: 'NodePort', annotations: { a: 'b' } },
  apiKey: {
    ...{ secretRef: secretKey, autoGenerate: false, jwtRbac: true },
    rotation: { overlap: '2h' },
  },
  readOnlyApiKey: { secretRef: secretKey, autoGenerate: false },
  tls: { enabled: true, secretRef: { name: 'certificate' }, restartOnRenewal: false },
  metrics: {
    enabled: true,
    serviceMonitor: { enabled: true, interval: '1m30s', labels: { release: 'prometheus' } },
  },
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'engine', operator: 'Exists', effect: 'NoSchedule' }],
  affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' },
  ],
  priorityClassName: 'databases',
  terminationGracePeriodSeconds: 60,
  minReadySeconds: 10,
  imagePullSecrets: [{ name: 'registry' }],
  securityContext: {
    ...{ runAsUser: 1_000_680_000, runAsGroup: 1_000_680_000, fsGroup: 1_000_680_000 },
    fsGroupChangePolicy: 'OnRootMismatch',
  },
  podLabels: { team: 'search' },
  podAnnotations: { 'example.dev/note': 'yes' },
  podDisruptionBudget: { enabled: true, maxUnavailable: 2 },
  config: { storage: { performance: { max_search_threads: 4 } }, log_level: null },
}

const vector = {
  name: 'text',
  size: 768,
  distance: 'Cosine',
  datatype: 'float16',
  multivector: { comparator: 'max_sim' },
  onDisk: true,
  hnsw: { m: 32 },
  quantization: { scalar: { type: 'int8', quantile: 0.99 } },
}

const collection = {
  clusterRef,
  collectionName: 'My_Docs',
  vectors: [vector],
  sparseVectors: [{ name: 'words', modifier: 'idf', index: { on_disk: true } }],
  shardNumber: 6,
  shardingMethod: 'custom',
  replicationFactor: 2,
  writeConsistencyFactor: 1,
  readFanOutFactor: 1,
  onDiskPayload: true,
  hnsw: { ef_construct: 200 },
  optimizers: { indexing_threshold: 1000 },
  quantization: { binary: { always_ram: true } },
  wal: { wal_capacity_mb: 64 },
  strictMode: { enabled: true, sparse_config: { words: { max_length: 10 } } },
  payloadIndexes: [{ field: 'title', type: 'text', params: { tokenizer: 'word' } }],
  aliases: ['current'],
  deletionPolicy: 'Delete',
}

const accessKey = {
  clusterRef,
  subject: 'reader',
  ttl: '720h',
  renewBefore: '1h30m',
  valueExists: { collection: 'users', matches: [{ key: 'id', value: 7 }] },
  secretName: 'reader-token',
}

const schedule = {
  drill: {
    schedule: '0 4 * * 0',
    resources: { requests: amounts, limits: amounts },
    persistence: { size: '5Gi', storageClassName: 'slow' },
    timeout: '2h',
  },
  ...backup,
  schedule: '0 3 * * *',
  suspend: true,
  concurrencyPolicy: 'Replace',
  startingDeadlineSeconds: 600,
  retentionPolicy: { keepLast: 3, keepDaily: 7, keepWeekly: 4, keepMonthly: 12 },
}

const migration = {
  targetClusterRef: clusterRef,
  ...mapping,
  batchSize: 100,
  createMissing: false,
  target: { shardNumber: 6, replicationFactor: 2, writeConsistencyFactor: 1 },
}

const restore = {
  targetClusterRef: clusterRef,
  ...mapping,
  priority: 'no_sync',
  replicationFactor: 2,
  waitForIndexing: false,
}

const endpoint = {
  url: 'https://engine.example.com',
  apiKeySecretRef: secretKey,
  caSecretRef: { name: 'ca', key: 'ca.crt' },
}

/** A key of the KMS excludes one type of encryption. */
const storageWithoutKey = {
  s3: { ...backup.storage.s3, encryption: { type: 'aws:kms:dsse' } },
}

/** A ServiceAccount excludes a Secret, and a ConfigMap with the authority another Secret. */
function withAccount<Bucket extends typeof s3>(bucket: Bucket) {
  const { credentialsSecretRef: _, caSecretRef: caConfigMapRef, ...rest } = bucket
  return { s3: { ...rest, serviceAccountName: 'backup', caConfigMapRef } }
}

export const SAMPLES: AnyObject[] = [
  object('VecCluster', cluster),
  object('VecCollection', collection),
  object('VecAccessKey', { ...accessKey, access: 'm' }),
  object('VecAccessKey', { ...accessKey, collections: [{ name: 'docs', access: 'prw' }] }),
  object('VecBackup', { ...backup, retentionDays: 30 }),
  object('VecBackup', { ...backup, storage: storageWithoutKey }),
  // Its number of nodes needs the method of the sample.
  object('VecBackupSchedule', { ...schedule, drill: { ...schedule.drill, replicas: 1 } }),
  object('VecBackup', { ...backup, storage: withAccount(storageWithoutKey.s3) }),
  object('VecBackupSchedule', { ...schedule, storage: storageWithoutKey }),
  object('VecBackupSchedule', { ...schedule, storage: withAccount(storageWithoutKey.s3) }),
  object('VecRestore', { ...restore, backupRef: { name: 'nightly', namespace: 'other' } }),
  object('VecRestore', {
    backupRef: { name: 'nightly' },
    targetClusterRef: clusterRef,
    shards: [{ collection: 'docs', ids: [0, 5] }],
  }),
  object('VecRestore', { ...restore, source: { s3: { ...s3, path: 'a/b/nightly' } } }),
  object('VecRestore', { ...restore, source: withAccount({ ...s3, path: 'a/b/nightly' }) }),
  object('VecMigration', { ...migration, source: { clusterRef } }),
  object('VecMigration', { ...migration, source: { endpoint } }),
]
