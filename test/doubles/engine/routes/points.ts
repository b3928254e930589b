/** /collections/{c}/points: as much as counts, pages, copies and tokens need. */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import type { Collection, Shard, ShardKey } from '../collection.ts'
import { integerText } from '../json.ts'
import {
  checkKey,
  compareIds,
  matches,
  readPoints,
  sameId,
  type Filter,
  type Point,
} from '../points.ts'
import { isDeferring, keep, write } from '../deferred.ts'
import {
  acceptedWrites,
  countedPoints,
  deleteCopies,
  killMissing,
  shardsOf,
  unreachable,
  writeCopies,
} from '../resharding.ts'
import { countWrite, isPlaced } from '../shard-points.ts'
import { checkBatch, checkExact, checkPage, checkTimeout } from '../strict.ts'
import { found } from './collections.ts'

export interface Selection {
  filter?: Filter
  points?: unknown[]
  ids?: unknown[]
  query?: { sample?: string }
  shard_key?: ShardKey
  exact?: boolean
  limit?: number
  offset?: unknown
  with_payload?: boolean
  with_vector?: boolean
}

const DEFAULT_PAGE = 10

export function pointRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
): EngineAnswer | undefined {
  const { method, path, body, query } = request
  const [root, name = '', part, verb, ...rest] = path
  if (root !== 'collections' || part !== 'points' || rest.length > 0) return undefined
  const selection = (body ?? {}) as Selection
  const status = query['wait'] === 'true' ? 'completed' : 'acknowledged'
  switch (`${method} ${verb ?? ''}`) {
    case 'PUT ':
      apply(
        cluster,
        query,
        upsert(cluster, found(cluster, name), { body, wait: status === 'completed' }),
      )
      return ok({ operation_id: cluster.nextOperation(), status })
    case 'POST delete':
      apply(
        cluster,
        query,
        remove(cluster, found(cluster, name), { selection, wait: status === 'completed' }),
      )
      return ok({ operation_id: cluster.nextOperation(), status })
    case 'POST ':
      return ok(retrieved(found(cluster, name), selection))
    case 'POST query':
      return ok(sampled(found(cluster, name), selection))
    case 'POST count':
      checkTimeout(found(cluster, name), query['timeout'])
      checkExact(found(cluster, name), selection.exact ?? true)
      return ok({ count: counted(found(cluster, name), selection).length })
    case 'POST scroll':
      return ok(page(found(cluster, name), selection))
    default:
      return method === 'GET' && verb !== undefined ? one(found(cluster, name), verb) : undefined
  }
}

interface Update {
  /** Those that take part in it: each applies it behind what was queued before. */
  shards: ReadonlySet<Shard>
  update: () => void
}

/** An update whose client does not wait is queued: the next read does not show it yet. */
function apply(cluster: EngineCluster, query: EngineRequest['query'], queued: Update): void {
  if (query['wait'] !== 'true' && cluster.applyMs > 0) {
    cluster.queue(queued)
    return
  }
  cluster.applyQueued(queued.shards)
  queued.update()
}

/** One page of these points of a collection. */
export function pageOf(collection: Collection, all: Point[], selection: Selection): object {
  const { limit = DEFAULT_PAGE, offset = null } = selection
  if (limit < 1) {
    const wrong = `[scroll_request.limit: value ${limit} invalid, must be 1 or larger]`
    refuse(422, `Validation error in JSON body: ${wrong}`)
  }
  checkPage(collection, limit)
  const rest = offset === null ? all : all.filter(({ id }) => compareIds(id, offset) >= 0)
  return {
    points: rest.slice(0, limit).map((point) => render(point, selection)),
    next_page_offset: rest[limit]?.id ?? null,
  }
}

function page(collection: Collection, selection: Selection): object {
  return pageOf(collection, selected(collection, selection), selection)
}

/** A call that waits for deferred points waits for their index: longer than the engine's own limit. */
function upsert(
  cluster: EngineCluster,
  collection: Collection,
  { body, wait }: { body: unknown; wait: boolean },
): Update {
  const written = readPoints(body, collection)
  checkBatch(collection, written.length)
  const shards = shardsOf(collection, written)
  const update = () => {
    // The shard key of a queued write may be gone by now.
    const present = written.filter((point) => isPlaced(collection, point))
    const placed = acceptedWrites(collection, present)
    countWrite(collection, placed)
    write(collection, placed)
    writeCopies(cluster, collection, placed)
    checkReplicas(cluster, collection, { shards, wait })
    if (!wait || !isDeferring(collection) || (collection.deferred ?? []).length === 0) return
    const words = 'Update operation timed out in 60.00 seconds on 1 out of 1 shards.'
    refuse(408, `Timeout error: ${words}`)
  }
  return { shards, update }
}

