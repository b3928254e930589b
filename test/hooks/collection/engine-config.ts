/** What the engine makes of the bodies it is sent: what it knows of them, refuses, keeps and shows. */
import { EngineError } from '../../../crds/contract/errors.ts'
import type {
  CollectionBody,
  CollectionInfo,
  IndexBody,
  IndexInfo,
} from '../../../crds/engine/collections.ts'
import { isPlainObject, ownValue, type PlainObject } from '../../../crds/engine/plain-object.ts'

export function engineError(status: number, message: string): EngineError {
  return new EngineError(`the engine answered ${status}: ${message}`, { status })
}

const KNOWN_FIELDS: Record<string, string[]> = {
  hnsw_config: [
    'm',
    'ef_construct',
    'full_scan_threshold',
    'max_indexing_threads',
    'on_disk',
    'payload_m',
    'inline_storage',
  ],
  optimizer_config: [
    'deleted_threshold',
    'vacuum_min_vector_number',
    'default_segment_number',
    'max_segment_size',
    'memmap_threshold',
    'indexing_threshold',
    'flush_interval_sec',
    'max_optimization_threads',
    'prevent_unoptimized',
  ],
  strict_mode_config: ['enabled', 'max_query_limit', 'max_timeout', 'multivector_config'],
  index: ['full_scan_threshold', 'on_disk', 'datatype'],
  params: [
    'replication_factor',
    'write_consistency_factor',
    'read_fan_out_factor',
    'on_disk_payload',
  ],
}

export function createdInfo(body: CollectionBody): CollectionInfo {
  const info: CollectionInfo = {
    status: 'green',
    points_count: 0,
    indexed_vectors_count: 0,
    segments_count: 6,
    config: {
      params: {
        vectors: denseVectors(body['vectors']),
        shard_number: body['shard_number'] ?? 1,
        replication_factor: body['replication_factor'] ?? 1,
        write_consistency_factor: body['write_consistency_factor'] ?? 1,
        on_disk_payload: body['on_disk_payload'] ?? true,
        ...(body['sharding_method'] !== undefined && { sharding_method: body['sharding_method'] }),
        ...(body['sparse_vectors'] !== undefined && {
          sparse_vectors: mapValues(body['sparse_vectors'], sparseVector),
        }),
      },
      hnsw_config: {
        m: 16,
        ef_construct: 100,
        full_scan_threshold: 10_000,
        max_indexing_threads: 0,
        on_disk: false,
        ...acceptedFields('hnsw_config', body['hnsw_config']),
      },
      optimizer_config: {
        deleted_threshold: 0.2,
        max_segment_size: null,
        max_optimization_threads: null,
        ...acceptedFields('optimizer_config', body['optimizers_config']),
      },
      quantization_config: storedQuantization(body['quantization_config']),
      ...(body['strict_mode_config'] !== undefined && {
        strict_mode_config: acceptedFields('strict_mode_config', body['strict_mode_config']),
      }),
    },
    payload_schema: {},
  }
  return info
}

function denseVectors(vectors: unknown): PlainObject {
  if (vectors === undefined) return {}
  return typeof ownValue(vectors, 'size') === 'number'
    ? denseVector(vectors as PlainObject)
    : mapValues(vectors, denseVector)
}

function denseVector(vector: PlainObject): PlainObject {
  const { hnsw_config, quantization_config, ...rest } = vector
  if (hnsw_config !== undefined) rejectEmptyHnsw(hnsw_config)
  return {
    ...rest,
    ...(hnsw_config !== undefined && { hnsw_config: acceptedFields('hnsw_config', hnsw_config) }),
    ...(quantization_config !== undefined && {
      quantization_config: storedQuantization(quantization_config),
    }),
  }
}

function sparseVector({ modifier, index }: PlainObject): PlainObject {
  return {
    ...(modifier !== undefined && { modifier }),
    ...(index !== undefined && { index: acceptedFields('index', index) }),
  }
}

export function patchInto({ config }: CollectionInfo, body: CollectionBody): void {
  rejectBadQuantization(body)
  merge(config.optimizer_config, acceptedFields('optimizer_config', body['optimizers_config']))
  merge(config.params, acceptedFields('params', body['params']))
  merge(config.hnsw_config, acceptedFields('hnsw_config', body['hnsw_config']))
  for (const [name, patch] of Object.entries(plain(body['vectors']))) {
    const vectors = config.params['vectors']
    const live = name === '' ? vectors : ownValue(vectors, name)
    if (!isPlainObject(live)) throw engineError(400, `Not existing vector name error: ${name}`)
    patchVector(live, plain(patch))
  }
  for (const [name, patch] of Object.entries(plain(body['sparse_vectors']))) {
    const live = ownValue(config.params['sparse_vectors'], name)
    if (!isPlainObject(live)) throw engineError(400, `Not existing vector name error: ${name}`)
    const { modifier, index } = plain(patch)
    if (modifier !== undefined) live['modifier'] = modifier
    if (index !== undefined)
      live['index'] = { ...plain(live['index']), ...acceptedFields('index', index) }
  }
  if (body['quantization_config'] !== undefined) {
    config.quantization_config = storedQuantization(body['quantization_config'])
  }
  if (body['strict_mode_config'] !== undefined) {
    const strict = acceptedFields('strict_mode_config', body['strict_mode_config'])
    config.strict_mode_config = { ...config.strict_mode_config, ...strict }
  }
}

