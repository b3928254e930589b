/** VecCollection: one collection in a cluster, with its payload indexes and aliases. */
import { Type, type Static } from '@sinclair/typebox'
import { EngineConfig, NewCollectionName, VectorName } from './engine-fields.ts'
import {
  MAX_ALIASES,
  MAX_PAYLOAD_INDEXES,
  MAX_SPARSE_VECTORS,
  MAX_VECTORS,
  MAX_VECTOR_SIZE,
} from './contract/limits.ts'
import {
  AGE_COLUMN,
  Count,
  maxCharacters,
  Enum,
  Ref,
  defineResource,
  rule,
  rules,
  statusFields,
  isUnchanged,
} from './schema.ts'

const IMMUTABLE_NOTE = 'Fixed when the collection is created: a difference gives phase Degraded.'

const REMOVAL_NOTE = 'An empty object leaves it as it is; {Disabled: {}} removes it.'

const multivector = Type.Object(
  { comparator: Enum(['max_sim'], { description: 'How two multivectors are compared.' }) },
  { description: `A point holds several vectors. ${IMMUTABLE_NOTE}` },
)

const vector = Type.Object({
  name: Type.Optional(VectorName({ description: 'Required when there is more than one vector.' })),
  size: Count({ maximum: MAX_VECTOR_SIZE, description: `Number of dimensions. ${IMMUTABLE_NOTE}` }),
  distance: Enum(['Cosine', 'Euclid', 'Dot', 'Manhattan'], {
    description: `How distance is measured. ${IMMUTABLE_NOTE}`,
  }),
  datatype: Type.Optional(
    Enum(['float32', 'float16', 'uint8'], {
      description: `How numbers are stored; default: chosen by the engine. ${IMMUTABLE_NOTE}`,
    }),
  ),
  multivector: Type.Optional(multivector),
  onDisk: Type.Optional(
    Type.Boolean({
      description: 'Whether vectors are stored on disk; default: chosen by the engine.',
    }),
  ),
  hnsw: EngineConfig('HnswConfigDiff'),
  quantization: EngineConfig('QuantizationConfig', REMOVAL_NOTE),
})

const vectors = Type.Array(vector, {
  maxItems: MAX_VECTORS,
  description: 'Dense vector spaces. One without a name is the single unnamed vector.',
  ...rules(
    [
      'self.size() <= 1 || self.all(v, has(v.name))',
      'spec.vectors: an unnamed vector must be the only vector',
    ],
    [
      'self.all(v, !has(v.name) || self.exists_one(w, has(w.name) && w.name == v.name))',
      'spec.vectors: a name may appear only once',
    ],
  ),
})

const sparseVectors = Type.Array(
  Type.Object({
    name: VectorName({ description: 'Name of the vector.' }),
    modifier: Type.Optional(Enum(['none', 'idf'], { description: 'How values are weighted.' })),
    index: EngineConfig('SparseIndexParams'),
  }),
  {
    maxItems: MAX_SPARSE_VECTORS,
    description: 'Sparse vector spaces.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
  },
)

const payloadIndexes = Type.Array(
  Type.Object({
    field: Type.String({ minLength: 1, ...maxCharacters(512), description: 'Payload key.' }),
    type: Enum(['keyword', 'integer', 'float', 'geo', 'text', 'bool', 'datetime', 'uuid'], {
      description: 'Type of the values.',
    }),
    params: EngineConfig('parameters of this type', 'For text: tokenizer settings and the like.'),
  }),
  {
    maxItems: MAX_PAYLOAD_INDEXES,
    description: 'Payload fields that are indexed.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['field'],
  },
)

const aliases = Type.Array(NewCollectionName(), {
  maxItems: MAX_ALIASES,
  description: 'Aliases that must point at this collection.',
  'x-kubernetes-list-type': 'set',
})

