/** The bodies of the calls that make and change collections, as the engine reads them. */
import {
  anything,
  boolean,
  checked,
  float,
  integer,
  isObject,
  list,
  malformed,
  map,
  oneOf,
  string,
  struct,
  untagged,
  usize,
  type Reader,
} from './read.ts'
import type { ShardKey } from './collection.ts'

type Fields = Record<string, unknown>

const hnsw = struct(
  'HnswConfigDiff',
  {
    m: usize,
    ef_construct: integer('usize', { min: 4 }),
    full_scan_threshold: integer('usize', { min: 10 }),
    max_indexing_threads: usize,
    on_disk: boolean,
    payload_m: usize,
    inline_storage: boolean,
  },
  { aliases: { full_scan_threshold_kb: 'full_scan_threshold' } },
)

const threads = untagged<unknown>('MaxOptimizationThreads', oneOf('auto'), usize)

const optimizers = struct(
  'OptimizersConfigDiff',
  {
    deleted_threshold: float({ min: 0, max: 1 }),
    vacuum_min_vector_number: integer('usize', { min: 100 }),
    default_segment_number: usize,
    max_segment_size: integer('usize', { min: 1 }),
    memmap_threshold: usize,
    indexing_threshold: usize,
    flush_interval_sec: integer('u64'),
    max_optimization_threads: threads,
    prevent_unoptimized: boolean,
  },
  {
    aliases: {
      max_segment_size_kb: 'max_segment_size',
      memmap_threshold_kb: 'memmap_threshold',
      indexing_threshold_kb: 'indexing_threshold',
    },
  },
)

const wal = struct('WalConfigDiff', {
  wal_capacity_mb: integer('usize', { min: 1 }),
  wal_segments_ahead: usize,
  wal_retain_closed: usize,
})

const always_ram = boolean
const scalar = struct(
  'ScalarQuantizationConfig',
  { type: oneOf('int8'), quantile: float({ min: 0.5, max: 1 }), always_ram },
  { required: ['type'] },
)
const product = struct(
  'ProductQuantizationConfig',
  { compression: oneOf('x4', 'x8', 'x16', 'x32', 'x64'), always_ram },
  { required: ['compression'] },
)
const binary = struct('BinaryQuantizationConfig', {
  always_ram,
  encoding: oneOf('one_bit', 'two_bits', 'one_and_half_bits'),
  query_encoding: oneOf('default', 'binary', 'scalar4bits', 'scalar8bits'),
})
const turbo = struct('TurboQuantizationConfig', {
  bits: oneOf('bits1', 'bits1_5', 'bits2', 'bits4'),
  always_ram,
})

const kinds = Object.entries({ scalar, product, binary, turbo }).map(([name, reader]) =>
  struct('Quantization', { [name]: reader }, { required: [name] }),
)
const quantization = untagged<Fields>('QuantizationConfig', ...kinds)
const quantizationDiff = untagged<unknown>('QuantizationConfigDiff', ...kinds, oneOf('Disabled'))

const vector = struct(
  'VectorParams',
  {
    size: integer('a nonzero u64', { min: 1, max: 65_536 }),
    distance: oneOf('Cosine', 'Euclid', 'Dot', 'Manhattan'),
    hnsw_config: hnsw,
    quantization_config: quantization,
    on_disk: boolean,
    datatype: oneOf('float32', 'uint8', 'float16'),
    multivector_config: struct(
      'MultiVectorConfig',
      { comparator: oneOf('max_sim') },
      { required: ['comparator'] },
    ),
  },
  { required: ['size', 'distance'], aliases: { quantization: 'quantization_config' } },
)

const sparse = struct('SparseVectorParams', {
  index: struct(
    'SparseIndexConfig',
    {
      full_scan_threshold: usize,
      on_disk: boolean,
      datatype: oneOf('float32', 'uint8', 'float16'),
    },
    {},
  ),
  modifier: oneOf('none', 'idf'),
})

