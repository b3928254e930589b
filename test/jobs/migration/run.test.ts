/** `migration run` without failures: points at the target, reports, and resuming after a kill. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { EXIT, JOB_ENV, encodePlan } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock, laterClock, runJob } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isUpsert,
  manyPoints,
  startEnginePair,
  type EnginePair,
  runToDone,
} from './engine-pair.ts'

/** Points no number of JavaScript could hold, nested Unicode, and words that look like the end of a page. */
const ODD = `[
  {"id":18446744073709551615,"vector":[0.1,2.5],"payload":{"big":9007199254740993,"least":-9223372036854775808}},
  {"id":"6f1c5a3e-0000-4000-8000-000000000001","vector":[1.5,2],"payload":{"one":1.0,"é":{"😀":[null,{"a":"\\u0000"}]}}},
  {"id":7,"vector":[1.5,2],"payload":{"text":"],\\"next_page_offset\\":null},\\"status\\":\\"ok\\"","next_page_offset":[7]}}
]`

t.test('64-bit ids, UUIDs and every number arrive as they were', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 2 } })
  await createCollection(source, 'docs', ODD)
  await runToDone(t, world)
  t.equal(await target.points('docs'), await source.points('docs'))
  for (const digits of ['18446744073709551615', '9007199254740993', '-9223372036854775808'])
    t.match(await target.points('docs'), digits)
  t.match(await world.progress(), { state: 'Done', message: 'Copied 1/1' })
  const { collections: [{ proof, ...rest } = {}] = [] } = await world.result()
  t.strictSame(rest, {
    name: 'docs',
    targetName: 'docs',
    status: 'Completed',
    pointsTotal: 3,
    pointsCopied: 3,
  })
  const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
  const cost = String.raw`\(1 MB in \d+ s\)`
  t.match(
    proof,
    new RegExp(
      `^3 points on both sides, each equal; compared whole from ${time} to ${time} ${cost}$`,
    ),
  )
})

t.test('collections: default all of the source, each under its mapped name', async (t) => {
  const { source, target, world } = await startEnginePair(t, {
    spec: { collectionMapping: { b: 'c d%' } },
  })
  await createCollection(source, 'a', manyPoints(3))
  await createCollection(source, 'b', manyPoints(2))
  await createCollection(source, 'empty', [])
  source.engine.aliases.set('live', 'a')
  const log = await runToDone(t, world)
  t.strictSame([...target.engine.collections.keys()].sort(), ['a', 'c d%', 'empty'])
  t.equal(target.engine.aliases.size, 0)
  t.match(await world.result(), { total: 3, completed: 3, pointsTotal: 5, pointsCopied: 5 })
  t.match(log, /collection empty: 0 points on both sides, each equal; compared whole/)
})

t.test('a missing collection is created from the configuration of the source', async (t) => {
  const spec = { target: { shardNumber: 3, replicationFactor: 2 } }
  const { source, target, world } = await startEnginePair(t, { spec })
  const body = {
    vectors: { title: { size: 2, distance: 'Cosine', on_disk: true, hnsw_config: { m: 8 } } },
    sparse_vectors: { words: { modifier: 'idf' } },
    shard_number: 1,
    on_disk_payload: false,
    hnsw_config: { ef_construct: 200 },
    optimizers_config: { indexing_threshold: 0 },
    wal_config: { wal_capacity_mb: 8 },
    quantization_config: { scalar: { type: 'int8' } },
    strict_mode_config: { enabled: true, max_query_limit: 4, upsert_max_batchsize: 4 },
    metadata: { owner: 'us' },
  }
  const points = [{ id: 1, vector: { title: [0.6, 0.8], words: { indices: [3], values: [0.5] } } }]
  await createCollection(source, 'docs', points, body)
  await source.call('PATCH', '/collections/docs', { params: { read_fan_out_factor: 2 } })
  const index = { field_name: 'n', field_schema: { type: 'integer', lookup: false, range: true } }
  await source.call('PUT', '/collections/docs/index', index)
  await source.call('PUT', '/collections/docs/index', {
    field_name: 'tag',
    field_schema: 'keyword',
  })
  await runToDone(t, world)
  const [made, like] = [target, source].map(({ engine }) => engine.find('docs'))
  t.strictSame(made?.config, {
    ...like?.config,
    params: {
      ...like?.config.params,
      shard_number: 3,
      replication_factor: 2,
    },
  })
  t.strictSame(Object.keys(made?.payloadSchema ?? {}), ['n', 'tag'])
  t.strictSame(made?.points, like?.points)
})

