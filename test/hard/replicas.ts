/**
 * Reads what each node has on its own disk. `POST /collections/{c}/shards/{s}/points/scroll` is answered
 * from the local replica alone: the engine selects the shard by id, which makes the read local, and
 * refuses with "Local shard not found" where the node has none (src/actix/api/local_shard_api.rs,
 * replica_set/execute_read_operation.rs of 1.18.3).
 */
import { ask, askUntilAnswered, EngineError, pathOf } from './ask.ts'
import type { Replica } from './oracle.ts'
import type { StoredPoint } from './point.ts'

interface LocalShard {
  shard_id: number
  shard_key?: string
  state: string
}

interface RemoteShard extends LocalShard {
  peer_id: number
}

interface ClusterView {
  peer_id: number
  local_shards: LocalShard[]
  remote_shards: RemoteShard[]
  shard_transfers: unknown[]
}

const PAGE = 1000
const POLL_MS = 200

/** Every replica of a collection, each from its own node; none where the collection does not exist. */
export async function readReplicas(
  urls: readonly string[],
  collection: string,
): Promise<Replica[]> {
  const replicas: Replica[] = []
  for (const [node, url] of urls.entries()) {
    const view = await viewOf(url, collection, askUntilAnswered)
    for (const { shard_id: shard, shard_key: key } of view?.local_shards ?? []) {
      const points = await pointsOf(url, collection, shard)
      replicas.push({ node, shard, ...(key !== undefined && { key }), points })
    }
  }
  return replicas
}

/** Why the nodes do not agree that every replica is Active; undefined once they do. */
export async function unsettled(
  urls: readonly string[],
  collection: string,
): Promise<string | undefined> {
  try {
    const views = await Promise.all(urls.map((url) => viewOf(url, collection)))
    const texts = views.map((view) => (view === undefined ? 'no collection' : textOf(view)))
    const odd = texts.findIndex((text) => text !== texts[0])
    if (odd > 0) return `node 0 sees ${texts[0] ?? ''}; node ${odd} sees ${texts[odd] ?? ''}`
    const bad = texts.find((text) =>
      /Dead|Partial|Recovery|Initializing|Listener|transfer/.test(text),
    )
    return bad
  } catch (error) {
    return String(error)
  }
}

/** Waits until the nodes agree about a collection; answers why they do not when it takes too long. */
export async function settle(
  urls: () => readonly string[],
  collection: string,
  ms: number,
): Promise<string | undefined> {
  const end = Date.now() + ms
  for (;;) {
    const why = await unsettled(urls(), collection)
    if (why === undefined || Date.now() > end) return why
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

export async function viewOf(
  url: string,
  collection: string,
  call: typeof askUntilAnswered = ask,
): Promise<ClusterView | undefined> {
  try {
    return (await call(url, 'GET', `${pathOf(collection)}/cluster`)) as ClusterView
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) return undefined
    throw error
  }
}

function textOf({ peer_id: own, local_shards, remote_shards, shard_transfers }: ClusterView) {
  const copies = [
    ...local_shards.map((shard) => ({ ...shard, peer_id: own })),
    ...remote_shards,
  ].map(({ shard_id: shard, peer_id: peer, state }) => `${shard}@${peer} ${state}`)
  const transfers = shard_transfers.length > 0 ? [`${shard_transfers.length} transfers`] : []
  return [...copies.toSorted(), ...transfers].join(', ')
}

async function pointsOf(
  url: string,
  collection: string,
  shard: number,
): Promise<Map<number, StoredPoint>> {
  const points = new Map<number, StoredPoint>()
  const path = `${pathOf(collection)}/shards/${shard}/points/scroll`
  let offset: unknown = null
  do {
    const body = { limit: PAGE, with_payload: true, with_vector: true, offset }
    const page = (await askUntilAnswered(url, 'POST', path, body)) as {
      points: StoredPoint[]
      next_page_offset?: unknown
    }
    for (const { id, vector, payload } of page.points) points.set(id, { id, vector, payload })
    offset = page.next_page_offset ?? null
  } while (offset !== null)
  return points
}
