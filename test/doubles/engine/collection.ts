/** One collection: its config with the engine's defaults, and how PATCH changes it (docs/engine-notes.md#collections). */
import { refuse } from './answers.ts'
import { cloneJson } from './json.ts'
import type { Point } from './points.ts'

export type Fields = Record<string, unknown>

export interface Shard {
  id: number
  /** A string or an integer; absent where the engine spreads the points. */
  key?: ShardKey
  /** Peers that hold a copy. */
  peers: number[]
  /** Of copies that are not Active. */
  states?: Record<number, string>
  /** Transfers in progress. */
  arriving?: Transfer[]
  /** Replicas that only some nodes know, by the ordinal of the node. */
  phantoms?: Record<number, number[]>
  /** Ordinals of nodes that have lost their own copy, which the others go on counting. */
  forgottenBy?: number[]
  /** How many writes it has taken: every copy gives them the same numbers. */
  operations?: number
  /** What telemetry estimates its vectors at, whatever they are; default: 0. */
  vectorBytes?: number
  /** How many points a replica is missing, by the ordinal of its node. */
  lost?: Record<number, number>
  /** Replicas that are not green, by the ordinal of their node. */
  statusOn?: Record<number, Unfinished | 'red'>
  /** How many points of a replica no read returns before they are indexed, by the ordinal of its node. */
  deferredOn?: Record<number, number>
  /** Ordinals of nodes that cannot read their replica, which is reported as Active. */
  unreadableOn?: number[]
  /** Replica states that only some nodes report: by ordinal of the reporting node, then by peer. */
  reportedStates?: Record<number, Record<number, string>>
  /** Targets of copies that a node which joins later takes for failed (docs/engine-notes.md#transfers-of-shards). */
  failedForJoining?: number[]
}

export interface Transfer {
  from: number
  to: number
  /** In milliseconds; default: now. */
  since?: number
  /** In milliseconds. */
  until: number
  /** State of the target meanwhile. */
  state: string
  /** Default: the target becomes Active. */
  fails?: boolean
  /** The source keeps its replica. */
  sync: boolean
  /** Of a resharding: the shard whose points are copied. */
  fromShard?: number
  /** Its failure ends the resharding. */
  abort?: () => void
}

export interface Resharding {
  uuid: string
  direction: 'up' | 'down'
  /** The shard that is added or removed. */
  shard: number
  peer: number
  stage: 'migrating' | 'read' | 'write'
  /** Under custom sharding. */
  key?: ShardKey
}

export type ShardKey = string | number

export interface Config {
  params: Fields & { vectors: Fields; sparse_vectors?: Fields }
  hnsw_config: Fields
  optimizer_config: Fields
  wal_config: Fields
  quantization_config: unknown
  strict_mode_config?: Fields
  metadata?: Fields
}

/** Status of a collection that is not green. Grey ends with the next update. */
export type Unfinished = 'yellow' | 'grey'

export interface Collection {
  status?: Unfinished
  /** Another one whenever a collection is created: only telemetry shows it. */
  uuid?: string
  shards: Shard[]
  config: Config
  payloadSchema: Record<string, Fields>
  /** Fields without an index that slow queries filtered by. */
  slowFields?: string[]
  points: Point[]
  /** Points are placed so that another shard takes some from each of the others. */
  hasRing?: true
  resharding?: Resharding
  /** Points of each replica, by `shard/peer`, while they are not those of its shard alone. */
  copies?: Record<string, Point[]>
  /** Replicas that were cleaned since the last commit. */
  cleaned?: string[]
  /** Points that are written and not indexed yet, with `prevent_unoptimized`: no read shows them. */
  deferred?: Point[]
  /** The number of `points` that are indexed; as many others are no longer deferred. */
  indexed?: number
  /** What readers still see for a moment after a PATCH, and until when. */
  stale?: { config: Config; until: number }
  /** Nodes have not applied the last change before that moment (milliseconds). */
  unsettledUntil?: number
}

const HNSW = {
  m: 16,
  ef_construct: 100,
  full_scan_threshold: 10_000,
  max_indexing_threads: 0,
  on_disk: false,
}
const OPTIMIZERS = {
  deleted_threshold: 0.2,
  vacuum_min_vector_number: 1000,
  default_segment_number: 0,
  max_segment_size: null,
  memmap_threshold: null,
  indexing_threshold: 10_000,
  flush_interval_sec: 5,
  max_optimization_threads: null,
  prevent_unoptimized: null,
}
const WAL = { wal_capacity_mb: 32, wal_segments_ahead: 0, wal_retain_closed: 1 }

/** The config of a body that was read; `nodes` is how many share it. */
export function newConfig(body: Fields, nodes: number): Config {
  const vectors = body['vectors'] ?? {}
  const sparse = body['sparse_vectors']
  checkNames(vectors, sparse)
  return {
    params: {
      vectors: isSingle(vectors) ? newVector(vectors) : each(vectors, newVector),
      // Under custom sharding it is the number of shards of each key.
      shard_number: body['shard_number'] ?? (body['sharding_method'] === 'custom' ? 1 : nodes),
      ...pick(body, 'sharding_method'),
      replication_factor: body['replication_factor'] ?? 1,
      write_consistency_factor: body['write_consistency_factor'] ?? 1,
      on_disk_payload: body['on_disk_payload'] ?? true,
      ...(sparse instanceof Map && sparse.size > 0 && { sparse_vectors: each(sparse, copy) }),
    },
    hnsw_config: { ...HNSW, ...fields(body['hnsw_config']) },
    optimizer_config: { ...OPTIMIZERS, ...threads(fields(body['optimizers_config'])) },
    wal_config: { ...WAL, ...fields(body['wal_config']) },
    quantization_config: body['quantization_config'] ?? null,
    ...(pick(body, 'strict_mode_config', 'metadata') as Pick<
      Config,
      'strict_mode_config' | 'metadata'
    >),
  }
}