/** As a user has written them; JavaScript would change each. */
const EXACT_SETTINGS = {
  metadata: '{"id":9007199254740993,"ratio":1.0,"nested":[{"least":-9223372036854775808}]}',
  limit: '18446744073709551615',
}

t.test('every number in the configuration of a missing collection is the same', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  const { metadata, limit } = EXACT_SETTINGS
  await source.call(
    'PUT',
    '/collections/docs',
    `{"vectors":{"size":2,"distance":"Dot"},"metadata":${metadata},"strict_mode_config":{"max_points_count":${limit}}}`,
  )
  await runToDone(t, world)
  const response = await fetch(`${target.url}/collections/docs`)
  const text = await response.text()
  t.ok(text.includes(`"metadata":${metadata}`), text)
  t.ok(text.includes(`"max_points_count":${limit}`), text)
})

async function withKeys(source: EnginePair['source']): Promise<void> {
  await createCollection(source, 'docs', [], {
    ...SMALL,
    sharding_method: 'custom',
    shard_number: 1,
  })
  for (const [key, shards] of [['b', 2] as const, [7, 1] as const, ['empty', 1] as const]) {
    const body = { shard_key: key, shards_number: shards }
    await source.call('PUT', '/collections/docs/shards', body)
  }
  const write = (key: string | number, points: object[]) =>
    source.call('PUT', '/collections/docs/points', { points, shard_key: key })
  await write('b', manyPoints(5))
  await write(7, manyPoints(3, 4))
}

t.test('points are grouped by shard key, also where one id is under several', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 2 } })
  await withKeys(source)
  await runToDone(t, world)
  for (const key of ['b', 7]) {
    t.equal(await target.points('docs', key), await source.points('docs', key))
  }
  t.strictSame(
    target.engine.find('docs')?.shards.map(({ key }) => key),
    [7, 'b', 'b', 'empty'],
  )
  matchWhole(t, await world.result(), {
    pointsCopied: 8,
    collections: [{ proof: /^8 points on both sides, each equal/ }],
  })
})

t.test(
  'a shard key is created with the shards and the replication factor of the target',
  async (t) => {
    const spec = { target: { shardNumber: 3, replicationFactor: 2 } }
    const { source, target, world } = await startEnginePair(t, { spec })
    await withKeys(source)
    const created: unknown[] = []
    target.node.misbehave(({ method, path, body }) => {
      if (method === 'PUT' && path[2] === 'shards') created.push(body)
      return undefined
    })
    await runToDone(t, world)
    t.strictSame(
      created,
      [7, 'b', 'empty'].map((key) => ({ shard_key: key, shards_number: 3, replication_factor: 2 })),
    )
  },
)

t.test('a missing shard key gets as many replicas as its collection at the target', async (t) => {
  const { source, target, world } = await startEnginePair(t, { otherTargetNodes: 1 })
  await withKeys(source)
  const replicated = { sharding_method: 'custom', shard_number: 1, replication_factor: 2 }
  await createCollection(target, 'docs', [], { ...SMALL, ...replicated })
  await runToDone(t, world)
  const shards = target.engine.find('docs')?.shards ?? []
  t.strictSame(
    shards.map(({ key, peers }) => [key, peers.length]),
    [
      [7, 2],
      ['b', 2],
      ['b', 2],
      ['empty', 2],
    ],
  )
})

t.test('pages of batchSize points, read ahead, are written by two upserts at once', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 50 } })
  await createCollection(source, 'docs', manyPoints(500))
  let writing = 0
  let most = 0
  let readMeanwhile = false
  target.node.misbehave((request) => {
    if (!isUpsert(request)) return undefined
    most = Math.max(most, (writing += 1))
    // Over before it is answered: the next one may come at once.
    return { until: sleep(25).then(() => (writing -= 1)) }
  })
  source.node.misbehave(({ path }) => {
    if (path[3] !== 'scroll') return undefined
    setTimeout(() => (readMeanwhile ||= writing === 2), 5)
    return { delayMs: 10 }
  })
  await runToDone(t, world)
  t.equal(most, 2)
  t.ok(readMeanwhile)
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test(
  'progress is written every 20 batches, but not more often than every few seconds',
  async (t) => {
    const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 1 } })
    await createCollection(source, 'docs', manyPoints(100))
    let upserts = 0
    target.node.misbehave((request) => {
      upserts += isUpsert(request) ? 1 : 0
      return undefined
    })
    // A second for each upsert.
    const time = laterClock(() => 1000 * upserts)
    const log = await runToDone(t, world, { time })
    const patches = log.split('\n').filter((line) => /api call method=PATCH/.test(line)).length
    t.ok(patches > 5 && patches < 16, `${patches} reports`)
    t.match(log, /collection 1 of 1 \(docs\): \d+ of 100 points, \d+ points\/s/)
  },
)

