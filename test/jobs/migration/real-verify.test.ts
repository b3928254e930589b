/**
 * The proof of `migration run` between real engines, where ENGINE_BIN names one: points that are deferred,
 * written, deleted or created during the copy, and vectors that the engine rounds.
 */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { matchWhole } from '../../match-whole.ts'
import { migrationWorld, type MigrationWorldOptions } from './migration-world.ts'
import {
  engineCalls,
  createCollection,
  manyPoints,
  samePoints,
  type TestEngine,
  runToDone,
  zeroIfAbsent,
} from './engine-pair.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const DIMENSIONS = 64
const POINTS = 8_000
const LOOK_MS = 20

if (bin === '') t.pass('ENGINE_BIN names no engine: nothing to examine', { skip: true })
else {
  t.setTimeout(900_000)
  suite()
}

type Side = Pick<TestEngine, 'call' | 'points'> & { url: string }

async function stage(t: Test, spec: MigrationWorldOptions['spec'] = {}) {
  const setting = { size: 'one', service: {} } as const
  const subjects = await Promise.all([realSubject(bin, setting), realSubject(bin, setting)])
  t.teardown(async () => {
    await Promise.all(subjects.map((subject) => subject.close()))
  })
  const [source, target] = subjects.map(({ urls: [url = ''] }) => ({ url, ...engineCalls(url) }))
  if (source === undefined || target === undefined) throw new Error('there are no two engines')
  const port = Number(new URL(target.url).port)
  return {
    source,
    target,
    world: await migrationWorld(t, { source: source.url, ports: [port], spec }),
  }
}

interface Info {
  points_count: number
  update_queue?: { deferred_points?: number }
}

async function infoOf({ call }: Side): Promise<Info> {
  return (await call('GET', '/collections/docs')) as Info
}

async function countOf({ call }: Side): Promise<number> {
  const counted = call('POST', '/collections/docs/points/count', { exact: true })
  return ((await counted.catch(zeroIfAbsent)) as { count: number }).count
}

async function equal(t: Test, { source, target }: Record<'source' | 'target', Side>) {
  t.ok(samePoints(await target.points('docs'), await source.points('docs')), 'every point')
}

/** Numbers from a generator of Lehmer's: the same at every run. */
function numbers(seed: number): () => number {
  let state = seed
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647 - 0.5
}

function vectors(count: number, dimensions: number, from = 1): object[] {
  const next = numbers(from)
  return Array.from({ length: count }, (_, n) => ({
    id: from + n,
    vector: Array.from({ length: dimensions }, next),
    payload: { n: from + n },
  }))
}

/** A source that does not index until its configuration changes: 200 points of each segment are visible. */
async function fillDeferring(source: Side): Promise<void> {
  await createCollection(source, 'docs', [], {
    vectors: { size: DIMENSIONS, distance: 'Cosine' },
    optimizers_config: {
      prevent_unoptimized: true,
      indexing_threshold: 50,
      max_optimization_threads: 0,
    },
  })
  for (let from = 1; from < POINTS; from += 1_000) {
    const points = vectors(1_000, DIMENSIONS, from)
    await source.call('PUT', '/collections/docs/points?wait=false', { points })
  }
  for (let info = await infoOf(source); info.points_count < POINTS;) info = await infoOf(source)
}

function optimize({ call }: Side, config: object): Promise<unknown> {
  return call('PATCH', '/collections/docs', { optimizers_config: config })
}

