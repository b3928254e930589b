/** Verification of `migration run`: differences are found, and copied again or reported by kind and number. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { Point } from '../../doubles/engine/points.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'
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

const SPEC = { batchSize: 10 }

function pointsOf({ engine }: EnginePair['source']): Point[] {
  return engine.find('docs')?.points ?? []
}

/** Once, when the copy is over and the comparison begins. */
function whenCompared({ target }: EnginePair, act: () => void): void {
  let isOver = false
  target.node.misbehave((request) => {
    if (!isOver && isScroll(request)) {
      isOver = true
      act()
    }
    return undefined
  })
}

const MEANWHILE: [string, (scene: EnginePair) => void, number][] = [
  [
    'overwritten',
    ({ source }) => {
      for (const point of pointsOf(source).slice(0, 20)) point.payload = { n: 'newer' }
    },
    20,
  ],
  [
    'given another vector',
    ({ source }) => {
      for (const point of pointsOf(source).slice(40, 43)) point.vector = [0.25, 0.75]
    },
    3,
  ],
  ['inserted', ({ source }) => pointsOf(source).unshift({ id: 0, vector: [1, 1], payload: {} }), 1],
]
for (const [what, change, count] of MEANWHILE) {
  for (const filled of [false, true]) {
    const where = filled ? 'that was not empty' : 'that was made'
    t.test(`points ${what} behind the copy are in the target ${where}`, async (t) => {
      const scene = await startEnginePair(t, { spec: SPEC })
      const { source, target, world } = scene
      await createCollection(source, 'docs', manyPoints(200))
      const own = manyPoints(5, 1_000)
      if (filled) await createCollection(target, 'docs', own)
      let isOver = false
      source.node.misbehave(({ method, path }) => {
        const isCopied = pointsOf(target).length === 200 + (filled ? own.length : 0)
        if (isCopied && !isOver && method === 'GET' && path.length === 2) {
          isOver = true
          change(scene)
        }
        return undefined
      })
      await runToDone(t, world, { time: instantClock() })
      t.ok(isOver)
      const there = JSON.parse(await target.points('docs')) as { id: number }[]
      t.strictSame(
        there.filter(({ id }) => id < 1_000),
        JSON.parse(await source.points('docs')),
      )
      t.equal(there.length, pointsOf(source).length + (filled ? own.length : 0))
      matchWhole(t, (await world.result()).collections, [
        {
          status: 'Completed',
          proof: new RegExp(
            `; ${count} differed at first and were copied again: the source takes writes`,
          ),
        },
      ])
    })
  }
}

t.test(
  'points that the target lost are copied again, also where it had others before',
  async (t) => {
    for (const before of [0, 1_000]) {
      const scene = await startEnginePair(t, { spec: SPEC })
      const { source, target, world } = scene
      await createCollection(source, 'docs', manyPoints(200))
      await createCollection(target, 'docs', before === 0 ? [] : manyPoints(before, 1_000))
      let isOver = false
      target.node.misbehave(({ path, method }) => {
        const docs = target.engine.find('docs')
        const isRead = path[3] === 'scroll' || (method === 'POST' && path.length === 3)
        if (isRead && !isOver && docs && docs.points.length >= 200 + before) {
          isOver = true
          docs.points = docs.points.filter(({ id }) => Number(id) % 20 !== 3)
        }
        return undefined
      })
      await runToDone(t, world, { time: instantClock() })
      t.ok(isOver)
      const ids = pointsOf(target).map(({ id }) => id)
      t.ok(pointsOf(source).every(({ id }) => ids.includes(id)))
      matchWhole(t, (await world.result()).collections, [{ proof: /; 10 differed at first/ }])
    }
  },
)