function remove(
  cluster: EngineCluster,
  collection: Collection,
  { selection, wait }: { selection: Selection; wait: boolean },
): Update {
  const { points, filter, shard_key: key } = selection
  const isMeant = (point: Point) =>
    points === undefined ? matches(point, filter) : points.some((id) => sameId(id, point.id))
  const reached = collection.shards.filter((shard) => key === undefined || shard.key === key)
  const named = points?.map((id) => ({ id, ...(key !== undefined && { shard_key: key }) }))
  // Under custom sharding an id without its key may be in any shard.
  const isNamed = named !== undefined && (key !== undefined || reached.every((one) => !one.key))
  const shards = isNamed ? shardsOf(collection, named) : new Set(reached)
  const update = () => {
    countWrite(collection, collection.points.filter(isMeant))
    keep(collection, (point) => !isMeant(point))
    deleteCopies(cluster, collection, isMeant)
    checkReplicas(cluster, collection, { shards, wait })
  }
  return { shards, update }
}

/** Replicas of nodes that are down miss the update. */
function checkReplicas(
  cluster: EngineCluster,
  collection: Collection,
  { shards, wait }: Pick<Update, 'shards'> & { wait: boolean },
): void {
  const failing = unreachable(cluster, shards)
  const inService = killMissing(cluster, collection, shards)
  if (failing !== undefined) {
    refuse(500, `Service internal error: no replica of shard ${failing.id} is reachable`)
  }
  if (!wait || inService === undefined) return
  const words = `Some replica of shard ${inService} failed to apply operation and deactivation timed out after 30s.`
  const advice = 'Consistency of this update is not guaranteed. Please retry.'
  refuse(500, `Service internal error: ${words} ${advice}`)
}

function selected(collection: Collection, selection: Selection): Point[] {
  checkKey(collection, selection.shard_key, 'Bad request')
  return collection.points.filter((point) => isSelected(point, selection))
}

function counted(collection: Collection, selection: Selection): Point[] {
  checkKey(collection, selection.shard_key, 'Bad request')
  return countedPoints(collection).filter((point) => isSelected(point, selection))
}

function isSelected(point: Point, { filter, shard_key: key }: Selection): boolean {
  return matches(point, filter) && (key === undefined || point.shard_key === key)
}

/** In the order they were asked for; what is not there is left out. */
function retrieved(collection: Collection, selection: Selection): object[] {
  const all = selected(collection, selection)
  return (selection.ids ?? []).flatMap((id) => {
    const point = all.find((one) => sameId(one.id, id))
    return point === undefined ? [] : [render(point, selection)]
  })
}

function sampled(collection: Collection, selection: Selection): object {
  const { limit = DEFAULT_PAGE, query } = selection
  if (query?.sample !== 'random') refuse(400, 'Bad request: the double knows random samples only')
  checkPage(collection, limit)
  const all = selected(collection, selection).map((point) => ({ point, at: Math.random() }))
  const chosen = all.toSorted((one, other) => one.at - other.at).slice(0, limit)
  return { points: chosen.map(({ point }) => ({ id: point.id, version: 0, score: 1 })) }
}

function render({ id, payload, vector, shard_key: key }: Point, selection: Selection): object {
  const { with_payload: withPayload, with_vector: withVector } = selection
  // Scroll returns payloads unless the request excludes them; retrieve by id returns them on request.
  const hasPayload = withPayload ?? selection.ids === undefined
  return {
    id,
    ...(hasPayload && { payload }),
    ...(withVector === true && { vector }),
    ...(key !== undefined && { shard_key: key }),
  }
}

function one({ points }: Collection, id: string): EngineAnswer {
  const found = points.find((point) => (integerText(point.id) ?? point.id) === id)
  if (found === undefined) refuse(404, `Not found: Point with id ${id} does not exists!`)
  return ok({ id: found.id, payload: found.payload, vector: found.vector })
}
