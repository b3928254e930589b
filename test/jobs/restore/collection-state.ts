/**
 * Everything of a collection that a restore must recover, as every node of an engine reports it: each
 * point with id, payload, vectors and shard key, aliases, payload indexes, shard keys, and its config.
 */
import { Agent, fetch } from 'undici'
import { integerText, parseJson } from '../../doubles/engine/json.ts'

interface Copy {
  shard_id: number
  shard_key?: string | number
}

interface CollectionInfo {
  config: { params: object }
  payload_schema: Record<string, { data_type: string; params?: object }>
}

const PAGE = 500

/** The engine closes a connection that was idle for 5 s; none is used that long. */
const CONNECTIONS = new Agent({ keepAliveTimeout: 1_000, keepAliveMaxTimeout: 1_000 })

/** Two collections differ exactly when these differ. */
export async function readCollectionState(urls: readonly string[], name: string): Promise<object> {
  const base = `/collections/${encodeURIComponent(name)}`
  const [first = ''] = urls
  const { config, payload_schema } = (await ask(first, 'GET', base)) as CollectionInfo
  const { aliases } = (await ask(first, 'GET', `${base}/aliases`)) as {
    aliases: { alias_name: string }[]
  }
  const shards = await shardsOf(first, base)
  // In an order that does not depend on the ids of their shards.
  const keys = [...new Set(shards.map(({ shard_key }) => shard_key))].sort((one, other) =>
    JSON.stringify([one]).localeCompare(JSON.stringify([other])),
  )
  const points: object[] = []
  for (const url of urls) {
    for (const key of keys) points.push(await pointsOf(url, base, key))
  }
  return {
    config,
    indexes: Object.fromEntries(
      Object.entries(payload_schema).map(([field, { data_type, params }]) => [
        field,
        { data_type, params },
      ]),
    ),
    aliases: aliases.map(({ alias_name }) => alias_name).sort(),
    shards,
    points,
  }
}

/** The nodes of each shard by ordinal, as every node reports them. */
export async function placement(urls: readonly string[], name: string): Promise<string[][]> {
  const path = `/collections/${encodeURIComponent(name)}/cluster`
  const views = await Promise.all(
    urls.map(
      async (url) =>
        (await ask(url, 'GET', path)) as {
          peer_id: number
          local_shards: (Copy & { state: string })[]
          remote_shards: (Copy & { state: string; peer_id: number })[]
        },
    ),
  )
  const peers = views.map(({ peer_id }) => peer_id)
  return views.map(({ peer_id, local_shards, remote_shards }) =>
    [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
      .map(({ shard_id, peer_id: peer, state }) => `${shard_id} on ${peers.indexOf(peer)} ${state}`)
      .sort(),
  )
}

export async function ask(
  url: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<unknown> {
  const response = await fetch(url + path, {
    method,
    dispatcher: CONNECTIONS,
    ...(body !== undefined && {
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
  return (parseJson(text) as { result: unknown }).result
}

async function shardsOf(url: string, base: string): Promise<Copy[]> {
  const { local_shards, remote_shards } = (await ask(url, 'GET', `${base}/cluster`)) as {
    local_shards: Copy[]
    remote_shards: Copy[]
  }
  const byId = new Map(
    [...local_shards, ...remote_shards].map(({ shard_id, shard_key }) => [
      shard_id,
      { shard_id, ...(shard_key !== undefined && { shard_key }) },
    ]),
  )
  return [...byId.values()].sort((one, other) => one.shard_id - other.shard_id)
}

async function pointsOf(url: string, base: string, key: string | number | undefined) {
  const points: object[] = []
  let offset: unknown = null
  do {
    const page = (await ask(url, 'POST', `${base}/points/scroll`, {
      limit: PAGE,
      with_payload: true,
      with_vector: true,
      ...(offset !== null && { offset }),
      ...(key !== undefined && { shard_key: key }),
    })) as { points: { id: unknown }[]; next_page_offset: unknown }
    points.push(...page.points.map(withExactIntegers))
    offset = page.next_page_offset
  } while (offset != null)
  return { key, count: points.length, points }
}

/** Integers that JavaScript would round are compared as text. */
function withExactIntegers(value: unknown): object {
  return JSON.parse(
    JSON.stringify(value, (_, inner: unknown) => {
      const text = typeof inner === 'object' ? integerText(inner) : undefined
      return text === undefined ? inner : `integer ${text}`
    }),
  ) as object
}
