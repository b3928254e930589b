/**
 * `migration run` between real engines, where ENGINE_BIN names one: from one node into one, and into
 * three, with a point-level oracle. What a double cannot promise is proved here.
 */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { CollectionInfo } from '../../../crds/engine/collections.ts'
import { systemClock, type Clock } from '../../../jobs/clock.ts'
import { bodyDifferences, recreateBody } from '../../../jobs/recreate-collection.ts'
import { realSubject, type RealSubject } from '../../contract/engine/real.ts'
import type { Service, Size } from '../../contract/engine/subject.ts'
import { matchWhole } from '../../match-whole.ts'
import { migrationWorld, type MigrationWorldOptions } from './migration-world.ts'
import {
  engineCalls,
  createCollection,
  manyPoints,
  mixedPoints,
  samePoints,
  type TestEngine,
  runToDone,
  zeroIfAbsent,
} from './engine-pair.ts'

const bin = process.env['ENGINE_BIN']
const MIB = 1024 * 1024

type Side = Pick<TestEngine, 'call' | 'points'> & { subject: RealSubject }

interface Options {
  size?: Size
  service?: Service
  spec?: MigrationWorldOptions['spec']
}

async function realStage(t: Test, { size = 'one', service = {}, spec }: Options = {}) {
  const [source, target] = await Promise.all([start(t, 'one', service), start(t, size, {})])
  const world = await migrationWorld(t, {
    source: source.subject.urls[0] ?? '',
    ports: target.subject.urls.map((url) => Number(new URL(url).port)),
    ...(spec !== undefined && { spec }),
  })
  return { source, target, world }
}

async function start(t: Test, size: Size, service: Service): Promise<Side> {
  const subject = await realSubject(bin ?? '', { size, service })
  t.teardown(() => subject.close())
  return { subject, ...engineCalls(subject.urls[0] ?? '', service.api_key) }
}

const UUID = '6f1c5a3e-0000-4000-8000-00000000000'

/** Every kind of id, number, text and vector there is. */
const EVERYTHING = `[
  {"id":0,"vector":{"text":[0.1,-2.5,3e-7],"many":[[1.0,2.0],[3.0,4.0]],"words":{"indices":[1,4294967295],"values":[0.25,-1.5]}},
   "payload":{"big":9007199254740993,"least":-9223372036854775808,"most":9223372036854775807,"one":1.0,"tiny":5e-324,"huge":1.7976931348623157e308}},
  {"id":18446744073709551615,"vector":{"text":[1,2,3]},"payload":{"é":{"😀":[null,true,{"\\u0000\\u001f\\"\\\\/":"\\ud83d\\ude00"}]}}},
  {"id":9007199254740993,"vector":{"many":[[0.5,1]]},"payload":{}},
  {"id":"${UUID}1","vector":{},"payload":{"text":"],\\"next_page_offset\\":null},\\"status\\":\\"ok\\""}},
  {"id":"${UUID}2","vector":{"words":{"indices":[],"values":[]}},"payload":{"next_page_offset":[7],"points":[]}}
]`
const KINDS = {
  vectors: {
    text: { size: 3, distance: 'Cosine' },
    many: { size: 2, distance: 'Dot', multivector_config: { comparator: 'max_sim' } },
  },
  sparse_vectors: { words: {} },
}

const QUANTIZED = { scalar: { type: 'int8', quantile: 0.99, always_ram: true } }

/** What a collection can be created with. */
const SETTINGS: Record<string, object> = {
  defaults: KINDS,
  unnamed: { vectors: { size: 4, distance: 'Dot', on_disk: true, datatype: 'float16' } },
  vectors: {
    vectors: {
      text: {
        ...{ size: 4, distance: 'Cosine', on_disk: false, datatype: 'uint8' },
        ...{ hnsw_config: { m: 8 }, quantization_config: QUANTIZED },
      },
    },
    sparse_vectors: {
      words: {
        ...{
          modifier: 'idf',
          index: { on_disk: true, full_scan_threshold: 7, datatype: 'float16' },
        },
      },
    },
  },
  all: {
    ...KINDS,
    ...{ sharding_method: 'custom', shard_number: 2, write_consistency_factor: 1 },
    ...{ on_disk_payload: false, metadata: { owner: 'a', nested: { empty: null } } },
    wal_config: { wal_capacity_mb: 4, wal_segments_ahead: 1 },
    hnsw_config: { m: 24, ef_construct: 50, on_disk: true, payload_m: 4, max_indexing_threads: 2 },
    optimizers_config: {
      ...{ deleted_threshold: 0.3, vacuum_min_vector_number: 2000, default_segment_number: 3 },
      ...{ max_segment_size: 50_000, memmap_threshold: 9000, indexing_threshold: 12_345 },
      ...{ flush_interval_sec: 9, max_optimization_threads: 1 },
    },
    quantization_config: { product: { compression: 'x16', always_ram: false } },
    strict_mode_config: {
      ...{ enabled: true, max_query_limit: 1000, unindexed_filtering_retrieve: false },
      ...{ multivector_config: { many: { max_vectors: 9 } } },
    },
  },
  binary: { vectors: { size: 4, distance: 'Dot' }, quantization_config: { binary: {} } },
}