const strictMode = struct('StrictModeConfig', {
  enabled: boolean,
  ...Object.fromEntries(
    [
      'max_query_limit',
      'max_timeout',
      'search_max_hnsw_ef',
      'upsert_max_batchsize',
      'search_max_batchsize',
      'max_collection_vector_size_bytes',
      'read_rate_limit',
      'write_rate_limit',
      'max_collection_payload_size_bytes',
      'max_points_count',
      'filter_max_conditions',
      'condition_max_size',
      'max_payload_index_count',
      'max_resident_memory_percent',
    ].map((name) => [name, usize]),
  ),
  unindexed_filtering_retrieve: boolean,
  unindexed_filtering_update: boolean,
  search_allow_exact: boolean,
  search_max_oversampling: float(),
  multivector_config: anything,
  sparse_config: anything,
})

const OTHER_NAMES = {
  aliases: { optimizer_config: 'optimizers_config', quantization: 'quantization_config' },
}

/** Body of `PUT /collections/{c}`. */
export const CreateCollection = struct(
  'CreateCollection',
  {
    vectors: untagged<unknown>('VectorsConfig', vector, map(vector)),
    sparse_vectors: map(sparse),
    shard_number: integer('u32', { min: 1 }),
    sharding_method: oneOf('auto', 'custom'),
    replication_factor: integer('u32', { min: 1 }),
    write_consistency_factor: integer('u32', { min: 1 }),
    on_disk_payload: boolean,
    hnsw_config: hnsw,
    wal_config: wal,
    optimizers_config: optimizers,
    quantization_config: quantization,
    strict_mode_config: strictMode,
    metadata: anything,
  },
  OTHER_NAMES,
)

/** Body of `PATCH /collections/{c}`. */
export const UpdateCollection = struct(
  'UpdateCollection',
  {
    vectors: map(
      struct(
        'VectorParamsDiff',
        { hnsw_config: hnsw, quantization_config: quantizationDiff, on_disk: boolean },
        { aliases: { quantization: 'quantization_config' } },
      ),
    ),
    sparse_vectors: map(sparse),
    optimizers_config: optimizers,
    hnsw_config: hnsw,
    quantization_config: quantizationDiff,
    params: struct('CollectionParamsDiff', {
      replication_factor: integer('a nonzero u32'),
      write_consistency_factor: integer('a nonzero u32'),
      read_fan_out_factor: integer('u32'),
      read_fan_out_delay_ms: integer('u64'),
      on_disk_payload: boolean,
    }),
    strict_mode_config: strictMode,
    metadata: anything,
  },
  OTHER_NAMES,
)

const LANGUAGES: Record<string, string> = {
  ar: 'arabic',
  da: 'danish',
  nl: 'dutch',
  en: 'english',
  fi: 'finnish',
  fr: 'french',
  de: 'german',
  el: 'greek',
  hu: 'hungarian',
  it: 'italian',
  no: 'norwegian',
  pt: 'portuguese',
  ro: 'romanian',
  ru: 'russian',
  es: 'spanish',
  sv: 'swedish',
  ta: 'tamil',
  tr: 'turkish',
}

/** A short name is read, the long one is shown. */
const language: Reader<string> = (value) => {
  const name = typeof value === 'string' ? (LANGUAGES[value] ?? value) : ''
  return Object.values(LANGUAGES).includes(name) ? name : malformed('no such language')
}

const sorted =
  (reader: Reader<string[]>): Reader<string[]> =>
  (value, reading) =>
    [...new Set(reader(value, reading))].sort()

const anyIndex = { on_disk: boolean, enable_hnsw: boolean }
const INDEX_PARAMS: Record<string, Record<string, Reader>> = {
  keyword: { is_tenant: boolean, ...anyIndex },
  integer: { lookup: boolean, range: boolean, is_principal: boolean, ...anyIndex },
  float: { is_principal: boolean, ...anyIndex },
  geo: anyIndex,
  text: {
    tokenizer: oneOf('prefix', 'whitespace', 'word', 'multilingual'),
    min_token_len: usize,
    max_token_len: usize,
    lowercase: boolean,
    phrase_matching: boolean,
    ascii_folding: boolean,
    stopwords: untagged<unknown>(
      'StopwordsInterface',
      language,
      struct('StopwordsSet', { languages: sorted(list(language)), custom: sorted(list(string)) }),
    ),
    stemmer: struct(
      'SnowballParams',
      { type: oneOf('snowball'), language },
      { required: ['type', 'language'] },
    ),
    ...anyIndex,
  },
  bool: anyIndex,
  datetime: { is_principal: boolean, ...anyIndex },
  uuid: { is_tenant: boolean, ...anyIndex },
}
/** Shown as null when they are not set. */
const NULLED: Record<string, string[]> = {
  integer: ['lookup', 'range', 'is_principal'],
  float: ['is_principal'],
  datetime: ['is_principal'],
}

