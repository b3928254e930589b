/** /collections/{c}/points: as much as counts, pages of ids and tokens need (facts 7). */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import type { Collection } from '../collection.ts'
import { integerText } from '../json.ts'
import { compareIds, matches, readPoints, sameId, type Filter, type Point } from '../points.ts'
import { found } from './collections.ts'

interface Selection {
  filter?: Filter
  points?: unknown[]
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
      upsert(found(cluster, name), body)
      return ok({ operation_id: cluster.nextOperation(), status })
    case 'POST delete':
      remove(found(cluster, name), selection)
      return ok({ operation_id: cluster.nextOperation(), status })
    case 'POST count':
      return ok({ count: selected(found(cluster, name), selection).length })
    case 'POST scroll':
      return ok(page(found(cluster, name), selection))
    default:
      return method === 'GET' && verb !== undefined ? one(found(cluster, name), verb) : undefined
  }
}

function upsert(collection: Collection, body: unknown): void {
  for (const point of readPoints(body, collection.config.params.vectors)) {
    collection.points = collection.points.filter(({ id }) => !sameId(id, point.id))
    collection.points.push(point)
  }
  collection.points.sort((one, other) => compareIds(one.id, other.id))
}

function remove(collection: Collection, { points, filter }: Selection): void {
  collection.points = collection.points.filter((point) =>
    points === undefined ? !matches(point, filter) : !points.some((id) => sameId(id, point.id)),
  )
}

function selected({ points }: Collection, { filter }: Selection): Point[] {
  return points.filter((point) => matches(point, filter))
}

function page(collection: Collection, selection: Selection): object {
  const { limit = DEFAULT_PAGE, offset = null } = selection
  if (limit < 1) {
    const wrong = `[scroll_request.limit: value ${limit} invalid, must be 1 or larger]`
    refuse(422, `Validation error in JSON body: ${wrong}`)
  }
  const all = selected(collection, selection)
  const rest = offset === null ? all : all.filter(({ id }) => compareIds(id, offset) >= 0)
  const { with_payload: withPayload = true, with_vector: withVector = false } = selection
  return {
    points: rest.slice(0, limit).map(({ id, payload, vector }) => ({
      id,
      ...(withPayload && { payload }),
      ...(withVector && { vector }),
    })),
    next_page_offset: rest[limit]?.id ?? null,
  }
}

function one({ points }: Collection, id: string): EngineAnswer {
  const found = points.find((point) => (integerText(point.id) ?? point.id) === id)
  if (found === undefined) refuse(404, `Not found: Point with id ${id} does not exists!`)
  return ok({ id: found.id, payload: found.payload, vector: found.vector })
}
