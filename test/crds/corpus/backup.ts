/** Corpus of VecBackup and VecBackupSchedule. */
import { pairCases, type Fields } from './case.ts'

const s3 = { bucket: 'backups', credentialsSecretRef: { name: 'bucket-keys' } }

export const SMALLEST_BACKUP: Fields = { clusterRef: { name: 'main' }, storage: { s3 } }
export const SMALLEST_SCHEDULE: Fields = { ...SMALLEST_BACKUP, schedule: '0 3 * * *' }

function inBucket(fields: Fields): Fields {
  return { storage: { s3: { ...s3, ...fields } } }
}

export function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `c-${index}`.padEnd(255, 'x'))
}

function immutableCase(title: string, refused: Fields, from: Fields = {}) {
  return {
    title,
    from,
    accepted: from,
    refused,
    field: 'spec',
    because: 'spec is immutable',
  }
}

const ONE_ACCESS =
  'exactly one of spec.storage.s3.credentialsSecretRef and spec.storage.s3.serviceAccountName is required'

const STORAGE_CASES = [
  {
    title: 'a ServiceAccount replaces the Secret of a bucket',
    accepted: inBucket({ credentialsSecretRef: undefined, serviceAccountName: 'backup' }),
    refused: inBucket({ serviceAccountName: 'backup' }),
    field: 'spec.storage.s3',
    because: ONE_ACCESS,
  },
  {
    title: 'a bucket needs a Secret or a ServiceAccount',
    accepted: {},
    refused: inBucket({ credentialsSecretRef: undefined }),
    field: 'spec.storage.s3',
    because: ONE_ACCESS,
  },
  {
    title: 'the authority of a store is in a Secret or in a ConfigMap',
    accepted: inBucket({ caSecretRef: { name: 'root', key: 'root.pem' } }),
    refused: inBucket({ caSecretRef: { name: 'root' }, caConfigMapRef: { name: 'root' } }),
    field: 'spec.storage.s3',
    because:
      'at most one of spec.storage.s3.caSecretRef and spec.storage.s3.caConfigMapRef is allowed',
  },
  {
    title: 'the authority of a store has a name',
    accepted: inBucket({ caConfigMapRef: { name: 'root' } }),
    refused: inBucket({ caConfigMapRef: { key: 'root.pem' } }),
    field: 'spec.storage.s3.caConfigMapRef.name',
    because: 'Required value',
  },
  {
    title: 'a KMS key needs an encryption by KMS',
    accepted: inBucket({ encryption: { type: 'aws:kms', kmsKeyId: 'key' } }),
    refused: inBucket({ encryption: { type: 'AES256', kmsKeyId: 'key' } }),
    field: 'spec.storage.s3.encryption',
    because: 'kmsKeyId needs a type of aws:kms or aws:kms:dsse',
  },
  {
    title: 'the storage class is one that can be read at once',
    accepted: inBucket({ storageClass: 'GLACIER_IR' }),
    refused: inBucket({ storageClass: 'DEEP_ARCHIVE' }),
    field: 'spec.storage.s3.storageClass',
    because:
      'objects of GLACIER and DEEP_ARCHIVE cannot be read before the store has restored them',
  },
]

const BACKUP_CASES = pairCases('VecBackup', SMALLEST_BACKUP, [
  immutableCase('the whole spec is immutable', { collections: ['docs'] }),
  immutableCase('retentionDays cannot be set later', { retentionDays: 3 }),
  immutableCase('retentionDays cannot be taken away', {}, { retentionDays: 3 }),
  {
    title: 'deletionPolicy can be set later, and nothing with it',
    from: {},
    accepted: { deletionPolicy: 'Retain' },
    refused: { deletionPolicy: 'Retain', retentionDays: 3 },
    field: 'spec',
    because: 'spec is immutable, except spec.deletionPolicy',
  },
  {
    title: 'deletionPolicy can change and be taken away',
    from: { deletionPolicy: 'Retain', retentionDays: 3 },
    accepted: { retentionDays: 3 },
    refused: { deletionPolicy: 'Delete', retentionDays: 4 },
    field: 'spec',
    because: 'spec is immutable, except spec.deletionPolicy',
  },
  {
    title: 'deletionPolicy is Delete or Retain',
    accepted: { deletionPolicy: 'Delete' },
    refused: { deletionPolicy: 'Orphan' },
    field: 'spec.deletionPolicy',
    because: 'Unsupported value',
  },
  ...STORAGE_CASES,
  immutableCase('the prefix cannot change', inBucket({ prefix: 'b' }), inBucket({ prefix: 'a' })),
  {
    title: 'the longest spec can be compared with what it was',
    from: { collections: names(1000) },
    accepted: { collections: names(1000) },
    refused: { collections: names(999) },
    field: 'spec',
    because: 'spec is immutable',
  },
  {
    title: 'collections names each collection once',
    accepted: { collections: ['docs', 'Old:Docs'] },
    refused: { collections: ['docs', 'docs'] },
    field: 'spec.collections[1]',
    because: 'Duplicate value',
  },
  {
    title: 'a list of collections may have 1000 names',
    accepted: { collections: names(1000) },
    refused: { collections: names(1001) },
    field: 'spec.collections',
    because: 'must have at most 1000 items',
  },
  {
    title: 'an empty list of collections is not all of them',
    accepted: {},
    refused: { collections: [] },
    field: 'spec.collections',
    because: 'should have at least 1 items',
  },
  {
    title: 'no collection is named ..',
    accepted: { collections: ['.a'] },
    refused: { collections: ['..'] },
    field: 'spec.collections[0]',
    because: 'a collection cannot be named . or ..',
  },
  {
    title: 'a prefix stays inside the bucket',
    accepted: inBucket({ prefix: 'a..b/.c/d/' }),
    refused: inBucket({ prefix: 'a/../b' }),
    field: 'spec.storage.s3.prefix',
    because: 'spec.storage.s3.prefix must not have . or .. between its slashes',
  },
  {
    title: 'an endpoint is a URL',
    accepted: inBucket({ endpoint: 'http://[::1]:9000', forcePathStyle: true }),
    refused: inBucket({ endpoint: 'minio:9000' }),
    field: 'spec.storage.s3.endpoint',
    because: 'should match',
  },
  {
    title: 'an endpoint holds no user and password',
    accepted: inBucket({ endpoint: 'https://s3.example.com/path' }),
    refused: inBucket({ endpoint: 'https://user:secret@s3.example.com' }),
    field: 'spec.storage.s3.endpoint',
    because: 'should match',
  },
  ...['/?a=b', '?a=b', '/#a', '#a'].map((end) => ({
    title: `an endpoint holds no query and fragment: ${end}`,
    accepted: inBucket({ endpoint: 'https://s3.example.com/path' }),
    refused: inBucket({ endpoint: `https://s3.example.com${end}` }),
    field: 'spec.storage.s3.endpoint',
    because: 'should match',
  })),
  {
    title: 'credentialsSecretRef.name is required',
    accepted: {},
    refused: inBucket({ credentialsSecretRef: {} }),
    field: 'spec.storage.s3.credentialsSecretRef.name',
    because: 'Required value',
  },
])

