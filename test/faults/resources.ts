/** The resources of the mixed load, one or more of each kind, as a user would write them. */
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Reference } from '../world/world.ts'
import { BUCKET_KEYS } from './world.ts'

export const NAMESPACE = 'load'
export const BUCKET = 'load'
export const COLLECTION = 'books'

export function reference(kind: string, name: string, namespace = NAMESPACE): Reference {
  return { apiVersion: API_VERSION, kind, namespace, name }
}

/** What the backups of this load have in common. */
export function content(endpoint: string, prefix: string): object {
  const credentialsSecretRef = { name: 'bucket' }
  const location = { bucket: BUCKET, prefix, region: 'us-east-1', endpoint, forcePathStyle: true }
  return { clusterRef: { name: 'a' }, storage: { s3: { ...location, credentialsSecretRef } } }
}

export function bucketSecret(): object {
  const metadata = { namespace: NAMESPACE, name: 'bucket' }
  return { apiVersion: 'v1', kind: 'Secret', metadata, data: BUCKET_KEYS }
}

export function clusterA(version: string): object {
  return of('VecCluster', 'a', {
    version,
    replicas: 2,
    apiKey: { autoGenerate: true, jwtRbac: true },
  })
}

/** The resources that are created first, all at once: each must wait for the ones that it depends on. */
export function resources(endpoint: string): object[] {
  return [
    clusterA('1.18.2'),
    of('VecCluster', 'b', { version: '1.18.3', replicas: 2 }),
    of('VecCollection', COLLECTION, {
      clusterRef: { name: 'a' },
      vectors: [{ size: 4, distance: 'Dot' }],
      shardNumber: 2,
      replicationFactor: 2,
      payloadIndexes: [{ field: 'author', type: 'keyword' }],
      aliases: ['library'],
      deletionPolicy: 'Delete',
    }),
    of('VecAccessKey', 'reader', { clusterRef: { name: 'a' }, access: 'r', ttl: '1h' }),
    of('VecBackupSchedule', 'often', {
      ...content(endpoint, 'often/'),
      schedule: '* * * * *',
      retentionPolicy: { keepLast: 1 },
    }),
  ]
}

export function backup(endpoint: string): object {
  return of('VecBackup', 'one', content(endpoint, ''))
}

/** A backup by shard, in addition to the backup by node. */
export function backupByShard(endpoint: string): object {
  return of('VecBackup', 'shards', {
    ...content(endpoint, 'shards/'),
    ...{ method: 'Shard', parallelism: 2 },
  })
}

/** Restores the backup by shard as a collection with another name. */
export function restoreByShard(): object {
  return of('VecRestore', 'again', {
    backupRef: { name: 'shards' },
    targetClusterRef: { name: 'b' },
    collectionMapping: { [COLLECTION]: 'again' },
    collections: [COLLECTION],
  })
}

/** Restores the backup by node into the other cluster. */
export function restore(): object {
  return of('VecRestore', 'back', {
    backupRef: { name: 'one' },
    targetClusterRef: { name: 'b' },
    collections: [COLLECTION],
  })
}

export function migration(): object {
  return of('VecMigration', 'copy', {
    source: { clusterRef: { name: 'a' } },
    targetClusterRef: { name: 'b' },
    collections: [COLLECTION],
    collectionMapping: { [COLLECTION]: 'copied' },
    batchSize: 5,
  })
}

function of(kind: string, name: string, spec: object): object {
  return { apiVersion: API_VERSION, kind, metadata: { namespace: NAMESPACE, name }, spec }
}
