/** /collections: their names, making, reading, changing and deleting one, and where its shards are. */
import { setTimeout } from 'node:timers/promises'
import { visible } from '../access.ts'
import {
  failed,
  ok,
  refuse,
  refuseTooMany,
  UNKNOWN_ROUTE,
  type EngineAnswer,
  type EngineRequest,
} from '../answers.ts'
import { CreateCollection, UpdateCollection } from '../bodies/collection.ts'
import {
  newConfig,
  hasEmptyHnsw,
  patchConfig,
  type Collection,
  type Resharding,
  type Shard,
} from '../collection.ts'
import type { EngineCluster } from '../cluster.ts'
import { cloneJson } from '../json.ts'
import { readBody } from '../read.ts'
import { deleteLater, isHeld } from '../running.ts'
import { sentForm } from '../sent-form.ts'
import { endGrey, pointsOn } from '../shard-points.ts'
import { commentOf, transfersOf } from '../transfers.ts'

const DEFAULT_TIMEOUT_SECONDS = 10

export async function collectionRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): Promise<EngineAnswer | undefined> {
  const { method, path } = request
  const [root, name, part, ...rest] = path
  if (root !== 'collections' || rest.length > 0) return undefined
  if (name === undefined) return method === 'GET' ? list(request, cluster, ordinal) : UNKNOWN_ROUTE
  switch (`${method} ${part ?? ''}`) {
    case 'GET ':
      return read(cluster, name, ordinal)
    case 'PUT ':
      return create(request, cluster, { name, ordinal })
    case 'PATCH ':
      return patch(request, cluster, { name, ordinal })
    case 'DELETE ':
      return remove(request, cluster, name)
    case 'GET exists':
      return ok({ exists: cluster.find(name) !== undefined })
    case 'GET cluster':
      return ok(placement(cluster, found(cluster, name), ordinal))
    default:
      return undefined
  }
}

/** By its name or an alias; everything below `/collections/{c}` needs one. */
export function found(cluster: EngineCluster, name: string): Collection {
  return cluster.find(name) ?? missing(name)
}

function missing(name: string): never {
  return refuse(404, `Not found: Collection \`${name}\` doesn't exist!`)
}

/** The `timeout` of a metadata write, in seconds. */
export function timeoutOf({ query }: EngineRequest): number {
  const { timeout } = query
  if (timeout === undefined) return DEFAULT_TIMEOUT_SECONDS
  if (!/^\d+$/.test(timeout)) {
    refuse(400, 'Deserialize error in query parameters: invalid digit found in string')
  }
  if (Number(timeout) >= 1) return Number(timeout)
  const wrong = `[timeout: value ${timeout} invalid, must be 1 or larger]`
  return refuse(422, `Validation error in query parameters: ${wrong}`)
}

function list({ access }: EngineRequest, cluster: EngineCluster, ordinal: number): EngineAnswer {
  const names = cluster.namesOn(ordinal).filter((name) => visible(access, name))
  return ok({ collections: names.map((name) => ({ name })) })
}

function read(cluster: EngineCluster, name: string, ordinal: number): EngineAnswer {
  const collection = cluster.findOn(ordinal, name) ?? missing(name)
  const { stale, config, points, payloadSchema, shards, deferred = [] } = collection
  const isStale = stale !== undefined && stale.until > Date.now()
  if (!isStale) delete collection.stale
  const stored = { config: isStale ? stale.config : config, payloadSchema }
  const isSent =
    shards.length > 0 && !shards.some(({ peers }) => peers.includes(cluster.peer(ordinal).id))
  const form = isSent ? sentForm(stored) : stored
  const replicas = readReplicas(cluster, shards, ordinal)
  const hidden = replicas.reduce((sum, replica) => sum + replica.deferred, deferred.length)
  const status = SEVERITY.find((one) => replicas.some((replica) => replica.status === one))
  return ok({
    status: status ?? collection.status ?? 'green',
    optimizer_status: status === 'red' ? { error: 'No space left on device' } : 'ok',
    indexed_vectors_count: 0,
    points_count: points.length + deferred.length,
    segments_count: 2 * shards.length,
    config: form.config,
    payload_schema: form.payloadSchema,
    update_queue: {
      length: 0,
      ...(config.optimizer_config['prevent_unoptimized'] === true && {
        deferred_points: hidden,
      }),
    },
  })
}