t.test('a killed Job resumes from its report, and copies the rest once', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 10 } })
  await createCollection(source, 'a', manyPoints(20))
  await createCollection(source, 'docs', manyPoints(400))
  const stop = new AbortController()
  let upserts = 0
  let points = 0
  target.node.misbehave((request) => {
    if (!isUpsert(request)) return undefined
    upserts += 1
    points += (request.body as { points: unknown[] }).points.length
    if (upserts === 40) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  const time = laterClock(() => 1000 * upserts)
  const killed = await world.run({ time, signal: stop.signal })
  t.equal(killed.code, EXIT.crash, killed.log)
  const stood = (await world.result()).position
  t.match(stood, { collection: 'docs', isOurs: true, before: 0 })
  t.ok((stood?.copied ?? 0) > 100, 'it stood in the middle')
  points = 0
  await runToDone(t, world, { pod: 'pod-2' })
  t.equal(points, 400 - (stood?.copied ?? 0), 'the rest is copied once')
  t.equal(await target.points('docs'), await source.points('docs'))
  matchWhole(t, await world.result(), {
    completed: 2,
    pointsCopied: 420,
    collections: [
      { name: 'a', status: 'Completed' },
      { name: 'docs', status: 'Completed' },
    ],
  })
})

t.test(
  'a pod that was replaced while it was frozen writes nothing over newer points',
  async (t) => {
    const { source, target, world } = await startEnginePair(t)
    await createCollection(source, 'docs', manyPoints(40))
    const reached = Promise.withResolvers<undefined>()
    const released = Promise.withResolvers<undefined>()
    let scrolls = 0
    source.node.misbehave(({ path }) => {
      if (path.at(-1) !== 'scroll' || (scrolls += 1) !== 2) return undefined
      reached.resolve(undefined)
      return { until: released.promise }
    })
    const clock = instantClock()
    let frozenMs = 0
    const time = { ...clock, now: () => new Date(clock.now().getTime() + frozenMs) }
    const first = world.run({ pod: 'pod-1', time })
    await reached.promise
    await runToDone(t, world, { pod: 'pod-2' })
    const newer = { points: [{ id: 30, vector: [9, 9], payload: { by: 'a client' } }] }
    await target.call('PUT', '/collections/docs/points?wait=true', newer)
    const before = await target.points('docs')
    frozenMs = 120_000
    released.resolve(undefined)
    const { code, log } = await first
    t.equal(code, EXIT.crash)
    t.match(log, /pod pod-2 works on this run: this pod stops/)
    t.equal(await target.points('docs'), before)
  },
)

t.test('a pod that finds its run ended does nothing', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(1))
  t.equal((await world.run()).code, EXIT.done)
  target.engine.removeCollection('docs')
  t.equal((await world.run({ pod: 'pod-2' })).code, EXIT.done)
  t.equal(target.engine.collections.size, 0)
})

t.test('points are merged into a collection that fits and has some already', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(5))
  await createCollection(target, 'docs', manyPoints(4, 4))
  await runToDone(t, world)
  matchWhole(t, (await world.result()).collections, [
    {
      proof:
        /^5 points of the source, each equal on the target; compared whole .*; the target had about 4 points before, and what else it has was not compared$/,
    },
  ])
})

t.test('API key and CA of the source are those of its own Secrets', async (t) => {
  const config = { service: { api_key: 'full', read_only_api_key: 'read' } }
  const { source, target, world } = await startEnginePair(t, {
    sourceConfig: config,
    targetConfig: { service: { api_key: 'other' } },
  })
  await createCollection(source, 'docs', manyPoints(2))
  world.credential('source-engine', 'token', 'read')
  world.credential('engine', 'api-key', 'other')
  const plan = { ...world.plan, source: { url: source.url, apiKey: 'token' } }
  const env = { ...world.env, [JOB_ENV.plan]: encodePlan(plan, 'spec') }
  const { code, log } = await runJob(['migration', 'run', 'ns/m'], env)
  t.equal(code, EXIT.done, log)
  t.equal(await target.points('docs'), await source.points('docs'))
})