async function configOf({ call }: Side, name: string): Promise<CollectionInfo> {
  return (await call('GET', `/collections/${name}`)) as CollectionInfo
}

function suite(): void {
  t.setTimeout(600_000)

  t.test('every id, number, text and vector arrives bit-equal', async (t) => {
    for (const size of ['one', 'three'] as const) {
      const { source, target, world } = await realStage(t, { size, spec: { batchSize: 2 } })
      await createCollection(source, 'docs', EVERYTHING, KINDS)
      await runToDone(t, world, { time: systemClock })
      const there = await target.points('docs')
      t.ok(samePoints(there, await source.points('docs')), `${size}: ${there}`)
      t.match(there, /"id":18446744073709551615/)
      t.match(there, /"big":9007199254740993/)
    }
  })

  t.test('a created collection has each value of the request that created it', async (t) => {
    const [source, target] = await Promise.all([start(t, 'one', {}), start(t, 'one', {})])
    for (const [what, body] of Object.entries(SETTINGS)) {
      await createCollection(source, what, [], body)
      const request = recreateBody((await configOf(source, what)).config)
      await createCollection(target, what, [], request)
      const { config } = await configOf(target, what)
      t.strictSame(bodyDifferences(request, config), [], what)
      const other = { ...request, hnsw_config: { m: 99 } }
      t.equal(bodyDifferences(other, config).length, 1, `${what}: a difference is found`)
    }
  })

  t.test('custom shard keys, indexes, read fan-out and strict mode come along', async (t) => {
    const { source, target, world } = await realStage(t, {
      size: 'three',
      spec: { batchSize: 7, target: { replicationFactor: 2 } },
    })
    const strict_mode_config = { enabled: true, max_query_limit: 1000, upsert_max_batchsize: 500 }
    const body = {
      ...KINDS,
      ...{ sharding_method: 'custom', shard_number: 1, strict_mode_config },
      ...{ hnsw_config: { m: 24 }, optimizers_config: { indexing_threshold: 12_345 } },
    }
    await createCollection(source, 'docs', [], body)
    for (const key of ['a', 7, '7']) {
      await source.call('PUT', '/collections/docs/shards', { shard_key: key, shards_number: 2 })
      const points = Array.from({ length: 25 }, (_, id) => ({
        id,
        vector: { text: [id, 1, 0.5] },
        payload: { key, id },
      }))
      await source.call('PUT', '/collections/docs/points?wait=true', { points, shard_key: key })
    }
    const index = {
      field_name: 'id',
      field_schema: { type: 'integer', lookup: true, range: false },
    }
    await source.call('PUT', '/collections/docs/index?wait=true', index)
    await source.call('PATCH', '/collections/docs', { params: { read_fan_out_factor: 2 } })
    await runToDone(t, world, { time: systemClock })
    for (const key of ['a', 7, '7']) {
      t.ok(samePoints(await readKey(target, key), await readKey(source, key)), String(key))
    }
    const [one, other] = await Promise.all([source, target].map(described))
    t.strictSame(other?.config, {
      ...one?.config,
      params: { ...one?.config.params, replication_factor: 2 },
    })
    t.strictSame(Object.keys(other?.payload_schema ?? {}), ['id'])
    matchWhole(t, (await world.result()).collections, [{ proof: /^75 points on both sides/ }])
  })

  t.test('an empty collection is created empty', async (t) => {
    const { source, target, world } = await realStage(t)
    await createCollection(source, 'docs', [], KINDS)
    const { code, log } = await world.run({ time: systemClock })
    t.equal(code, EXIT.done, log)
    t.equal(await target.points('docs'), '[]')
  })

  t.test('a dimension error is reported before the first batch', async (t) => {
    const { source, target, world } = await realStage(t)
    await createCollection(source, 'docs', manyPoints(3))
    await createCollection(target, 'docs', [], { vectors: { size: 4, distance: 'Dot' } })
    t.equal((await world.run({ time: systemClock })).code, EXIT.failed)
    t.match((await world.result()).error, /dimension error: the unnamed vector has size 2/)
    t.equal(await target.points('docs'), '[]')
  })

  t.test('a point of 30 MB is copied, with little ones around it', async (t) => {
    const { source, target, world } = await realStage(t, { spec: { batchSize: 10_000 } })
    await createCollection(source, 'docs', manyPoints(2_000))
    const payload = { text: 'x'.repeat(30 * MIB) }
    const big = [{ id: 1_000, vector: [1.5, 2.5], payload }]
    await source.call('PUT', '/collections/docs/points?wait=true', { points: big })
    const { code, log } = await world.run({ time: systemClock })
    t.equal(code, EXIT.done, log)
    t.ok(samePoints(await target.points('docs'), await source.points('docs')), 'every byte')
  })

  t.test('a read-only key of the source is enough', async (t) => {
    const service = { api_key: 'full', read_only_api_key: 'reader' }
    const { source, target, world } = await realStage(t, { service })
    await createCollection(source, 'docs', manyPoints(10))
    const url = source.subject.urls[0] ?? ''
    world.plan.source = { url, apiKey: 'token' }
    const refused = await world.run({ time: systemClock })
    t.equal(refused.code, EXIT.failed)
    t.match((await world.result()).error, /401: Must provide an API key/)
    world.credential('source-engine', 'token', 'reader')
    world.plan.run = 2
    await runToDone(t, world, { time: systemClock })
    t.ok(samePoints(await target.points('docs'), await source.points('docs')))
  })

  for (const side of ['source', 'target'] as const) {
    t.test(`a ${side} that is restarted midway is waited for`, async (t) => {
      const { source, target, world } = await realStage(t, { spec: { batchSize: 20 } })
      await createCollection(source, 'docs', manyPoints(10_000))
      const running = world.run({ time: pollingFaster })
      for (let copied = 0; copied < 500;) copied = await countOf(target)
      await { source, target }[side].subject.restart(0)
      const { code, log } = await running
      t.equal(code, EXIT.done, log)
      t.match(log, /waiting for the engine/)
      t.ok(samePoints(await target.points('docs'), await source.points('docs')), 'every byte')
    })
  }

  t.test('a killed Job continues in every range of ids, and the end is proved', async (t) => {
    for (const size of ['one', 'three'] as const) {
      const { source, target, world } = await realStage(t, { size, spec: { batchSize: 5 } })
      await createCollection(source, 'docs', mixedPoints(20_000))
      const first = world.start()
      let lanes: unknown[] | undefined
      while (lanes === undefined && first.child.exitCode === null)
        lanes = (await world.result()).position?.lanes
      first.child.kill('SIGKILL')
      await once(first.child, 'exit')
      t.ok((await countOf(target)) < 20_000, 'it was in the middle')
      t.equal(lanes?.length, 4, `${size}: of four ranges`)
      await runToDone(t, world, { time: pollingFaster, pod: 'pod-2' })
      t.ok(samePoints(await target.points('docs'), await source.points('docs')), 'every byte')
      t.match(await world.result(), { pointsCopied: 20_000 })
    }
  })
}

/** The wait for upserts that were not answered polls every five seconds: here they pass at once. */
let skippedMs = 0
const pollingFaster: Clock = {
  now: () => new Date(systemClock.now().getTime() + skippedMs),
  monotonicMs: () => systemClock.monotonicMs() + skippedMs,
  async sleep(ms, signal) {
    if (ms !== 5_000) return systemClock.sleep(ms, signal)
    signal?.throwIfAborted()
    skippedMs += ms
  },
}

function readKey(side: Side, key: string | number): Promise<string> {
  // As many as its strict mode lets us.
  return side.points('docs', key, 1000)
}

interface Described {
  config: { params: object }
  payload_schema: object
}

async function described({ call }: Side): Promise<Described> {
  return (await call('GET', '/collections/docs')) as Described
}

async function countOf({ call }: Side): Promise<number> {
  const counted = call('POST', '/collections/docs/points/count', { exact: true })
  return ((await counted.catch(zeroIfAbsent)) as { count: number }).count
}

if (bin === undefined) t.pass('ENGINE_BIN names no engine: nothing to examine', { skip: true })
else suite()