function suite(): void {
  t.test('deferred points are waited for, and all of them are copied', async (t) => {
    const scene = await stage(t)
    const { source, world } = scene
    await fillDeferring(source)
    const { points_count: counted, update_queue: queue } = await infoOf(source)
    const seen = await countOf(source)
    t.comment(`${counted} points, ${queue?.deferred_points} deferred, ${seen} seen`)
    t.ok(seen < POINTS, 'some are hidden')
    const running = world.run({ time: systemClock })
    for (let message = ''; !message.startsWith('waiting for');) {
      message = (await world.progress())?.message ?? ''
      await systemClock.sleep(LOOK_MS, new AbortController().signal)
    }
    await optimize(source, { max_optimization_threads: 'auto' })
    const { code, log } = await running
    t.equal(code, EXIT.done, log)
    t.equal(await countOf(scene.target), POINTS)
    await equal(t, scene)
    const { collections } = await world.result()
    matchWhole(t, collections, [{ proof: /^8000 points on both sides, each equal/ }])
    t.comment(collections?.[0]?.proof)
  })

  t.test('points that stay hidden once prevent_unoptimized is off are noticed', async (t) => {
    const { source, world } = await stage(t)
    await fillDeferring(source)
    await optimize(source, { prevent_unoptimized: false })
    const info = await infoOf(source)
    t.comment(`${JSON.stringify(info.update_queue)}, ${await countOf(source)} seen`)
    const isHidden = (await countOf(source)) < POINTS
    // Nothing is ever indexed here: who waits for it need not wait long.
    const sleep: typeof systemClock.sleep = (ms, signal) =>
      systemClock.sleep(Math.min(ms, LOOK_MS), signal)
    const { code, log } = await world.run({ time: { ...systemClock, sleep } })
    const { error } = await world.result()
    t.comment(error)
    t.equal(code, isHidden ? EXIT.failed : EXIT.done, log)
    if (isHidden) t.match(error, /^docs: the source counts about 8000 points and shows \d+/)
  })

  t.test('vectors that the engine normalised are equal once they are written again', async (t) => {
    const { source, world } = await stage(t)
    const cosine = { distance: 'Cosine' }
    await createCollection(source, 'docs', [], {
      vectors: {
        large: { size: 1536, ...cosine },
        half: { size: 48, ...cosine, datatype: 'float16' },
        byte: { size: 8, ...cosine, datatype: 'uint8' },
        many: { size: 16, ...cosine, multivector_config: { comparator: 'max_sim' } },
        plain: { size: 8, distance: 'Euclid', datatype: 'float16' },
      },
    })
    const next = numbers(7)
    const list = (size: number) => Array.from({ length: size }, next)
    for (let from = 0; from < 3_000; from += 100) {
      const points = Array.from({ length: 100 }, (_, n) => ({
        id: from + n,
        vector: {
          large: list(1536),
          half: list(48),
          byte: list(8).map((value) => Math.round((value + 0.5) * 255)),
          many: [list(16), list(16)],
          plain: list(8),
        },
      }))
      await source.call('PUT', '/collections/docs/points?wait=true', { points })
    }
    await runToDone(t, world, { time: systemClock })
    const { proof } = (await world.result()).collections?.[0] ?? {}
    t.match(proof, /^3000 points on both sides, each equal; compared whole from [^;]*$/)
    t.comment(proof)
  })

  t.test(
    'points written, and keys and collections created during the copy, are copied',
    async (t) => {
      const scene = await stage(t, { batchSize: 20 })
      const { source, target, world } = scene
      await createCollection(source, 'docs', manyPoints(20_000))
      const running = world.run({ time: systemClock })
      while ((await countOf(target)) < 2_000);
      for (let from = 1; from < 20_000; from += 4_000) {
        const points = manyPoints(50, from).map((point) => ({ ...point, payload: { newer: from } }))
        await source.call('PUT', '/collections/docs/points?wait=true', { points })
      }
      const points = manyPoints(100, 1_000_000)
      await source.call('PUT', '/collections/docs/points?wait=true', { points })
      await createCollection(source, 'keyed', [], {
        vectors: { size: 2, distance: 'Dot' },
        sharding_method: 'custom',
      })
      await source.call('PUT', '/collections/keyed/shards', { shard_key: 'tenant' })
      const body = { points: manyPoints(40), shard_key: 'tenant' }
      await source.call('PUT', '/collections/keyed/points?wait=true', body)
      const { code, log } = await running
      t.equal(code, EXIT.done, log)
      await equal(t, scene)
      t.equal(await target.points('keyed', 'tenant'), await source.points('keyed', 'tenant'))
      for (const { proof } of (await world.result()).collections ?? []) t.comment(proof)
    },
  )

  for (const [where, own] of [
    ['a target that was made', 0],
    ['one that had points before', 7],
  ] as const) {
    t.test(`points deleted during the copy stay on ${where}, and are reported`, async (t) => {
      const { source, target, world } = await stage(t, { batchSize: 20 })
      await createCollection(source, 'docs', manyPoints(20_000))
      if (own > 0) await createCollection(target, 'docs', manyPoints(own, 1_000_000))
      const running = world.run({ time: systemClock })
      while ((await countOf(target)) < 5_000);
      const copied = JSON.parse(await target.points('docs')) as { id: number }[]
      const gone = copied.slice(0, 3).map(({ id }) => id)
      await source.call('POST', '/collections/docs/points/delete?wait=true', { points: gone })
      t.equal((await running).code, EXIT.failed)
      const { error } = await world.result()
      t.match(
        error,
        `docs: 3 on the target only (${gone.join(', ')}); what was deleted on the source`,
      )
      t.comment(error)
    })
  }

  t.test(
    'into a collection that has points, those of the source are compared by their ids',
    async (t) => {
      const { source, target, world } = await stage(t)
      const kinds = {
        vectors: { text: { size: 2, distance: 'Dot' }, other: { size: 2, distance: 'Cosine' } },
        sparse_vectors: { words: {} },
      }
      const points = (count: number, from: number) =>
        Array.from({ length: count }, (_, n) => ({
          id: from + n,
          vector: {
            ...((from + n) % 3 > 0 && { text: [n, 1], other: [n, 2] }),
            ...((from + n) % 2 > 0 && { words: { indices: [7, 3], values: [0.5, n] } }),
          },
          payload: (from + n) % 5 > 0 ? { b: n, a: { d: 1, c: [] } } : {},
        }))
      await createCollection(source, 'docs', points(2_000, 1), kinds)
      await createCollection(target, 'docs', points(500, 1_800), kinds)
      await runToDone(t, world, { time: systemClock })
      const { proof } = (await world.result()).collections?.[0] ?? {}
      t.match(proof, /^2000 points of the source, each equal on the target; compared whole from/)
      t.notMatch(proof, /differed at first/)
      t.equal(await countOf(target), 2_299)
      t.comment(proof)
    },
  )
}