/**
 * Applies a PATCH part by part, in the engine's order; a part that fails leaves those before it.
 * Answers whether the call hangs: a per-vector HNSW object in which nothing is known.
 */
export function patchConfig(config: Config, body: Fields): void {
  Object.assign(config.optimizer_config, threads(fields(body['optimizers_config'])))
  Object.assign(config.params, fields(body['params']))
  Object.assign(config.hnsw_config, fields(body['hnsw_config']))
  for (const [name, diff] of entries(body['vectors'])) patchVector(vectorOf(config, name), diff)
  if ('quantization_config' in body)
    config.quantization_config = quantized(body['quantization_config'])
  for (const [name, diff] of entries(body['sparse_vectors'])) patchSparse(config, name, diff)
  if ('strict_mode_config' in body) {
    config.strict_mode_config = {
      ...config.strict_mode_config,
      ...fields(body['strict_mode_config']),
    }
  }
  if ('metadata' in body) config.metadata = merged(config.metadata, fields(body['metadata']))
}

/** Whether a body holds a per-vector `hnsw_config` without a field that the engine knows. */
export function hasEmptyHnsw(body: Fields): boolean {
  const vectors = body['vectors'] ?? {}
  const all = vectors instanceof Map ? [...vectors.values()] : [vectors]
  return all.some((vector) => {
    const hnsw = (vector as Fields)['hnsw_config']
    return hnsw !== undefined && Object.keys(fields(hnsw)).length === 0
  })
}

function newVector(vector: unknown): Fields {
  const { hnsw_config: hnsw, ...rest } = copy(vector)
  const isSet = Object.keys(fields(hnsw)).length > 0
  return { ...rest, ...(isSet && { hnsw_config: hnsw }) }
}

function vectorOf({ params }: Config, name: string): Fields {
  const { vectors } = params
  if (isSingle(vectors) && name === '') return vectors
  if (!isSingle(vectors) && Object.hasOwn(vectors, name)) return fields(vectors[name])
  return refuse(400, `Wrong input: Not existing vector name error: ${name}`)
}

function patchVector(vector: Fields, diff: Fields): void {
  const { hnsw_config: hnsw, quantization_config: quantization, ...rest } = diff
  Object.assign(vector, rest)
  const whole = { ...fields(vector['hnsw_config']), ...fields(hnsw) }
  if (Object.keys(whole).length > 0) vector['hnsw_config'] = whole
  if (quantization === undefined) return
  if (quantization === 'Disabled') delete vector['quantization_config']
  else vector['quantization_config'] = quantization
}

function patchSparse({ params }: Config, name: string, diff: Fields): void {
  const all = params.sparse_vectors ?? {}
  const vector = Object.hasOwn(all, name)
    ? fields(all[name])
    : refuse(400, `Wrong input: Not existing vector name error: ${name}`)
  const { index, ...rest } = diff
  Object.assign(vector, rest)
  if (index !== undefined) vector['index'] = { ...fields(vector['index']), ...fields(index) }
}

/** Null takes a key away from what is there; it is kept in what is new. */
function merged(metadata: Fields | undefined, diff: Fields): Fields {
  if (metadata === undefined) return diff
  const all = Object.entries({ ...metadata, ...diff })
  return Object.fromEntries(all.filter(([key]) => diff[key] !== null))
}

function checkNames(vectors: unknown, sparse: unknown): void {
  const dense = entries(vectors).map(([name]) => name)
  for (const name of dense) {
    const wrong = wrongName(name)
    if (wrong)
      refuse(400, `Wrong input: Invalid dense vector name \`${name}\`: vector name ${wrong}`)
  }
  for (const [name] of entries(sparse)) {
    if (name === '') refuse(400, 'Wrong input: Sparse vector name cannot be empty')
    if (dense.includes(name)) {
      const words = `Dense and sparse vector names must be unique - duplicate found with '${name}'`
      refuse(400, `Wrong input: ${words}`)
    }
  }
}

function wrongName(name: string): string | undefined {
  if (Buffer.byteLength(name) > 200) return 'must be at most 200 bytes long'
  const odd = '<>:"/\\|?*'.split(/(?:)/).find((character) => name.includes(character))
  return odd === undefined ? undefined : `cannot contain "${odd}" char`
}

/** An object with a number as `size` is the one unnamed vector; a vector may be called "size". */
function isSingle(vectors: unknown): boolean {
  return !(vectors instanceof Map) && typeof (vectors as Fields)['size'] === 'number'
}

function quantized(value: unknown): unknown {
  return value === 'Disabled' ? null : value
}

function threads(optimizers: Fields): Fields {
  if (optimizers['max_optimization_threads'] !== 'auto') return optimizers
  return { ...optimizers, max_optimization_threads: null }
}

function entries(value: unknown): [string, Fields][] {
  return value instanceof Map ? ([...value] as [string, Fields][]) : []
}

/** Without a prototype: a vector may be called `__proto__`. */
function each(value: unknown, change: (inner: unknown) => Fields): Fields {
  const all = Object.create(null) as Fields
  for (const [name, inner] of entries(value)) all[name] = change(inner)
  return all
}

function fields(value: unknown): Fields {
  return (value ?? {}) as Fields
}

function copy(value: unknown): Fields {
  return cloneJson(value) as Fields
}

function pick(body: Fields, ...names: string[]): Fields {
  return Object.fromEntries(names.flatMap((name) => (name in body ? [[name, body[name]]] : [])))
}