const spec = Type.Object(
  {
    clusterRef: Ref('VecCluster', {
      description: 'The cluster of the collection. Immutable.',
      ...rule('self == oldSelf', 'spec.clusterRef is immutable'),
    }),
    collectionName: Type.Optional(
      NewCollectionName({
        description:
          'Name inside the engine, for names Kubernetes cannot carry; default: metadata.name. Immutable.',
      }),
    ),
    vectors: Type.Optional(vectors),
    sparseVectors: Type.Optional(sparseVectors),
    shardNumber: Type.Optional(
      Count({
        description:
          'Default: from the number of nodes. Fixed when the collection is created, unless the cluster has spec.resharding: a difference gives phase Degraded.',
      }),
    ),
    shardingMethod: Enum(['auto', 'custom'], {
      default: 'auto',
      description: `Whether shards are assigned by shard keys of clients (custom) or automatically. ${IMMUTABLE_NOTE}`,
    }),
    replicationFactor: Type.Optional(
      Count({ description: 'Replicas of each shard; default: chosen by the engine.' }),
    ),
    writeConsistencyFactor: Type.Optional(
      Count({ description: 'Replicas that must confirm a write; default: chosen by the engine.' }),
    ),
    readFanOutFactor: Type.Optional(
      Count({
        minimum: 0,
        description: 'Additional replicas that each read queries; default: chosen by the engine.',
      }),
    ),
    onDiskPayload: Type.Optional(
      Type.Boolean({
        description: 'Whether the payload is stored on disk; default: chosen by the engine.',
      }),
    ),
    hnsw: EngineConfig('HnswConfigDiff', 'For all vectors.'),
    optimizers: EngineConfig('OptimizersConfigDiff'),
    quantization: EngineConfig('QuantizationConfig', `For all vectors. ${REMOVAL_NOTE}`),
    wal: EngineConfig('WalConfigDiff', 'Applied at creation only, never compared afterwards.'),
    strictMode: EngineConfig('StrictModeConfig'),
    payloadIndexes: Type.Optional(payloadIndexes),
    aliases: Type.Optional(aliases),
    deletionPolicy: Enum(['Retain', 'Delete'], {
      default: 'Retain',
      description: 'Whether the collection is deleted together with this resource.',
    }),
  },
  {
    description: 'Desired state of the collection.',
    ...rules(
      [
        '(has(self.vectors) && self.vectors.size() > 0) || (has(self.sparseVectors) && self.sparseVectors.size() > 0)',
        'at least one of spec.vectors and spec.sparseVectors is required',
      ],
      [
        '!has(self.vectors) || !has(self.sparseVectors) || self.vectors.all(v, !has(v.name) || !self.sparseVectors.exists(s, s.name == v.name))',
        'spec.vectors and spec.sparseVectors must not share a name',
      ],
      [isUnchanged('collectionName'), 'spec.collectionName is immutable'],
    ),
  },
)

const ignored = Type.Object(
  {
    generation: Type.Integer({
      format: 'int64',
      description: 'Generation of the spec with these fields.',
    }),
    engineVersion: Type.String({ description: 'Version of the engine that ignored them.' }),
    paths: Type.Array(Type.String(), { description: 'Paths of the fields within spec.' }),
  },
  {
    description:
      'Fields that the engine does not support; they are retried when the generation or the version changes.',
  },
)

function engineCount(label: string) {
  return Type.Optional(
    Type.Integer({ format: 'int64', description: `${label}, as reported by the engine.` }),
  )
}

const status = Type.Object({
  phase: Type.Optional(
    Enum(['Pending', 'Ready', 'Degraded', 'Failed'], {
      description: 'How the live collection compares with spec.',
    }),
  ),
  collectionName: Type.Optional(
    Type.String({ description: 'Name of the collection in the engine.' }),
  ),
  health: Type.Optional(
    Enum(['green', 'yellow', 'grey', 'red'], { description: "The engine's collection status." }),
  ),
  pointsCount: engineCount('Points'),
  indexedVectorsCount: engineCount('Indexed vectors'),
  segmentsCount: engineCount('Segments'),
  payloadIndexes: Type.Optional(
    Type.Array(Type.String(), { description: 'Indexed fields that this resource manages.' }),
  ),
  aliases: Type.Optional(
    Type.Array(Type.String(), { description: 'Aliases that this resource manages.' }),
  ),
  ignored: Type.Optional(ignored),
  error: Type.Optional(Type.String({ description: 'Why the phase is Failed or Degraded.' })),
  ...statusFields,
})

export const VecCollection = defineResource({
  kind: 'VecCollection',
  plural: 'veccollections',
  singular: 'veccollection',
  shortName: 'qcol',
  description: 'A collection inside a cluster: vectors, sharding, payload indexes, aliases.',
  spec,
  status,
  columns: [
    { name: 'Cluster', type: 'string', jsonPath: '.spec.clusterRef.name' },
    { name: 'Collection', type: 'string', jsonPath: '.status.collectionName' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Points', type: 'integer', jsonPath: '.status.pointsCount' },
    { name: 'Health', type: 'string', jsonPath: '.status.health' },
    AGE_COLUMN,
  ],
})
export type VecCollection = Static<typeof VecCollection.schema>
export type CollectionSpec = VecCollection['spec']
export type CollectionStatus = NonNullable<VecCollection['status']>
