/** A real engine of three nodes behind the pods of a VecCluster, and a client that writes to a collection. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { systemClock } from '../../../../jobs/clock.ts'
import { realSubject, type RealSubject } from '../../../contract/engine/real.ts'
import { openCluster } from './shards-world.ts'

export const NODES = 3
export const POINTS = 2000
const WRITE_ATTEMPTS = 4

export interface Point {
  id: number
  payload: { seq: number }
  vector: number[]
}

interface RealClusterOptions {
  resharding?: boolean
  /** A folder for what each node stores, by ordinal. */
  volumes?: string[]
  /** Called whenever the command waits. */
  onSleep?: () => Promise<unknown>
}

/** A node that Kubernetes stops stays away. */
export async function openRealCluster(
  t: Test,
  bin: string,
  { resharding = false, volumes, onSleep }: RealClusterOptions = {},
) {
  const where = volumes === undefined ? {} : { volumes }
  const subject = await realSubject(bin, { size: 'three', service: {}, resharding }, where)
  t.teardown(() => subject.close())
  const stopped = new Set<number>()
  const world = await openCluster(t, NODES, {
    port: (ordinal) =>
      stopped.has(ordinal) ? undefined : Number(new URL(subject.urls[ordinal] ?? '').port),
    start: async () => true,
    async stop(ordinal) {
      stopped.add(ordinal)
      const pid = subject.pids[ordinal]
      if (pid !== undefined) process.kill(pid, 'SIGTERM')
    },
  })
  // Calls to several nodes may wait at the same time.
  let waits = Promise.resolve()
  const settle = async () => {
    await world.settle()
    await onSleep?.()
  }
  const time = {
    ...systemClock,
    async sleep(ms: number, signal?: AbortSignal) {
      waits = waits.then(settle)
      await waits
      await systemClock.sleep(ms, signal)
    },
  }
  return { subject, world, time }
}

/** The collection docs with two replicas of each shard, and its points. */
export async function createDocs(subject: RealSubject, shards: number): Promise<Point[]> {
  const body = {
    vectors: { size: 4, distance: 'Dot' },
    shard_number: shards,
    replication_factor: 2,
  }
  await call(subject, 0, 'PUT', '/collections/docs?timeout=60', body)
  const points = Array.from({ length: POINTS }, (_, id) => point(id, 0))
  await call(subject, 0, 'PUT', '/collections/docs/points?wait=true', { points })
  return points
}

/**
 * Writes through node 0 until it is stopped, and reports each failure. A write that failed may have been
 * applied to a part of the replicas: as a client does, it is repeated, up to three times.
 */
export function startWriter({ urls }: RealSubject, points: Point[]) {
  const written = new Map(points.map(({ id }) => [id, 0]))
  const failures: string[] = []
  let [isStopped, count] = [false, 0]
  const loop = async () => {
    for (let seq = 1; !isStopped; seq += 1) {
      const points = Array.from({ length: 20 }, (_, index) => (seq * 7 + index * 97) % POINTS)
      const body = JSON.stringify({ points: points.map((id) => point(id, seq)) })
      for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt += 1) {
        // Node 0 stays: clients of a node that is removed lose their connection.
        const response = await fetch(`${urls[0] ?? ''}/collections/docs/points?wait=true`, {
          method: 'PUT',
          headers: { 'content-type': 'application/json' },
          body,
        })
        const text = await response.text()
        if (response.ok) {
          for (const id of points) written.set(id, seq)
          break
        }
        failures.push(`attempt ${attempt}: ${response.status} ${text}`)
      }
      count += 1
      await delay(5)
    }
  }
  const running = loop()
  return {
    count: () => count,
    async stop() {
      isStopped = true
      await running
      const expected = [...written].map(([id, seq]) => point(id, seq)).toSorted(byId)
      return { expected, failures }
    },
  }
}

function point(id: number, seq: number): Point {
  return { id, payload: { seq }, vector: [id, seq, 1, 2] }
}

/** Every point of the replicas of these shards on one node, by id, read from this node alone. */
export async function pointsOn(
  subject: RealSubject,
  node: number,
  shards: number[],
): Promise<Point[]> {
  const points: Point[] = []
  for (const shard of shards) {
    const path = `/collections/docs/shards/${shard}/points/scroll`
    const page = { limit: POINTS + 1, with_payload: true, with_vector: true }
    const result = await call<{ points: Point[] }>(subject, node, 'POST', path, page)
    points.push(
      ...result.points.map(({ id, payload, vector }) => ({
        id,
        payload: { seq: payload.seq },
        vector,
      })),
    )
  }
  return points.toSorted(byId)
}

function byId(a: Point, b: Point): number {
  return a.id - b.id
}

export async function call<Result>(
  { urls }: RealSubject,
  node: number,
  method: string,
  path: string,
  body?: object,
): Promise<Result> {
  const response = await fetch(`${urls[node] ?? ''}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const { result, status } = (await response.json()) as { result: Result; status: unknown }
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(status)}`)
  return result
}
