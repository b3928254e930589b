/** `migration run` with failures: every message of the specification from its cause, and nothing said done that is not. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import {
  HTML,
  TOO_MANY,
  UNAVAILABLE,
  type Misbehaviour,
} from '../../doubles/engine/misbehaviour.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock, laterClock } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isScroll,
  isUpsert,
  manyPoints,
  startEnginePair,
  type EnginePair,
  runToDone,
} from './engine-pair.ts'

/** What passes: the migration is whole in the end. */
const PASSING: [string, (count: number) => Misbehaviour | undefined][] = [
  ['is restarted', (count) => (count % 3 === 1 ? { cut: 'before' } : undefined)],
  ['loses its answers', (count) => (count % 3 === 1 ? { cut: 'after' } : undefined)],
  ['breaks off within an answer', (count) => (count % 3 === 1 ? { cut: 'within' } : undefined)],
  ['is busy', (count) => (count % 3 === 1 ? UNAVAILABLE : undefined)],
  ['limits its rate', (count) => (count % 3 === 1 ? TOO_MANY : undefined)],
  ['stands behind a gateway with bad days', (count) => (count % 3 === 1 ? HTML : undefined)],
]
for (const [what, misbehave] of PASSING) {
  for (const side of ['source', 'target'] as const) {
    t.test(`a ${side} that ${what} slows the migration down instead of failing it`, async (t) => {
      const scene = await startEnginePair(t, { spec: { batchSize: 10 } })
      await createCollection(scene.source, 'docs', manyPoints(100))
      let count = 0
      const isMeant = side === 'source' ? isScroll : isUpsert
      scene[side].node.misbehave((request) =>
        isMeant(request) ? misbehave((count += 1)) : undefined,
      )
      const log = await runToDone(t, scene.world, { time: instantClock() })
      scene[side].node.misbehave()
      t.equal(await scene.target.points('docs'), await scene.source.points('docs'))
      t.match(log, /waiting for the engine/)
    })
  }
}

t.test('Retry-After of a rate limit is respected', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(4))
  let count = 0
  target.node.misbehave((request) =>
    isUpsert(request) && (count += 1) === 1 ? TOO_MANY : undefined,
  )
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done)
  t.match(log, /waiting for the engine reason=.*seconds=60/)
})

t.test('pages and batches respect the strict mode of both engines', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 100 } })
  const strict = (fields: object) => ({
    ...SMALL,
    strict_mode_config: { enabled: true, ...fields },
  })
  await createCollection(source, 'docs', manyPoints(5), strict({ max_query_limit: 5 }))
  const more = manyPoints(30, 6)
  await source.call('PUT', '/collections/docs/points', { points: more })
  await createCollection(target, 'docs', [], strict({ upsert_max_batchsize: 3 }))
  const log = await runToDone(t, world)
  t.equal(target.engine.find('docs')?.points.length, 35)
  t.notMatch(log, /Limit exceeded/)
})

t.test('a batch above the whole rate is written in halves', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(40))
  const strict = { enabled: true, write_rate_limit: 10_000 }
  await createCollection(target, 'docs', [], { ...SMALL, strict_mode_config: strict })
  const refused =
    '{"status":{"error":"Rate limiting exceeded: Write rate limit exceeded, request larger than rate limiter capacity, please try to split your request"},"time":0}'
  let rejections = 0
  target.node.misbehave((request) => {
    // A single point cannot be halved, and lanes write in any order: which batch comes when is open.
    const { points = [] } = (request.body ?? {}) as { points?: unknown[] }
    if (!isUpsert(request) || points.length < 2 || rejections > 0) return undefined
    rejections += 1
    return { status: 429, body: refused, headers: { 'content-type': 'application/json' } }
  })
  await runToDone(t, world, { time: instantClock() })
  t.equal(rejections, 1)
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test('no exact count is requested: it takes memory for every id', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  const strict = { enabled: true, search_allow_exact: false, max_query_limit: 7 }
  await createCollection(source, 'docs', manyPoints(7), { ...SMALL, strict_mode_config: strict })
  await source.call('PUT', '/collections/docs/points', { points: manyPoints(20, 8) })
  await createCollection(target, 'docs', manyPoints(3))
  const counts: string[] = []
  for (const { node } of [source, target]) {
    node.misbehave(({ path }) => {
      if (path[3] === 'count') counts.push(path.join('/'))
      return undefined
    })
  }
  await runToDone(t, world)
  t.strictSame(counts, [])
  await source.call('POST', '/collections/docs/points/count', { exact: false })
  t.strictSame(counts, ['collections/docs/points/count'], 'a call that counts')
  matchWhole(t, (await world.result()).collections, [
    { proof: /^27 points of the source, each equal on the target; .* had about 3 points before/ },
  ])
})

