/**
 * VecRestore: recovers a backup in a cluster; a backup by shard fits any number of nodes. Also which backup,
 * bucket and credentials a restore refers to.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { VecBackup } from './backup.ts'
import { backupFolder } from './contract/backup-keys.ts'
import { trimTrailing } from './contract/names.ts'
import { CollectionMapping, CollectionName, CollectionNames } from './engine-fields.ts'
import {
  AGE_COLUMN,
  Count,
  defineResource,
  Enum,
  Ref,
  rules,
  JobName,
  statusFields,
  Timestamp,
  UnlistedCollections,
  type NamespacedName,
} from './schema.ts'
import { S3Source } from './storage.ts'

const spec = Type.Object(
  {
    backupRef: Type.Optional(
      Ref('VecBackup', { description: 'A backup in phase Completed; excludes source.' }),
    ),
    source: Type.Optional(
      Type.Object({ s3: S3Source }, { description: 'A backup in a bucket; excludes backupRef.' }),
    ),
    targetClusterRef: Ref('VecCluster', {
      description:
        'The cluster to restore into; for a backup by node it must have as many nodes as the backup.',
    }),
    collections: Type.Optional(
      CollectionNames({ description: 'Collections to restore; default: all of the backup.' }),
    ),
    collectionMapping: CollectionMapping(),
    shards: Type.Optional(
      Type.Array(
        Type.Object({
          collection: CollectionName({ description: 'A collection that exists at the target.' }),
          ids: Type.Array(Type.Integer({ minimum: 0 }), {
            minItems: 1,
            maxItems: 1024,
            'x-kubernetes-list-type': 'set',
            description:
              'Ids of its shards, as the condition ShardsPlaced of the VecCluster names them.',
          }),
        }),
        {
          minItems: 1,
          maxItems: 100,
          description:
            'Restores only these shards, whose replicas are all lost; needs a backup by shard. A node that has no replica takes the shard, and no other data changes.',
        },
      ),
    ),
    priority: Enum(['snapshot', 'replica', 'no_sync'], {
      default: 'snapshot',
      description:
        "The engine's SnapshotPriority: snapshot replaces what is there; replica lets existing replicas win; no_sync skips synchronisation.",
    }),
    replicationFactor: Type.Optional(
      Count({
        description:
          'Copies of each shard at the target, never more than it has nodes; default: as many as the backup recorded.',
      }),
    ),
    waitForIndexing: Type.Boolean({
      default: true,
      description: 'A collection is done when it is green, or failed after an hour.',
    }),
  },
  {
    description: 'What is restored, and where to. Immutable.',
    ...rules(
      [
        'has(self.backupRef) != has(self.source)',
        'exactly one of spec.backupRef and spec.source is required',
      ],
      [
        "!has(self.shards) || !(has(self.collections) || size(self.collectionMapping) > 0 || has(self.replicationFactor) || self.priority != 'snapshot')",
        'spec.shards excludes spec.collections, spec.collectionMapping, spec.replicationFactor and every spec.priority but snapshot',
      ],
      ['self == oldSelf', 'spec is immutable'],
    ),
  },
)

/** State of one collection, also in the report of a Job. */
export function RestoreState(description: string) {
  return Enum(['Pending', 'Restoring', 'Completed', 'Failed'], { description })
}

const collection = Type.Object({
  name: Type.String({ description: 'Name at the target.' }),
  originalName: Type.Optional(Type.String({ description: 'Name in the backup, if different.' })),
  status: RestoreState('State of its restore.'),
  size: Type.Optional(Type.String({ description: 'Size of its snapshots, human-readable.' })),
  pointsCount: Type.Optional(
    Type.Integer({ format: 'int64', description: 'Points after the restore.' }),
  ),
  error: Type.Optional(Type.String({ description: 'Why it failed.' })),
})

const progress = Type.Object(
  {
    collectionsTotal: Type.Integer({ description: 'Collections to restore.' }),
    collectionsCompleted: Type.Integer({ description: 'Collections restored.' }),
    currentCollection: Type.Optional(Type.String({ description: 'The one at work.' })),
    percentage: Type.Integer({ minimum: 0, maximum: 100, description: 'How much is done.' }),
  },
  { description: 'How far the restore is.' },
)

const status = Type.Object({
  phase: Type.Optional(
    Enum(['Pending', 'Downloading', 'Restoring', 'Completed', 'Failed'], {
      description: 'How far the restore is.',
    }),
  ),
  startTime: Type.Optional(Timestamp({ description: 'When it started.' })),
  completionTime: Type.Optional(Timestamp({ description: 'When it ended.' })),
  sourceBackup: Type.Optional(
    Type.String({ description: 'Name of the backup, or its s3:// address.' }),
  ),
  restoredCollections: Type.Optional(
    Type.Array(collection, { description: 'The collections, one by one.' }),
  ),
  unlistedCollections: UnlistedCollections(),
  progress: Type.Optional(progress),
  error: Type.Optional(Type.String({ description: 'Error of the first collection that failed.' })),
  jobName: JobName(),
  ...statusFields,
})

export const VecRestore = defineResource({
  kind: 'VecRestore',
  plural: 'vecrestores',
  singular: 'vecrestore',
  shortName: 'qr',
  description:
    'Recovery of a backup into a cluster: node by node, or by shard into any number of nodes.',
  spec,
  status,
  columns: [
    { name: 'Source', type: 'string', jsonPath: '.status.sourceBackup' },
    { name: 'Target', type: 'string', jsonPath: '.spec.targetClusterRef.name' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    AGE_COLUMN,
  ],
})
export type VecRestore = Static<typeof VecRestore.schema>
export type RestoreSpec = VecRestore['spec']
export type RestoreStatus = NonNullable<VecRestore['status']>

export function restoreTarget({ metadata, spec }: VecRestore): NamespacedName {
  const { name, namespace = metadata.namespace } = spec.targetClusterRef
  return { namespace, name }
}

/** Undefined when the spec names the bucket directly. */
export function restoreBackupRef({ metadata, spec }: VecRestore): NamespacedName | undefined {
  if (spec.backupRef === undefined) return undefined
  const { name, namespace = metadata.namespace } = spec.backupRef
  return { namespace, name }
}

/** Location of the manifest; undefined until the backup is observed. */
export function restoreSource(
  { spec }: VecRestore,
  backup: VecBackup | undefined,
): S3Source | undefined {
  if (spec.source !== undefined) return spec.source.s3
  if (backup === undefined) return undefined
  const { prefix, ...rest } = backup.spec.storage.s3
  return { ...rest, path: backupFolder({ prefix, name: backup.metadata.name }).slice(0, -1) }
}

/** The namespace that contains the credentials of the bucket. */
export function bucketNamespace(restore: VecRestore): string {
  return restoreBackupRef(restore)?.namespace ?? restore.metadata.namespace
}

/** The bucket as messages name it: a field of the restore, or of its backup. */
export function bucketField(restore: VecRestore): string {
  const backup = restoreBackupRef(restore)
  if (backup === undefined) return 'spec.source.s3'
  return `backup ${backup.namespace}/${backup.name}: spec.storage.s3`
}

/** Human-readable: the name of the backup, or its URL. */
export function formatRestoreSource(restore: VecRestore): string {
  const { backupRef, source } = restore.spec
  if (backupRef !== undefined) return backupRef.name
  const path = trimTrailing(source?.s3.path.replace(/^\/+/, '') ?? '', '/')
  return `s3://${source?.s3.bucket ?? ''}/${path}`
}
