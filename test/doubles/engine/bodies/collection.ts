/** The bodies of the calls that make and change a collection, as the engine reads them. */
import { anything, boolean, float, integer, map, oneOf, struct, untagged, usize } from '../read.ts'

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