const MIB = 1024 * 1024

t.test('points of any size are copied, in batches bounded by bytes', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 1000 } })
  await createCollection(source, 'docs', manyPoints(200))
  for (const id of [50, 51, 52, 150]) {
    const payload = { text: 'x'.repeat((id === 150 ? 30 : 9) * MIB) }
    await source.call('PUT', '/collections/docs/points', {
      points: [{ id, vector: [1.5, 2.5], payload }],
    })
  }
  const { code } = await world.run()
  t.equal(code, EXIT.done)
  t.ok((await target.points('docs')) === (await source.points('docs')), 'every byte')
})

t.test('a collection is created once, also when the answer to its creation is lost', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(3))
  let creations = 0
  target.node.misbehave(({ method, path }) => {
    if (method !== 'PUT' || path.length !== 2) return undefined
    creations += 1
    return creations === 1 ? { cut: 'after' } : undefined
  })
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.equal(creations, 2)
  t.ok((await target.points('docs')) === (await source.points('docs')), 'every byte')
})

t.test('a shard key is created once, also when the answer to its creation is lost', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', [], { ...SMALL, sharding_method: 'custom' })
  await source.call('PUT', '/collections/docs/shards', { shard_key: 'a' })
  await source.call('PUT', '/collections/docs/points', { points: manyPoints(3), shard_key: 'a' })
  let creations = 0
  target.node.misbehave(({ method, path }) => {
    if (method !== 'PUT' || path[2] !== 'shards') return undefined
    creations += 1
    return creations === 1 ? { cut: 'after' } : undefined
  })
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.equal(creations, 2)
  t.ok((await target.points('docs', 'a')) === (await source.points('docs', 'a')), 'every byte')
})

t.test('a point that the target does not take fails its collection with its id', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', [
    ...manyPoints(3),
    { id: 77, vector: [1.5, 2], payload: { big: 1 } },
  ])
  const words = 'JSON payload (35651639 bytes) is larger than allowed (limit: 33554432 bytes).'
  target.node.misbehave((request) => {
    return isUpsert(request)
      ? { status: 400, body: JSON.stringify({ status: { error: words }, time: 0 }) }
      : undefined
  })
  t.equal((await world.run()).code, EXIT.failed)
  t.match(
    (await world.result()).error,
    /^docs: the point 1 has \d+ bytes, more than the target takes/,
  )
})

for (const side of ['source', 'target'] as const) {
  t.test(
    `a collection that is deleted at the ${side} meanwhile fails at once, and alone`,
    async (t) => {
      const scene = await startEnginePair(t, { spec: { batchSize: 10 } })
      const { source, world } = scene
      await createCollection(source, 'docs', manyPoints(60))
      await createCollection(source, 'other', manyPoints(5))
      let pages = 0
      source.node.misbehave((request) => {
        if (isScroll(request) && (pages += 1) === 3) scene[side].engine.removeCollection('docs')
        return undefined
      })
      const { code, log } = await world.run({ time: instantClock() })
      t.equal(code, EXIT.failed)
      t.match(await world.result(), {
        completed: 1,
        error: `docs: collection docs was deleted at the ${side} during the migration`,
      })
      t.notMatch(log, /waiting for the engine/)
    },
  )
}

for (const side of ['source', 'target'] as const) {
  t.test(`a shard key that is deleted at the ${side} meanwhile is named`, async (t) => {
    const scene = await startEnginePair(t, { spec: { batchSize: 10 } })
    const { source, world } = scene
    await createCollection(source, 'docs', [], {
      ...SMALL,
      ...{ sharding_method: 'custom', shard_number: 1 },
    })
    for (const shard_key of ['a', 'b']) {
      await source.call('PUT', '/collections/docs/shards', { shard_key })
      const body = { points: manyPoints(60), shard_key }
      await source.call('PUT', '/collections/docs/points', body)
    }
    await createCollection(source, 'other', manyPoints(5))
    let pages = 0
    source.node.misbehave((request) => {
      const docs = scene[side].engine.find('docs')
      if (isScroll(request) && (pages += 1) === 3 && docs !== undefined)
        docs.shards = docs.shards.filter(({ key }) => key !== 'b')
      return undefined
    })
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    t.match(await world.result(), {
      completed: 1,
      error: `docs: shard key "b" was deleted at the ${side} during the migration`,
    })
  })
}