const SEVERITY = ['red', 'yellow', 'grey'] as const

/** The replica of each shard that a node describes: its own or, of a shard that it does not hold, another one. */
function readReplicas(cluster: EngineCluster, shards: Shard[], ordinal: number) {
  const { id } = cluster.peer(ordinal)
  return shards.map(({ peers, statusOn = {}, deferredOn = {} }) => {
    const read = peers.includes(id) ? id : peers[0]
    const node = cluster.peers().find((peer) => peer.id === read)?.ordinal ?? ordinal
    return { status: statusOn[node], deferred: deferredOn[node] ?? 0 }
  })
}

/** A recovery that runs is waited for, longer than the caller is kept waiting. */
function remove(request: EngineRequest, cluster: EngineCluster, name: string): EngineAnswer {
  const seconds = timeoutOf(request)
  if (!isHeld(cluster, name)) return ok(cluster.removeCollection(name))
  deleteLater(cluster, name)
  return notApplied(seconds)
}

/** The collection, and the node that is asked. */
interface Asked {
  name: string
  ordinal: number
}

async function create(
  request: EngineRequest,
  cluster: EngineCluster,
  { name, ordinal }: Asked,
): Promise<EngineAnswer> {
  checkName(name)
  const timeout = timeoutOf(request)
  const body = readBody(CreateCollection, request.body)
  refuseUnknownKind(cluster, ordinal, body)
  if (cluster.collections.has(name)) {
    return failed(409, `Wrong input: Collection \`${name}\` already exists!`)
  }
  if (cluster.aliases.has(name)) {
    const words = `Can't create collection with name ${name}. Alias with the same name already exists`
    return failed(400, `Wrong input: ${words}`)
  }
  // Names of vectors are checked before consensus.
  newConfig(body, 1)
  refuseTooMany(body['shard_number'])
  cluster.addCollection(name, body)
  stopOlderNodes(cluster, body)
  return answered(cluster, hasEmptyHnsw(body), timeout)
}

async function patch(
  request: EngineRequest,
  cluster: EngineCluster,
  { name, ordinal }: Asked,
): Promise<EngineAnswer> {
  const timeout = timeoutOf(request)
  const body = readBody(UpdateCollection, request.body)
  refuseUnknownKind(cluster, ordinal, body)
  const collection = found(cluster, name)
  const before = cloneJson(collection.config)
  patchConfig(collection.config, body)
  stopOlderNodes(cluster, body)
  endGrey(collection)
  collection.stale = { config: before, until: Date.now() + cluster.staleMs }
  return answered(cluster, hasEmptyHnsw(body), timeout)
}

/** The first version with the quantization `turbo`. */
const TURBO_SINCE = '1.18.0'

function refuseUnknownKind(
  cluster: EngineCluster,
  ordinal: number,
  body: Record<string, unknown>,
): void {
  if (!hasTurbo(body) || cluster.isSince(TURBO_SINCE, ordinal)) return
  refuse(400, 'Format error in JSON body: data did not match any variant of untagged enum')
}

/** Each node reads what was agreed on; one that cannot stops its consensus (docs/engine-notes.md#collections). */
function stopOlderNodes(cluster: EngineCluster, body: Record<string, unknown>): void {
  if (!hasTurbo(body)) return
  for (const { ordinal } of cluster.peers()) {
    if (!cluster.isSince(TURBO_SINCE, ordinal)) {
      cluster.stopConsensus(ordinal, 'Failed to handle committed entries')
    }
  }
}

function hasTurbo({ vectors, quantization_config }: Record<string, unknown>): boolean {
  const each = vectors instanceof Map ? [...vectors.values()] : [vectors]
  const ofVectors = each.map((vector) => {
    return (vector as { quantization_config?: unknown } | undefined)?.quantization_config
  })
  return [quantization_config, ...ofVectors].some(
    (kind) => typeof kind === 'object' && kind !== null && 'turbo' in kind,
  )
}

