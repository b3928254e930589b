/** VecBackup: snapshots of the collections of a cluster, by node or by shard, streamed into a bucket. */
import { Type, type Static } from '@sinclair/typebox'
import { CollectionNames } from './engine-fields.ts'
import { DEFAULT_PARALLELISM, MAX_PARALLELISM } from './contract/limits.ts'
import {
  AGE_COLUMN,
  Count,
  Enum,
  Ref,
  Timestamp,
  UnlistedCollections,
  defineResource,
  rule,
  JobName,
  statusFields,
  isUnchanged,
} from './schema.ts'
import { Storage } from './storage.ts'

/** What a backup takes snapshots of: nodes or shards. */
export const BackupMethod = Enum(['Node', 'Shard'], {
  default: 'Node',
  description:
    'Node: a snapshot of every node, restored to as many nodes. Shard: every shard once, streamed as it is made, restored to any number of nodes.',
})
export type BackupMethod = Static<typeof BackupMethod>

/** The source and the destination of a backup; a schedule copies them into each backup it creates. */
export const backupContent = {
  clusterRef: Ref('VecCluster', {
    description: 'The cluster; its API key is read in its own namespace.',
  }),
  storage: Storage,
  collections: Type.Optional(
    CollectionNames({ description: 'Collections to back up; default: all the cluster lists.' }),
  ),
  method: BackupMethod,
  parallelism: Count({
    default: DEFAULT_PARALLELISM,
    maximum: MAX_PARALLELISM,
    description: 'Method Shard: so many shards are streamed at once, one from a pod.',
  }),
}

/**
 * What deleting the resource does to the objects in the bucket. The CRD sets no default value: deleting a
 * namespace empties a bucket only if Delete is set explicitly.
 */
export function DeletionPolicy(description: string) {
  return Type.Optional(Enum(['Delete', 'Retain'], { description }))
}

const immutableFields = {
  ...backupContent,
  retentionDays: Type.Optional(
    Count({
      maximum: 36_500,
      description: 'Days after completion until this resource deletes itself; default: never.',
    }),
  ),
}

const spec = Type.Object(
  {
    ...immutableFields,
    deletionPolicy: DeletionPolicy(
      'What deleting this resource does to its objects in the bucket. Absent means Delete, but deleting the namespace deletes objects only where Delete is set. retentionDays, and the retention of a schedule, delete objects in any case. May be changed.',
    ),
  },
  {
    description: 'What is backed up. Immutable, except deletionPolicy.',
    ...rule(
      Object.keys(immutableFields)
        .map(isUnchanged)
        .map((field) => `(${field})`)
        .join(' && '),
      'spec is immutable, except spec.deletionPolicy',
    ),
  },
)

const BACKUP_PHASES = ['Pending', 'InProgress', 'Completed', 'Failed'] as const

/** Phase of a backup, also in the statuses of other resources. */
export function BackupPhase(description: string) {
  return Enum(BACKUP_PHASES, { description })
}

const snapshot = Type.Object({
  node: Type.Integer({ description: 'Ordinal of the pod the snapshot was taken from.' }),
  shard: Type.Optional(Type.Integer({ description: 'Method Shard: id of the shard.' })),
  snapshotName: Type.String({ description: 'Name the engine gave it, or name of the file.' }),
  key: Type.String({ description: 'Key of the object in the bucket.' }),
})

const collection = Type.Object({
  name: Type.String({ description: 'Name of the collection.' }),
  status: BackupPhase('How far it is.'),
  size: Type.Optional(Type.String({ description: 'Size of its snapshots, human-readable.' })),
  snapshots: Type.Optional(
    Type.Array(snapshot, {
      description: 'One per node, or one per shard; none of more than 64 shards.',
    }),
  ),
  error: Type.Optional(Type.String({ description: 'Why it failed.' })),
})

const status = Type.Object({
  phase: Type.Optional(BackupPhase('How far the backup is.')),
  startTime: Type.Optional(Timestamp({ description: 'When it started.' })),
  completionTime: Type.Optional(Timestamp({ description: 'When it ended.' })),
  expiresAt: Type.Optional(Timestamp({ description: 'When this resource deletes itself.' })),
  s3Path: Type.Optional(Type.String({ description: 's3://<bucket>/<prefix>/<name>' })),
  totalSize: Type.Optional(
    Type.String({ description: 'Size of all completed snapshots, human-readable.' }),
  ),
  collections: Type.Optional(
    Type.Array(collection, { description: 'The collections, one by one.' }),
  ),
  unlistedCollections: UnlistedCollections(),
  nodes: Type.Optional(
    Type.Integer({
      minimum: 1,
      description:
        'Number of nodes of a backup by node, once the snapshots of its collections are no longer listed.',
    }),
  ),
  error: Type.Optional(Type.String({ description: 'Error of the first collection that failed.' })),
  clusterUid: Type.Optional(
    Type.String({
      maxLength: 63,
      description: 'uid of the VecCluster: a recreated cluster of the same name has another one.',
    }),
  ),
  collectionHashes: Type.Optional(
    Type.String({
      maxLength: 8000,
      description:
        'Hashes of the names of all completed collections, eight letters each; absent for more than 1000. Retention uses them to compare backups.',
    }),
  ),
  emptyCollectionHashes: Type.Optional(
    Type.String({
      maxLength: 8000,
      description:
        'Hashes of the names of the completed collections without points, as in collectionHashes: they do not replace a backup with points.',
    }),
  ),
  jobName: JobName(),
  ...statusFields,
})

export const VecBackup = defineResource({
  kind: 'VecBackup',
  plural: 'vecbackups',
  singular: 'vecbackup',
  shortName: 'qb',
  description:
    'A backup: a snapshot of every node, or of every shard, per collection in a bucket, and a manifest. Deleting it deletes its objects, unless spec.deletionPolicy is Retain.',
  spec,
  status,
  columns: [
    { name: 'Cluster', type: 'string', jsonPath: '.spec.clusterRef.name' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Size', type: 'string', jsonPath: '.status.totalSize' },
    AGE_COLUMN,
  ],
})
export type VecBackup = Static<typeof VecBackup.schema>
export type BackupSpec = VecBackup['spec']
export type BackupStatus = NonNullable<VecBackup['status']>

/** Number of nodes that a backup by node has snapshots of; undefined if its status does not say it. */
export function nodesOf({
  spec,
  status = {},
}: Pick<VecBackup, 'spec' | 'status'>): number | undefined {
  if (spec.method === 'Shard') return undefined
  const snapshots = (status.collections ?? []).flatMap((one) => one.snapshots ?? [])
  if (snapshots.length === 0) return status.nodes
  return Math.max(...snapshots.map(({ node }) => node)) + 1
}
