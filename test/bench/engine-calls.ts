/** Calls of a bench to a real engine, and a collection with a given number of bytes. */
import { randomBytes } from 'node:crypto'
import { request } from 'undici'

/** Cannot be compressed; a point is a third more, in base64. */
const PAYLOAD_BYTES = 768 * 1024
const BATCH = 20

/** Points of `fill` whose snapshots have about a GiB together. */
export const POINTS_OF_A_GIB = 1024

/** What the engine answers as its result. */
export async function call(
  url: string,
  method: 'GET' | 'PUT' | 'POST' | 'DELETE',
  path: string,
  body?: object,
): Promise<unknown> {
  const { statusCode, body: answer } = await request(url + path, {
    method,
    headers: { 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
    // The engine closes a connection that is idle for five seconds, perhaps just when it is used.
    reset: true,
  })
  const said = await answer.text()
  if (statusCode >= 400) throw new Error(`${method} ${path} answered ${statusCode}: ${said}`)
  return (JSON.parse(said) as { result: unknown }).result
}

/** Makes a collection of so many points of a MiB each. */
export async function fill(
  url: string,
  collection: string,
  {
    points: count,
    ...config
  }: { points: number; shard_number?: number; replication_factor?: number },
): Promise<void> {
  const path = `/collections/${collection}`
  await call(url, 'PUT', `${path}?timeout=60`, {
    vectors: { size: 4, distance: 'Cosine' },
    ...config,
  })
  for (let from = 0; from < count; from += BATCH) {
    const points = Array.from({ length: Math.min(BATCH, count - from) }, (_, n) => ({
      ...{ id: from + n, vector: [from, n, 1, 2] },
      payload: { text: randomBytes(PAYLOAD_BYTES).toString('base64') },
    }))
    await call(url, 'PUT', `${path}/points?wait=true`, { points })
  }
}