t.test(
  'remaining differences are reported by kind, number and id after a limited number of rounds',
  async (t) => {
    const { source, target, world } = await startEnginePair(t, { spec: SPEC })
    await createCollection(source, 'docs', manyPoints(100))
    let reads = 0
    target.node.misbehave((request) => {
      reads += isScroll(request) ? 1 : 0
      const docs = target.engine.find('docs')
      if (docs === undefined || isUpsert(request)) return undefined
      // It forgets two points as often as they are written, and garbles a third.
      docs.points = docs.points.filter(({ id }) => id !== 7 && id !== 70)
      for (const point of docs.points) if (point.id === 55) point.vector = [9, 9]
      return undefined
    })
    const { code } = await world.run({ time: instantClock() })
    t.equal(code, EXIT.failed)
    const { error } = await world.result()
    t.match(
      error,
      /^docs: 2 missing on the target \(7, 70\); 1 different on the target \(55\); 100 points compared whole from /,
    )
    t.ok(reads < 40, `${reads} pages: what differs is looked at by its ids`)
  },
)

t.test(
  'points deleted and inserted in equal number are reported, because a deletion is not repeated',
  async (t) => {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(100))
    whenCompared(scene, () => {
      const docs = source.engine.find('docs')
      if (docs === undefined) return
      docs.points = docs.points.filter(({ id }) => ![3, 4, 50, 90].includes(Number(id)))
      const added = manyPoints(4, 500) as Point[]
      docs.points.push(...added)
    })
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    t.match(
      (await world.result()).error,
      /^docs: 4 on the target only \(3, 4, 50, \.\.\.\); what was deleted on the source during the migration stays on the target; if nothing was deleted, the replicas of the source differ; 100 points compared/,
    )
    t.equal(pointsOf(target).length, 104, 'nothing was deleted')
    t.ok(pointsOf(target).some(({ id }) => id === 503))
  },
)

/** Once, when the copy is over, whose pages have ten points: what the target had is not of them. */
function whenCopied({ source, target }: EnginePair, count: number, act: () => void): void {
  let isOver = false
  source.node.misbehave(({ method, path }) => {
    if (isOver || pointsOf(target).length < count || method !== 'GET' || path.length !== 2) {
      return undefined
    }
    isOver = true
    act()
    return undefined
  })
}

t.test(
  'points deleted behind the copy are reported when the target had points before, and its own points are not',
  async (t) => {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(100))
    // Two of them are overwritten by the copy.
    await createCollection(target, 'docs', [...manyPoints(2, 3), ...manyPoints(50, 500)])
    whenCopied(scene, 150, () => {
      const docs = source.engine.find('docs')
      if (docs === undefined) return
      docs.points = docs.points.filter(({ id }) => ![3, 50, 100].includes(Number(id)))
    })
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    t.match(
      (await world.result()).error,
      /^docs: 3 on the target only \(3, 50, 100\); what was deleted on the source during the migration stays on the target; if nothing was deleted, the replicas of the source differ; 97 points compared/,
    )
    t.equal(pointsOf(target).length, 150, 'nothing was deleted')
  },
)

t.test('thousands of points deleted behind the copy are all reported', async (t) => {
  const scene = await startEnginePair(t, { spec: { batchSize: 500 } })
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(2_500))
  await createCollection(target, 'docs', manyPoints(1, 9_000))
  whenCopied(scene, 2_501, () => {
    const docs = source.engine.find('docs')
    if (docs !== undefined) docs.points = []
  })
  t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
  t.match((await world.result()).error, /^docs: 2500 on the target only \(1, 2, 3, \.\.\.\)/)
})

t.test('a target that had points keeps those, and the proof says it', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', manyPoints(100))
  await createCollection(target, 'docs', manyPoints(50, 500))
  t.equal((await world.run({ time: instantClock() })).code, EXIT.done)
  const { collections = [] } = await world.result()
  matchWhole(t, collections, [
    { proof: /the target had about 50 points before, and what else it has/ },
  ])
  t.notMatch(collections, [{ proof: /deleted on the source/ }])
})