function stateOf(shard: Shard, peer: number, ordinal: number): string {
  const reported = shard.reportedStates?.[ordinal]?.[peer]
  if (reported !== undefined) return reported
  const transfer = transfersOf(shard).find(({ to }) => to === peer)
  return transfer?.state ?? shard.states?.[peer] ?? 'Active'
}

/** The change is applied, but the call may wait until its timeout (docs/engine-notes.md#collections). */
async function answered(
  { enabled }: EngineCluster,
  hangs: boolean,
  seconds: number,
): Promise<EngineAnswer> {
  if (!hangs || !enabled) return ok(true)
  await setTimeout(seconds * 1000, undefined, { ref: false })
  return notApplied(seconds)
}

/** What a change answers that was agreed on and not applied in its time. */
export function notApplied(seconds: number): EngineAnswer {
  const words = `Waiting for consensus operation commit failed. Timeout set at: ${seconds} seconds`
  return failed(500, `Service internal error: ${words}`)
}

function checkName(name: string): void {
  const odd = '<>:"/\\|?*\0\u001f'.split(/(?:)/).find((character) => name.includes(character))
  const wrong =
    name.length > 255
      ? `value "${name}" invalid, must be from 1 to 255 characters`
      : odd !== undefined && `collection name cannot contain "${odd}" char`
  if (wrong) refuse(422, `Validation error in path parameters: [collection_name: ${wrong}]`)
}

export function isUnreadable({ unreadableOn = [] }: Shard, ordinal: number): boolean {
  return unreadableOn.includes(ordinal)
}

function placement(cluster: EngineCluster, collection: Collection, ordinal: number): object {
  const { shards } = collection
  const { id } = cluster.peer(ordinal)
  const copies = shards.flatMap((each) => {
    const { id: shard_id, key, peers, phantoms = {}, forgottenBy = [] } = each
    const shard = { shard_id, ...(key !== undefined && { shard_key: key }) }
    const known = peers.filter((peer) => peer !== id || !forgottenBy.includes(ordinal))
    return [...known, ...(phantoms[ordinal] ?? [])].map((peer_id) => ({
      peer_id,
      copy: { ...shard, state: stateOf(each, peer_id, ordinal) },
      // An error is counted as no points.
      points_count: isUnreadable(each, ordinal)
        ? 0
        : pointsOn(collection, each, cluster.peer(ordinal)).length,
    }))
  })
  const isHere = ({ peer_id }: { peer_id: number }) => !cluster.enabled || peer_id === id
  return {
    peer_id: id,
    shard_count: shards.length,
    local_shards: copies
      .filter(isHere)
      .map(({ copy, points_count }) => ({ ...copy, points_count })),
    remote_shards: copies
      .filter((each) => !isHere(each))
      .map(({ peer_id, copy }) => ({ ...copy, peer_id })),
    shard_transfers: shards.flatMap((each) =>
      transfersOf(each).map((transfer) => {
        const { from, to, sync, state, fromShard } = transfer
        return {
          ...{ shard_id: fromShard ?? each.id, from, to, sync },
          ...(fromShard !== undefined && { to_shard_id: each.id }),
          // Only the two nodes that take part describe what they do.
          ...((from === id || to === id) && { comment: commentOf(transfer, id) }),
          method: methodOf(state, fromShard),
        }
      }),
    ),
    ...(collection.resharding !== undefined && {
      resharding_operations: [reshardingInfo(collection.resharding)],
    }),
  }
}

function methodOf(state: string, fromShard: number | undefined): string {
  if (fromShard !== undefined) return 'resharding_stream_records'
  return state === 'Partial' ? 'stream_records' : 'snapshot'
}

/** Its stage is not shown. */
function reshardingInfo({ uuid, direction, shard, peer, key }: Resharding): object {
  return { uuid, direction, shard_id: shard, peer_id: peer, shard_key: key ?? null }
}