const indexParams: Reader<Fields> = (value, reading) => {
  if (!isObject(value)) return malformed('no object')
  const type = String(value['type'])
  const fields = Object.hasOwn(INDEX_PARAMS, type) ? INDEX_PARAMS[type] : undefined
  if (fields === undefined) return malformed('no such type')
  const unset = Object.fromEntries((NULLED[type] ?? []).map((name) => [name, null]))
  const set = struct('params', fields)(value, reading)
  return { type, ...(type === 'text' && { tokenizer: 'word' }), ...unset, ...set }
}

/** Body of `PUT /collections/{c}/index`: a type by its name, or with parameters in their full form. */
export const CreateIndex = struct(
  'CreateFieldIndex',
  {
    field_name: string,
    field_schema: checked(
      untagged<unknown>('PayloadFieldSchema', oneOf(...Object.keys(INDEX_PARAMS)), indexParams),
      (schema) =>
        isObject(schema) && schema['lookup'] === false && schema['range'] === false
          ? "lookup: Validation error: the 'lookup' and 'range' capabilities can't be both disabled [{}]"
          : undefined,
    ),
  },
  { required: ['field_name'] },
)

const shardKey = untagged<ShardKey>('ShardKey', string, integer('u64'))

/** Body of `PUT /collections/{c}/shards`. */
export const CreateShardKey = struct(
  'CreateShardingKey',
  {
    shard_key: shardKey,
    shards_number: integer('a nonzero u32'),
    replication_factor: integer('a nonzero u32'),
    placement: list(integer('u64')),
  },
  { required: ['shard_key'], aliases: { shard_number: 'shards_number' } },
)

/** Body of `POST /collections/{c}/shards/delete`. */
export const DropShardKey = struct(
  'DropShardingKey',
  { shard_key: shardKey },
  { required: ['shard_key'] },
)

/** Body of `PUT /collections/{c}/snapshots/recover`. */
export const RecoverSnapshot = struct(
  'SnapshotRecover',
  {
    location: string,
    priority: oneOf('no_sync', 'snapshot', 'replica'),
    checksum: checked(string, (text) =>
      /^[0-9a-f]{64}$/i.test(text) ? undefined : 'invalid_sha256_hash',
    ),
    api_key: string,
  },
  { required: ['location'] },
)

const shardMove = struct(
  'MoveShard',
  { shard_id: integer('u32'), from_peer_id: integer('u64'), to_peer_id: integer('u64') },
  { required: ['shard_id', 'from_peer_id', 'to_peer_id'] },
)
const replica = struct(
  'Replica',
  { shard_id: integer('u32'), peer_id: integer('u64') },
  { required: ['shard_id', 'peer_id'] },
)

/** Body of `POST /collections/{c}/cluster`, as far as restores go. */
export const ChangeCluster = untagged<Fields>(
  'ClusterOperations',
  struct('Replicate', { replicate_shard: shardMove }, { required: ['replicate_shard'] }),
  struct('Move', { move_shard: shardMove }, { required: ['move_shard'] }),
  struct('Drop', { drop_replica: replica }, { required: ['drop_replica'] }),
)

const action = (name: string, ...fields: string[]) =>
  struct(
    'AliasOperation',
    {
      [name]: struct(name, Object.fromEntries(fields.map((field) => [field, string])), {
        required: fields,
      }),
    },
    { required: [name] },
  )

/** Body of `POST /collections/aliases`. */
export const ChangeAliases = struct(
  'ChangeAliasesOperation',
  {
    actions: list(
      untagged<Fields>(
        'AliasOperations',
        action('create_alias', 'collection_name', 'alias_name'),
        action('delete_alias', 'alias_name'),
        action('rename_alias', 'old_alias_name', 'new_alias_name'),
      ),
    ),
  },
  { required: ['actions'] },
)
