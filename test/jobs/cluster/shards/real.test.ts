/** `cluster shards` on the real engine, where ENGINE_BIN names it, while a client writes. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { systemClock } from '../../../../jobs/clock.ts'
import { realSubject, type RealSubject } from '../../../contract/engine/real.ts'
import { matchWhole } from '../../../match-whole.ts'
import { openCluster } from './shards-world.ts'

const bin = process.env['ENGINE_BIN']
const SHARDS = 4
const POINTS = 2000

interface Point {
  id: number
  payload: { seq: number }
  vector: number[]
}

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: no node to drain', { skip: true })
} else {
  t.setTimeout(300_000)
  t.test('a node is drained and removed while a client writes', { timeout: 300_000 }, async (t) => {
    const subject = await realSubject(bin, { size: 'three', service: {} })
    t.teardown(() => subject.close())
    const stopped = new Set<number>()
    const world = await openCluster(t, 3, {
      port: (ordinal) =>
        stopped.has(ordinal) ? undefined : Number(new URL(subject.urls[ordinal] ?? '').port),
      start: async () => true,
      async stop(ordinal) {
        stopped.add(ordinal)
        const pid = subject.pids[ordinal]
        if (pid !== undefined) process.kill(pid, 'SIGTERM')
      },
    })
    const body = {
      vectors: { size: 4, distance: 'Dot' },
      shard_number: SHARDS,
      replication_factor: 2,
    }
    await call(subject, 0, 'PUT', '/collections/docs?timeout=60', body)
    const all = Array.from({ length: POINTS }, (_, id) => point(id, 0))
    await call(subject, 0, 'PUT', '/collections/docs/points?wait=true', { points: all })

    const writer = startWriter(subject, new Map(all.map((each) => [each.id, 0])))
    const time = {
      ...systemClock,
      async sleep(ms: number, signal?: AbortSignal) {
        await world.settle()
        await systemClock.sleep(ms, signal)
      },
    }
    await world.setReplicas(2)
    const { code, log } = await world.run({ nodes: 2 }, { time })
    const { written, failures } = await writer.stop()
    t.equal(code, EXIT.done, log)
    t.comment(`${writer.count()} writes during the drain`)
    t.ok(writer.count() > 0)
    t.strictSame(failures, [])
    t.strictSame(await world.objects(), {
      replicas: 2,
      pods: ['vec-a-0', 'vec-a-1'],
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    })
    matchWhole(t, await world.progress(), { state: 'Done', shards: { moves: [], stepsLeft: 0 } })

    const expected = [...written].map(([id, seq]) => point(id, seq)).toSorted(byId)
    const copies = await Promise.all([0, 1].map((node) => pointsOn(subject, node)))
    for (const [node, points] of copies.entries()) {
      t.strictSame(points.toSorted(byId), expected, `the replicas on node ${node}`)
    }
    for (const node of [0, 1]) {
      const { peers, peer_id } = await call<{ peers: object; peer_id: number }>(
        ...([subject, node, 'GET', '/cluster'] as const),
      )
      t.equal(Object.keys(peers).length, 2)
      t.ok(String(peer_id) in peers)
    }
  })
}

/** A write is repeated if the engine is unavailable for a moment; any other failure is reported. */
function startWriter({ urls }: RealSubject, written: Map<number, number>) {
  const failures: string[] = []
  let [isStopped, count] = [false, 0]
  const loop = async () => {
    for (let seq = 1; !isStopped; seq += 1) {
      const points = Array.from({ length: 20 }, (_, index) => (seq * 7 + index * 97) % POINTS)
      const body = JSON.stringify({ points: points.map((id) => point(id, seq)) })
      // Node 0 stays: clients of a node that is removed lose their connection.
      const response = await fetch(`${urls[0] ?? ''}/collections/docs/points?wait=true`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body,
      })
      const text = await response.text()
      if (response.ok) for (const id of points) written.set(id, seq)
      else failures.push(`${response.status} ${text}`)
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
      return { written, failures }
    },
  }
}

function point(id: number, seq: number): Point {
  return { id, payload: { seq }, vector: [id, seq, 1, 2] }
}

/** Every point of every replica on one node, read from this node alone. */
async function pointsOn(subject: RealSubject, node: number): Promise<Point[]> {
  const points: Point[] = []
  for (let shard = 0; shard < SHARDS; shard += 1) {
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
  return points
}

function byId(a: Point, b: Point): number {
  return a.id - b.id
}

async function call<Result>(
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