for (const collections of [undefined, ['docs', 'other']]) {
  const which = collections === undefined ? 'of all' : 'that is named'
  t.test(`a collection ${which}, deleted while no pod was at work, is not forgotten`, async (t) => {
    const spec = { batchSize: 10, ...(collections !== undefined && { collections }) }
    const { source, target, world } = await startEnginePair(t, { spec })
    await createCollection(source, 'docs', manyPoints(60))
    await createCollection(source, 'other', manyPoints(5))
    const stop = new AbortController()
    target.node.misbehave((request) => {
      if (isUpsert(request)) stop.abort(new Error('SIGTERM'))
      return undefined
    })
    t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
    target.node.misbehave()
    source.engine.removeCollection('docs')
    t.equal((await world.run({ pod: 'pod-2' })).code, EXIT.failed)
    t.match(await world.result(), {
      ...{ total: 2, completed: 1, failed: 1 },
      error: 'docs: collection docs was deleted at the source during the migration',
    })
  })
}

t.test(
  'a copied collection that is gone from the target at the end is not Completed',
  async (t) => {
    const { source, target, world } = await startEnginePair(t)
    await createCollection(source, 'docs', manyPoints(5))
    await createCollection(source, 'other', manyPoints(5))
    target.node.misbehave((request) => {
      if (isUpsert(request) && request.path.includes('other'))
        target.engine.removeCollection('docs')
      return undefined
    })
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    t.match(await world.result(), {
      ...{ completed: 1, failed: 1 },
      error: 'docs: collection docs was deleted at the target during the migration',
    })
  },
)

t.test(
  'without uuids, a copied collection that was deleted and created again, empty, is not Completed',
  async (t) => {
    const { source, target, world } = await startEnginePair(t, { isTargetStandalone: true })
    for (const name of ['cleared', 'docs', 'other']) {
      await createCollection(source, name, manyPoints(5))
    }
    await createCollection(source, 'empty', [])
    const empty = async (side: typeof source, name: string) => {
      side.engine.removeCollection(name)
      await createCollection(side, name, [])
    }
    const recreate = async () => {
      await empty(target, 'docs')
      // Both sides are equal.
      await empty(source, 'cleared')
      await empty(target, 'cleared')
    }
    target.node.misbehave((request) =>
      isUpsert(request) && request.path.includes('other') ? { until: recreate() } : undefined,
    )
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    t.match(await world.result(), {
      ...{ completed: 3, failed: 1 },
      error:
        'docs: collection docs was deleted at the target during the migration, or emptied: it has no points any more',
    })
  },
)

t.test('a source that stays away fails its collections within bounds', async (t) => {
  const { source, world } = await startEnginePair(t)
  for (const name of ['a', 'b', 'c']) await createCollection(source, name, manyPoints(3))
  source.node.misbehave((request) => (isScroll(request) ? { cut: 'before' } : undefined))
  let slept = 0
  const time = instantClock(() => (slept += 1))
  t.equal((await world.run({ time })).code, EXIT.failed)
  t.match(await world.result(), { failed: 3, error: /^a: POST .*points\/scroll.* got no answer/ })
  t.ok(slept < 200, `${slept} pauses`)
})

t.test('a full disk of the target fails without a wait', async (t) => {
  const { source, target, world }: EnginePair = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(3))
  const error =
    'Service internal error: No space left on device: WAL buffer size exceeds available disk space'
  target.node.misbehave((request) =>
    isUpsert(request)
      ? { status: 500, body: JSON.stringify({ status: { error }, time: 0 }) }
      : undefined,
  )
  const { code, log } = await world.run()
  t.equal(code, EXIT.failed)
  t.match((await world.result()).error, /No space left on device/)
  t.notMatch(log, /waiting for the engine/)
})

t.test('another pod that took over ends this one', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: { batchSize: 1 } })
  await createCollection(source, 'docs', manyPoints(300))
  let upserts = 0
  const time = laterClock(() => 1000 * upserts)
  let second: Promise<unknown> | undefined
  target.node.misbehave((request) => {
    if (!isUpsert(request)) return undefined
    upserts += 1
    if (upserts === 50) second = world.run({ pod: 'pod-2' })
    return undefined
  })
  t.equal((await world.run({ time })).code, EXIT.crash)
  t.match(await second, { code: EXIT.done })
  t.equal(await target.points('docs'), await source.points('docs'))
})
