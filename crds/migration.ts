/** VecMigration: copies collections point by point from any engine into a managed cluster. */
import { Type, type Static } from '@sinclair/typebox'
import { CollectionMapping, CollectionNames } from './engine-fields.ts'
import { DEFAULT_BATCH_SIZE, MAX_BATCH_SIZE } from './contract/limits.ts'
import {
  AGE_COLUMN,
  Count,
  Enum,
  Ref,
  SecretKeyRef,
  Timestamp,
  UnlistedCollections,
  defineResource,
  rule,
  rules,
  JobName,
  statusFields,
  maxCharacters,
} from './schema.ts'
import { URL_PATTERN } from './storage.ts'

function secretKeyRef(description: string) {
  return Type.Optional(Type.Object(SecretKeyRef.properties, { description }))
}

const source = Type.Object(
  {
    clusterRef: Type.Optional(
      Ref('VecCluster', { description: 'A managed cluster; excludes endpoint.' }),
    ),
    endpoint: Type.Optional(
      Type.Object(
        {
          url: Type.String({
            ...maxCharacters(2048),
            pattern: URL_PATTERN,
            description: 'Its http or https address, without user, query or fragment.',
          }),
          apiKeySecretRef: secretKeyRef('API key, in a Secret of the namespace of this resource.'),
          caSecretRef: secretKeyRef(
            'Private certificate authority (PEM), in a Secret of the namespace of this resource; default: those the system trusts.',
          ),
        },
        { description: 'Any instance of the engine; excludes clusterRef.' },
      ),
    ),
  },
  {
    description: 'Where points are copied from.',
    ...rule(
      'has(self.clusterRef) != has(self.endpoint)',
      'exactly one of spec.source.clusterRef and spec.source.endpoint is required',
    ),
  },
)

const target = Type.Object(
  {
    shardNumber: Type.Optional(Count({ description: 'Number of shards.' })),
    replicationFactor: Type.Optional(Count({ description: 'Copies of each shard.' })),
    writeConsistencyFactor: Type.Optional(
      Count({ description: 'Copies that must confirm a write.' }),
    ),
  },
  { description: 'Of the collections this migration creates; default: as the target decides.' },
)

const spec = Type.Object(
  {
    source,
    targetClusterRef: Ref('VecCluster', { description: 'The cluster points are copied to.' }),
    collections: Type.Optional(
      CollectionNames({ description: 'Collections to copy; default: all of the source.' }),
    ),
    collectionMapping: CollectionMapping(),
    batchSize: Count({
      default: DEFAULT_BATCH_SIZE,
      maximum: MAX_BATCH_SIZE,
      description: 'Points read and written at once.',
    }),
    createMissing: Type.Boolean({
      default: true,
      description: 'Absent collections are created with the configuration of the source.',
    }),
    target: Type.Optional(target),
  },
  {
    description: 'What is copied, from where and where to. Immutable.',
    ...rules(['self == oldSelf', 'spec is immutable']),
  },
)

const MIGRATION_STATES = ['Pending', 'Running', 'Completed', 'Failed'] as const

/** State of a migration and of each of its collections. */
export function MigrationState(description: string) {
  return Enum(MIGRATION_STATES, { description })
}

function pointCount(description: string) {
  return Type.Integer({ format: 'int64', description })
}

const collection = Type.Object({
  name: Type.String({ description: 'Name at the source.' }),
  targetName: Type.String({ description: 'Name at the target.' }),
  status: MigrationState('How far it is.'),
  pointsTotal: Type.Optional(pointCount('Points at the source, approximately.')),
  pointsCopied: Type.Optional(pointCount('Points written to the target.')),
  proof: Type.Optional(Type.String({ description: 'What was compared on both sides at its end.' })),
  error: Type.Optional(Type.String({ description: 'Why it failed.' })),
})

const progress = Type.Object(
  {
    collectionsTotal: Type.Integer({ description: 'Collections to copy.' }),
    collectionsCompleted: Type.Integer({ description: 'Collections copied.' }),
    pointsTotal: pointCount('Points at the source, approximately.'),
    pointsCopied: pointCount('Points written to the target.'),
    percentage: Type.Integer({ minimum: 0, maximum: 100, description: 'How much is done.' }),
  },
  { description: 'How far the migration is.' },
)

const status = Type.Object({
  phase: Type.Optional(MigrationState('How far the migration is.')),
  startTime: Type.Optional(Timestamp({ description: 'When it started.' })),
  completionTime: Type.Optional(Timestamp({ description: 'When it ended.' })),
  source: Type.Optional(
    Type.String({ description: '<namespace>/<name> of the source cluster, or its address.' }),
  ),
  collections: Type.Optional(
    Type.Array(collection, { description: 'The collections, one by one.' }),
  ),
  unlistedCollections: UnlistedCollections(),
  progress: Type.Optional(progress),
  error: Type.Optional(Type.String({ description: 'Error of the first collection that failed.' })),
  jobName: JobName(),
  ...statusFields,
})

export const VecMigration = defineResource({
  kind: 'VecMigration',
  plural: 'vecmigrations',
  singular: 'vecmigration',
  shortName: 'qmig',
  description: 'Copy of collections, point by point, from any engine into a managed cluster.',
  spec,
  status,
  columns: [
    { name: 'Source', type: 'string', jsonPath: '.status.source' },
    { name: 'Target', type: 'string', jsonPath: '.spec.targetClusterRef.name' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Progress', type: 'integer', jsonPath: '.status.progress.percentage' },
    AGE_COLUMN,
  ],
})
export type VecMigration = Static<typeof VecMigration.schema>
export type MigrationSpec = VecMigration['spec']
export type MigrationStatus = NonNullable<VecMigration['status']>
