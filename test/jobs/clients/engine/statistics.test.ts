/** Counts of points, and numbers of writes, against the engine double. */
import t from 'tap'
import type { Test } from 'tap'
import { MAX_EXACT_POINTS } from '../../../../crds/contract/limits.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import {
  appliedWrites,
  countPoints,
  shardBytes,
  writeMarkers,
} from '../../../../jobs/clients/engine/statistics.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../../jobs/log.ts'
import type { EngineRequest } from '../../../doubles/engine/answers.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import type { Misbehaviour } from '../../../doubles/engine/misbehaviour.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'
import { ask } from '../../restore/collection-state.ts'
import { outlastsEngine, recordedEngine } from './engine-stage.ts'

const POINTS = 12
const JSON_TYPE = { 'content-type': 'application/json' }

/** Two nodes, and the collection `docs` of two shards with two copies each. */
async function started(t: Test) {
  const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const nodes = await Promise.all([0, 1].map((ordinal) => startEngineNode({ ordinal, cluster })))
  const connections = new EngineConnections()
  t.teardown(async () => {
    connections.close()
    await Promise.all(nodes.map((node) => node.close()))
  })
  const urls = nodes.map(({ port }) => `http://127.0.0.1:${port}`)
  cluster.createCollection('docs', 2, 2)
  const points = Array.from({ length: POINTS }, (_, id) => ({ id, vector: {} }))
  const [url = ''] = urls
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  const engines = urls.map((one) => {
    const log = jobLog({ LOG_LEVEL: 'ERROR' })
    return new Engine({
      transport: urlTransport(one, connections),
      log,
      credentials: async () => ({}),
    })
  })
  const [engine] = engines
  if (engine === undefined) throw new Error('there is no node')
  return { cluster, nodes, url, engine, engines }
}

function isCount({ path }: EngineRequest): boolean {
  return path.at(-1) === 'count'
}

function isExact({ body }: EngineRequest): boolean {
  return (body as { exact: boolean }).exact
}

function failure(status: number, error: string): Misbehaviour {
  return { status, body: JSON.stringify({ status: { error } }), headers: JSON_TYPE }
}

t.test('a small collection is counted exactly, in one call where its size is known', async (t) => {
  const { engine, nodes } = await started(t)
  const calls: EngineRequest[] = []
  nodes[0]?.misbehave((request) => {
    if (isCount(request)) calls.push(request)
    return undefined
  })
  const scope = { collection: 'docs', upperBound: POINTS }
  t.strictSame(await countPoints(engine, scope), { points: POINTS, isExact: true })
  t.strictSame(calls.map(isExact), [true])
  t.match(calls[0]?.query, { timeout: '30' }, 'the engine stops counting, too')
  t.strictSame(await countPoints(engine, { collection: 'docs' }), { points: POINTS, isExact: true })
  t.strictSame(calls.map(isExact), [true, false, true], 'an unknown size is asked for first')
})

t.test('the copy of a shard is counted on the node that is asked', async (t) => {
  const { engines, cluster } = await started(t)
  const [shard] = cluster.collections.get('docs')?.shards ?? []
  if (shard !== undefined) shard.lost = { 1: 2 }
  const scope = { collection: 'docs', shard: 0 }
  const counts = await Promise.all(engines.map((engine) => countPoints(engine, scope)))
  const [here, there] = counts.map(({ points }) => points ?? 0)
  t.equal(here, (there ?? 0) + 2)
  t.ok(counts.every((count) => count.isExact))
})

t.test('beyond the limit an estimate is the answer, and nothing is counted exactly', async (t) => {
  const { engine, nodes } = await started(t)
  const calls: boolean[] = []
  nodes[0]?.misbehave((request) => {
    if (!isCount(request)) return undefined
    calls.push(isExact(request))
    const body = JSON.stringify({ result: { count: MAX_EXACT_POINTS + 1 }, status: 'ok' })
    return { status: 200, body, headers: JSON_TYPE }
  })
  t.strictSame(await countPoints(engine, { collection: 'docs' }), {
    points: MAX_EXACT_POINTS + 1,
    isExact: false,
    reason: 'more than 5000000 points are not counted one by one',
  })
  t.strictSame(calls, [false])
})

t.test(
  'a count that the engine cancelled is not repeated: the estimate is the answer',
  async (t) => {
    const { engine, nodes } = await started(t)
    const calls: boolean[] = []
    nodes[0]?.misbehave((request) => {
      if (!isCount(request)) return undefined
      calls.push(isExact(request))
      return isExact(request)
        ? failure(408, "Timeout error: Operation 'Count' timed out")
        : undefined
    })
    t.strictSame(await countPoints(engine, { collection: 'docs', upperBound: 1 }), {
      points: POINTS,
      isExact: false,
      reason: 'no answer in 30 s',
    })
    t.strictSame(calls, [true, false])
  },
)

t.test('no count is made against strict mode, and a shorter timeout is respected', async (t) => {
  const { engine, url } = await started(t)
  const set = (strict: object) =>
    ask(url, 'PATCH', '/collections/docs', { strict_mode_config: { enabled: true, ...strict } })
  await set({ max_timeout: 5 })
  t.strictSame(await countPoints(engine, { collection: 'docs' }), { points: POINTS, isExact: true })
  await set({ search_allow_exact: false })
  t.match(await countPoints(engine, { collection: 'docs' }), {
    points: POINTS,
    isExact: false,
    reason: /^refused: Bad request: Exact search disabled/,
  })
})