t.test(
  'a shard key that was copied and then deleted on the source is reported, others are not',
  async (t) => {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    for (const [side, keys] of [
      [source, ['stays', 'goes']],
      [target, ['stays', 'own']],
    ] as const) {
      await createCollection(side, 'docs', [], {
        ...SMALL,
        sharding_method: 'custom',
        shard_number: 1,
      })
      for (const key of keys) {
        await side.call('PUT', '/collections/docs/shards', { shard_key: key })
        const body = { points: manyPoints(3), shard_key: key }
        await side.call('PUT', '/collections/docs/points', body)
      }
    }
    let deleting: Promise<unknown> | undefined
    target.node.misbehave((request) => {
      const isCopied = pointsOf(target).some(({ shard_key: key }) => key === 'goes')
      if (!isCopied || isUpsert(request) || deleting !== undefined) return undefined
      deleting = source.call('POST', '/collections/docs/shards/delete', { shard_key: 'goes' })
      return { delayMs: 50 }
    })
    const { code, log } = await world.run({ time: instantClock() })
    await deleting
    t.equal(code, EXIT.failed, log)
    t.match((await world.result()).error, /^docs: .*shard keys on the target only: goes; what was/)
  },
)

/** In one step: who sees the key sees its points. */
function addKey({ engine }: EnginePair['source'], key: string, count: number): void {
  const docs = engine.find('docs')
  if (docs === undefined || docs.shards.some((shard) => shard.key === key)) return
  docs.shards.push({ id: docs.shards.length, key, peers: docs.shards[0]?.peers ?? [] })
  const points = manyPoints(count) as Point[]
  docs.points.push(...points.map((point) => ({ ...point, shard_key: key })))
  docs.points.sort((one, other) => Number(one.id) - Number(other.id))
}

t.test('a shard key that is created meanwhile is copied with its points', async (t) => {
  for (const isMoment of [isUpsert, isScroll]) {
    const { source, target, world } = await startEnginePair(t, { spec: SPEC })
    await createCollection(source, 'docs', [], {
      ...SMALL,
      sharding_method: 'custom',
      shard_number: 1,
    })
    await source.call('PUT', '/collections/docs/shards', { shard_key: 'old' })
    const body = { points: manyPoints(50), shard_key: 'old' }
    await source.call('PUT', '/collections/docs/points', body)
    target.node.misbehave((request) => {
      if (isMoment(request)) addKey(source, 'new-tenant', 40)
      return undefined
    })
    await runToDone(t, world, { time: instantClock() })
    target.node.misbehave()
    for (const key of ['old', 'new-tenant']) {
      t.equal(await target.points('docs', key), await source.points('docs', key), key)
    }
    matchWhole(t, (await world.result()).collections, [{ proof: /^90 points on both sides/ }])
  }
})

t.test('points under each of many shard keys are compared', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', [], {
    ...SMALL,
    sharding_method: 'custom',
    shard_number: 1,
  })
  for (let n = 0; n < 130; n += 1) {
    await source.call('PUT', '/collections/docs/shards', { shard_key: n })
    const body = { points: manyPoints(2), shard_key: n }
    await source.call('PUT', '/collections/docs/points', body)
  }
  target.node.misbehave((request) => {
    const [point] = pointsOf(target).filter(({ shard_key: key, id }) => key === 129 && id === 2)
    if (point !== undefined && !isUpsert(request)) point.payload = { n: 'changed' }
    return undefined
  })
  t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
  t.match(
    (await world.result()).error,
    /^docs: 1 different on the target \(2 under shard key 129\); 260 points compared/,
  )
})

