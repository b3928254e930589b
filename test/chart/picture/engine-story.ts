/**
 * The data of the picture of the engine's dashboard: three real engines with a writer and a reader. One node is
 * killed and stays away for two minutes; afterwards each node makes a snapshot, and a replica is copied.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { realSubject, type RealSubject } from '../../contract/engine/real.ts'
import { engineBin } from '../../hard/seed.ts'
import type { Sample } from './prometheus.ts'

export const NAMESPACE = 'team'

const EVERY_MS = 15_000
const MINUTE_MS = 60_000
const DIMENSIONS = 128
const BATCH = 50
const IDS = 200_000

export async function watchEngines(): Promise<Sample[]> {
  const bin = engineBin()
  if (bin === undefined)
    throw new Error('no engine: ENGINE_BIN names none, and none is in the cache')
  const subject = await realSubject(bin, { size: 'three', service: {} })
  const samples: Sample[] = []
  const stopped = new AbortController()
  try {
    const call = caller(subject)
    const vectors = { size: DIMENSIONS, distance: 'Cosine' }
    await call(0, 'PUT', '/collections/books', { vectors, shard_number: 6, replication_factor: 2 })
    const clients = [write(call, stopped.signal), read(call, stopped.signal)]
    const scrapes = scrape(subject, samples, stopped.signal)
    await delay(6 * MINUTE_MS)
    await subject.whileDown(2, () => delay(2 * MINUTE_MS))
    await delay(4 * MINUTE_MS)
    await Promise.all([0, 1, 2].map((node) => call(node, 'POST', '/collections/books/snapshots')))
    await copyReplica(call)
    await delay(4 * MINUTE_MS)
    stopped.abort()
    await Promise.all([...clients, scrapes])
    return samples
  } finally {
    stopped.abort()
    await subject.close()
  }
}

type Call = (node: number, method: string, path: string, body?: object) => Promise<unknown>

/** The result, or undefined where the node is away or rejects the call: the picture shows such answers. */
function caller({ urls }: RealSubject): Call {
  return async (node, method, path, body) => {
    const response = await fetch(`${urls[node] ?? ''}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(MINUTE_MS),
    }).catch(() => undefined)
    if (response === undefined) return undefined
    const { result } = (await response.json()) as { result?: unknown }
    return result
  }
}

async function write(call: Call, signal: AbortSignal): Promise<void> {
  for (let first = 0; !signal.aborted; first = (first + BATCH) % IDS) {
    const points = Array.from({ length: BATCH }, (_, index) => ({
      id: first + index,
      vector: vector(first + index),
      payload: { page: first },
    }))
    await call(0, 'PUT', '/collections/books/points?wait=true', { points })
    await delay(200)
  }
}

async function read(call: Call, signal: AbortSignal): Promise<void> {
  for (let count = 0; !signal.aborted; count += 1) {
    const query = { query: vector(count * 7), limit: 10, with_payload: true }
    await call(count % 3, 'POST', '/collections/books/points/query', query)
    await delay(100)
  }
}

function vector(seed: number): number[] {
  return Array.from({ length: DIMENSIONS }, (_, index) => Math.sin(seed * 13 + index))
}

interface Placement {
  peer_id: number
  local_shards: { shard_id: number }[]
}

/** Copies one shard of node 0 to a node that has no replica of it. */
async function copyReplica(call: Call): Promise<void> {
  const path = '/collections/books/cluster'
  const nodes = (await Promise.all([0, 1, 2].map((node) => call(node, 'GET', path)))) as Placement[]
  const [source] = nodes
  for (const { shard_id } of source?.local_shards ?? []) {
    const target = nodes.find(
      ({ local_shards }) => !local_shards.some((one) => one.shard_id === shard_id),
    )
    if (source === undefined || target === undefined) continue
    const replicate_shard = { shard_id, from_peer_id: source.peer_id, to_peer_id: target.peer_id }
    await call(0, 'POST', path, { replicate_shard })
    return
  }
}

/** As Prometheus does; a node that is away has no values. */
async function scrape(
  { urls }: RealSubject,
  samples: Sample[],
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const at = Date.now() / 1000
    const texts = await Promise.all(
      urls.map(async (url) => {
        const response = await fetch(`${url}/metrics`).catch(() => undefined)
        return response?.text()
      }),
    )
    for (const [ordinal, text] of texts.entries()) {
      const pod = `vec-books-${ordinal}`
      const target = `job="qdrant",namespace="${NAMESPACE}",pod="${pod}",instance="${pod}:6333"`
      if (text !== undefined) samples.push({ at, text, target })
    }
    await delay(EVERY_MS, undefined, { signal }).catch(() => undefined)
  }
}