function patchVector(live: PlainObject, patch: PlainObject): void {
  const { hnsw_config, quantization_config, on_disk } = patch
  if (hnsw_config !== undefined) {
    rejectEmptyHnsw(hnsw_config)
    live['hnsw_config'] = {
      ...plain(live['hnsw_config']),
      ...acceptedFields('hnsw_config', hnsw_config),
    }
  }
  if (on_disk !== undefined) live['on_disk'] = on_disk
  if (quantization_config === 'Disabled') delete live['quantization_config']
  else if (quantization_config !== undefined) {
    live['quantization_config'] = storedQuantization(quantization_config)
  }
}

/** What an object holds that the engine knows. Nulls leave as it is; `auto` is stored as null. */
function acceptedFields(kind: string, value: unknown): PlainObject {
  const knownFields = KNOWN_FIELDS[kind] ?? []
  return Object.fromEntries(
    Object.entries(plain(value))
      .map(([name, field]) => [name.replace(/_kb$/, ''), field === 'auto' ? null : field] as const)
      .filter(([name]) => knownFields.includes(name)),
  )
}

function rejectEmptyHnsw(hnsw: unknown): void {
  if (Object.keys(acceptedFields('hnsw_config', hnsw)).length > 0) return
  throw engineError(
    500,
    'Waiting for consensus operation commit failed. Timeout set at: 15 seconds',
  )
}

const QUANTIZATION_FIELDS = [
  'type',
  'always_ram',
  'compression',
  'encoding',
  'query_encoding',
  'bits',
]
const QUANTIZATIONS = ['scalar', 'product', 'binary', 'turbo']

export function rejectBadQuantization(body: CollectionBody): void {
  const vectors = plain(body['vectors'])
  const each = typeof vectors['size'] === 'number' ? [vectors] : Object.values(vectors)
  const all = [body, ...each].map((holder) => ownValue(holder, 'quantization_config'))
  for (const value of all) {
    if (value === undefined || value === 'Disabled') continue
    if (!QUANTIZATIONS.some((kind) => isPlainObject(ownValue(value, kind)))) {
      throw engineError(
        400,
        'data did not match any variant of untagged enum QuantizationConfigDiff',
      )
    }
  }
}

function storedQuantization(quantization: unknown): PlainObject | null {
  if (!isPlainObject(quantization)) return null
  const kind = QUANTIZATIONS.find((name) => isPlainObject(quantization[name])) ?? ''
  const { quantile, ...rest } = plain(quantization[kind])
  const knownFields = Object.entries(rest).filter(([name]) => QUANTIZATION_FIELDS.includes(name))
  return {
    [kind]: {
      ...Object.fromEntries(knownFields),
      ...(typeof quantile === 'number' && { quantile: Number(Math.fround(quantile).toFixed(7)) }),
    },
  }
}

const LANGUAGE_NAMES: Record<string, string> = { en: 'english', de: 'german' }
const TEXT_PARAMS = ['tokenizer', 'lowercase', 'min_token_len', 'stopwords', 'on_disk']
const PARAMS: Record<string, string[]> = {
  keyword: ['is_tenant', 'on_disk'],
  integer: ['lookup', 'range', 'is_principal', 'on_disk'],
  text: TEXT_PARAMS,
}

export function indexInfo(schema: IndexBody['field_schema']): IndexInfo {
  if (typeof schema === 'string') return { data_type: schema }
  const type = String(schema['type'])
  const { range, lookup } = schema
  if (range === false && lookup === false) throw engineError(422, 'range and lookup are both false')
  const accepted = Object.entries(schema).filter(([name]) => PARAMS[type]?.includes(name) ?? false)
  const params = Object.fromEntries(accepted)
  if (typeof params['stopwords'] === 'string') {
    params['stopwords'] = LANGUAGE_NAMES[params['stopwords']] ?? params['stopwords']
  }
  const defaults =
    type === 'integer'
      ? { lookup: null, range: null, is_principal: null }
      : type === 'text'
        ? { tokenizer: 'word' }
        : {}
  return { data_type: type, params: { type, ...defaults, ...params } }
}

function merge(target: PlainObject, patch: PlainObject): void {
  for (const [name, value] of Object.entries(patch)) if (value !== undefined) target[name] = value
}

function mapValues(value: unknown, transform: (inner: PlainObject) => PlainObject): PlainObject {
  return Object.fromEntries(
    Object.entries(plain(value)).map(([name, inner]) => [name, transform(plain(inner))]),
  )
}

function plain(value: unknown): PlainObject {
  return isPlainObject(value) ? value : {}
}