t.test('a node that cannot be reached is an error, not a count', async (t) => {
  const { engine, nodes } = await started(t)
  nodes[0]?.misbehave(() => failure(503, 'Service unavailable'))
  await t.rejects(countPoints(engine, { collection: 'docs' }), { code: 'EngineError', status: 503 })
  nodes[0]?.misbehave((request) => (isCount(request) ? { status: 404, body: '' } : undefined))
  t.match(await countPoints(engine, { collection: 'docs', shard: 0 }), {
    isExact: false,
    reason: 'this engine does not count single shards',
  })
})

t.test('equal numbers of writes mean that nothing was written, on any copy', async (t) => {
  const { engines, engine, url } = await started(t)
  const numbers = () => Promise.all(engines.map((one) => appliedWrites(one, 'docs')))
  const before = await numbers()
  t.strictSame(before, [
    new Map([
      [0, 1],
      [1, 1],
    ]),
    new Map([
      [0, 1],
      [1, 1],
    ]),
  ])
  t.strictSame(await numbers(), before)
  // Deleted and inserted again: the count is the same.
  await ask(url, 'POST', '/collections/docs/points/delete?wait=true', { points: [3] })
  const points = [{ id: 3, vector: {} }]
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  const [first] = await numbers()
  t.strictSame([...(first?.values() ?? [])].sort(), [1, 3], 'only in the shard of that point')
  t.strictSame(await countPoints(engine, { collection: 'docs' }), { points: POINTS, isExact: true })
})

t.test('an engine that numbers no writes says nothing about them', async (t) => {
  const { engine, nodes } = await started(t)
  const local = { variant_name: 'local' }
  const collections = { collections: [{ id: 'docs', shards: [{ id: 0, key: null, local }] }] }
  const body = JSON.stringify({ result: { collections }, status: 'ok' })
  nodes[0]?.misbehave(() => ({ status: 200, body, headers: JSON_TYPE }))
  t.strictSame(await appliedWrites(engine, 'docs'), new Map())
  nodes[0]?.misbehave(() => failure(500, 'no'))
  t.strictSame(await appliedWrites(engine, 'docs'), new Map())
})

t.test('the size of a shard is estimated where the engine reports it', async (t) => {
  const sizes = { vectors_size_bytes: 100, payloads_size_bytes: 20, num_points: 3 }
  const { engine, calls } = recordedEngine({
    collections: {
      collections: [
        { id: 'none' },
        { id: 'unlisted', shards: null },
        {
          id: 'docs',
          shards: [
            { id: 0, local: sizes },
            { id: 1, local: { ...sizes, num_points: null } },
            { id: 2, local: { ...sizes, vectors_size_bytes: null } },
            { id: 3, local: { ...sizes, payloads_size_bytes: null } },
            { id: 4, local: null },
            { id: 5 },
          ],
        },
      ],
    },
  })
  t.strictSame(
    await shardBytes(engine),
    new Map([
      ['none', new Map()],
      ['unlisted', new Map()],
      [
        'docs',
        new Map([
          [0, 120 + 3 * 256],
          [1, 120],
        ]),
      ],
    ]),
  )
  t.match(calls[0]?.path, /^\/telemetry\?details_level=3&/, 'the first level with shards')
  t.ok(outlastsEngine(calls[0]), 'the engine gives up before the client')
  t.strictSame(await shardBytes(recordedEngine({ collections: {} }).engine), new Map())
  const malformed = recordedEngine({ collections: { collections: [{ shards: [] }] } })
  await t.rejects(shardBytes(malformed.engine), { code: 'EngineError', message: /\/id: / })
})

t.test('a replica whose writes are not all applied has no number of writes', async (t) => {
  const shard = (id: number, length: number, op_num: number | null) => ({
    id,
    local: { update_queue: { length, op_num } },
  })
  const shards = [shard(0, 0, 7), shard(1, 2, 9), shard(2, 0, null), { id: 3, local: null }]
  const { engine, calls } = recordedEngine({
    collections: {
      collections: [
        { id: 'other', shards: [shard(0, 0, 1)] },
        { id: 'docs', shards },
      ],
    },
  })
  t.strictSame(
    await appliedWrites(engine, 'docs'),
    new Map([
      [0, 7],
      [2, 0],
    ]),
  )
  t.ok(outlastsEngine(calls[0]), 'the engine gives up before the client')
  t.strictSame(await appliedWrites(engine, 'none'), new Map())
})

t.test('the number of a write counts only until its node is restarted', async (t) => {
  const shards = [{ id: 0, local: { update_queue: { length: 0, op_num: 7 } } }]
  const collections = { collections: [{ id: 'docs', shards }] }
  const markers = (app?: object) =>
    writeMarkers(recordedEngine({ ...(app && { app }), collections }).engine, 'docs')
  const first = await markers({ startup: '2026-03-01T10:00:00Z' })
  t.strictSame([...first.keys()], [0])
  t.strictSame(await markers({ startup: '2026-03-01T10:00:00Z' }), first)
  t.notSame(await markers({ startup: '2026-03-01T11:00:00Z' }), first)
  t.strictSame(await markers({ startup: null }), await markers())
})

t.test('an aborted count is no count, and ends with the reason', async (t) => {
  const { engine } = await started(t)
  const over = new Error('SIGTERM')
  const scope = { collection: 'docs', upperBound: 1 }
  await t.rejects(countPoints(engine, scope, AbortSignal.abort(over)), { message: /^SIGTERM$/ })
  await t.rejects(appliedWrites(engine, 'docs', AbortSignal.abort(over)), { message: /^SIGTERM$/ })
})