const NOT_CRON = 'spec.schedule must be a cron expression of five fields'

function cron(title: string, accepted: string, refused: string) {
  return {
    title,
    accepted: { schedule: accepted },
    refused: { schedule: refused },
    field: 'spec.schedule',
    because: NOT_CRON,
  }
}

/** Cron expressions of many shapes that are accepted. */
export const CRON_EXPRESSIONS = [
  '*/15 0-6,18 1 JAN-mar Mon',
  '5  4  *  *  sun',
  '59 23 31 12 7',
  '0 9 1-15/2 1,6 *',
  '00 08 09 09 0',
  '0 0 30 2 *',
]

const SCHEDULE_CASES = pairCases('VecBackupSchedule', SMALLEST_SCHEDULE, [
  ...STORAGE_CASES,
  cron('schedule has five fields', '*/15 0-6,18 1 JAN-mar Mon', '0 0 3 * * *'),
  cron('schedule has no fewer fields than five', '5  4  *  *  sun', '5 4 * * '),
  cron('schedule is no word', '0 0 1 1 *', '@midnight'),
  cron('minutes end at 59', '59 23 31 12 7', '60 23 31 12 7'),
  cron('hours end at 23', '0 9 * * *', '0 24 * * *'),
  cron('days begin at 1', '0 9 1-15/2 * *', '0 9 0 * *'),
  cron('months end at 12', '0 9 * 1,6 *', '0 9 * 13 *'),
  cron('weekdays end at 7', '0 9 * * 1-5', '0 9 * * 8'),
  cron('a step is more than zero', '*/5 * * * *', '*/0 * * * *'),
  cron('schedule names no time zone', '0 9 * * *', 'TZ=UTC 0 9 * *'),
  ...CRON_EXPRESSIONS.map((schedule) =>
    cron(`schedule may be ${schedule}`, schedule, `${schedule} UTC`),
  ),
  {
    title: 'drills have a schedule of five fields',
    accepted: { drill: { schedule: '0 5 * * 0' } },
    refused: { drill: { schedule: '@weekly' } },
    field: 'spec.drill.schedule',
    because: 'spec.drill.schedule must be a cron expression of five fields',
  },
  {
    title: 'drills into another number of nodes need backups by shard',
    accepted: { method: 'Shard', drill: { schedule: '0 5 * * 0', replicas: 1 } },
    refused: { drill: { schedule: '0 5 * * 0', replicas: 1 } },
    field: 'spec',
    because: 'spec.drill.replicas requires spec.method Shard',
  },
  {
    title: 'schedule is required',
    accepted: {},
    refused: { schedule: undefined },
    field: 'spec.schedule',
    because: 'Required value',
  },
  {
    title: 'a name has at most 47 characters',
    accepted: {},
    acceptedName: 'a'.repeat(47),
    refused: {},
    refusedName: 'a'.repeat(48),
    because: 'metadata.name must have at most 47 characters',
  },
  {
    title: 'a prefix stays inside the bucket',
    accepted: inBucket({ prefix: 'nightly' }),
    refused: inBucket({ prefix: '..' }),
    field: 'spec.storage.s3.prefix',
    because: 'spec.storage.s3.prefix must not have . or .. between its slashes',
  },
  {
    title: 'everything but its name may change',
    from: {},
    accepted: {
      schedule: '0 4 * * *',
      suspend: true,
      clusterRef: { name: 'other' },
      ...inBucket({ prefix: 'other' }),
    },
    refused: { concurrencyPolicy: 'Queue' },
    field: 'spec.concurrencyPolicy',
    because: 'Unsupported value',
  },
])

export const BACKUP_AND_SCHEDULE_CASES = [...BACKUP_CASES, ...SCHEDULE_CASES]