t.test('a shard key that is deleted on the source during the copy is reported', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, world } = scene
  await createCollection(source, 'docs', [], {
    ...SMALL,
    sharding_method: 'custom',
    shard_number: 1,
  })
  for (const key of ['stays', 'goes']) {
    await source.call('PUT', '/collections/docs/shards', { shard_key: key })
    const body = { points: manyPoints(3), shard_key: key }
    await source.call('PUT', '/collections/docs/points', body)
  }
  let deleting: Promise<unknown> | undefined
  scene.target.node.misbehave((request) => {
    if (!isUpsert(request) || deleting !== undefined) return undefined
    deleting = source.call('POST', '/collections/docs/shards/delete', { shard_key: 'goes' })
    return { delayMs: 50 }
  })
  const { code, log } = await world.run({ time: instantClock() })
  await deleting
  t.equal(code, EXIT.failed, log)
  t.match((await world.result()).error, /^docs: .*shard keys on the target only: goes/)
})

t.test('collections that are created on the source meanwhile are copied', async (t) => {
  for (const collections of [undefined, ['docs']]) {
    const spec = { ...SPEC, ...(collections !== undefined && { collections }) }
    const { source, target, world } = await startEnginePair(t, { spec })
    await createCollection(source, 'docs', manyPoints(40))
    let making: Promise<unknown> | undefined
    target.node.misbehave((request) => {
      if (!isUpsert(request) || making !== undefined) return undefined
      making = Promise.all(
        ['a-first', 'z-last'].map((name) => createCollection(source, name, manyPoints(7))),
      )
      return { delayMs: 50 }
    })
    await runToDone(t, world, { time: instantClock() })
    await making
    const names = collections ?? ['a-first', 'docs', 'z-last']
    t.strictSame([...target.engine.collections.keys()].toSorted(), names)
    t.match(await world.result(), { total: names.length, completed: names.length, failed: 0 })
    for (const name of names) t.equal(await target.points(name), await source.points(name))
  }
})

t.test(
  'a source that keeps creating collections is reported, with those that are not copied',
  async (t) => {
    const { source, world } = await startEnginePair(t, { spec: SPEC })
    await createCollection(source, 'docs', manyPoints(1))
    let made = 0
    source.node.misbehave(({ method, path }) => {
      if (method !== 'GET' || path.join('/') !== 'collections') return undefined
      made += 1
      source.engine.addCollection(`late-${String(made).padStart(3, '0')}`, SMALL)
      return undefined
    })
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    const { failed, error } = await world.result()
    t.equal(failed, 1)
    t.match(error, /^late-\d{3}: it was created on the source while others/)
    t.ok(made < 20)
  },
)

t.test('a collection that is created for a name that is taken fails alone', async (t) => {
  const spec = { ...SPEC, collectionMapping: { late: 'docs' } }
  const { source, target, world } = await startEnginePair(t, { spec })
  await createCollection(source, 'docs', manyPoints(10))
  target.node.misbehave((request) => {
    if (isUpsert(request) && source.engine.find('late') === undefined) {
      source.engine.addCollection('late', SMALL)
    }
    return undefined
  })
  t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
  t.match(await world.result(), {
    ...{ completed: 1, failed: 1 },
    error: 'late: both docs and late would be copied to docs',
  })
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test('a Job that is killed while it compares continues, and copies no page again', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(200))
  const stop = new AbortController()
  whenCompared(scene, () => stop.abort(new Error('SIGTERM')))
  t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
  let upserts = 0
  target.node.misbehave((request) => {
    upserts += isUpsert(request) ? 1 : 0
    return undefined
  })
  await runToDone(t, world, { pod: 'pod-2', time: instantClock() })
  t.equal(await target.points('docs'), await source.points('docs'))
  t.comment(upserts)
})

t.test('after a killed Job the proof says that deletions were not checked', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', manyPoints(200))
  await createCollection(target, 'docs', manyPoints(1, 9_000))
  const stop = new AbortController()
  target.node.misbehave((request) => {
    if (isUpsert(request) && pointsOf(target).length > 50) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
  target.node.misbehave()
  await runToDone(t, world, { pod: 'pod-2', time: instantClock() })
  const words = /points that were deleted on the source during the migration may be on the target/
  matchWhole(t, (await world.result()).collections, [{ proof: words }])
})
