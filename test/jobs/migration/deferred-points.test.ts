/** Points that engines hide until they are indexed (`prevent_unoptimized`): the Job waits, or reports the number. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { optimize } from '../../doubles/engine/deferred.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isScroll,
  isUpsert,
  manyPoints,
  startEnginePair,
  type TestEngine,
  runToDone,
} from './engine-pair.ts'

/** Of vectors with two dimensions, the first 128 points are seen at once. */
const SEEN_AT_ONCE = 128
const POINTS = 400
const DEFERRING = {
  ...SMALL,
  optimizers_config: { prevent_unoptimized: true, indexing_threshold: 1 },
}

async function fillDeferring(side: TestEngine, points = POINTS): Promise<void> {
  await createCollection(side, 'docs', [], DEFERRING)
  await side.call('PUT', '/collections/docs/points?wait=false', { points: manyPoints(points) })
}

function isInfo({ method, path }: EngineRequest): boolean {
  return method === 'GET' && path.length === 2 && path[0] === 'collections'
}

/** The engine indexes so many points between two looks. */
function indexing({ node, engine }: TestEngine, points: number): void {
  node.misbehave((request) => {
    const docs = engine.find('docs')
    if (isInfo(request) && docs !== undefined) optimize(docs, points)
    return undefined
  })
}

t.test('deferred points of the source are waited for, and all of them are copied', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await fillDeferring(source)
  t.equal(source.engine.find('docs')?.points.length, SEEN_AT_ONCE)
  indexing(source, 50)
  indexing(target, 50)
  const log = await runToDone(t, world, { time: instantClock() })
  t.match(log, /waiting until deferred points are indexed/)
  t.equal(target.engine.find('docs')?.points.length, POINTS)
  t.equal(await target.points('docs'), await source.points('docs'))
  matchWhole(t, (await world.result()).collections, [
    { proof: /^400 points on both sides, each equal/ },
  ])
})

t.test('a target that defers is not waited for with each batch', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await fillDeferring(source)
  await createCollection(target, 'docs', [], DEFERRING)
  indexing(source, POINTS)
  const waits = new Set<unknown>()
  target.node.misbehave((request) => {
    if (isUpsert(request)) waits.add(request.query['wait'])
    const docs = target.engine.find('docs')
    if (isInfo(request) && docs !== undefined) optimize(docs, 30)
    return undefined
  })
  await runToDone(t, world, { time: instantClock() })
  t.strictSame([...waits], ['false'])
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test(
  'deferred points that come during the copy are waited for before the comparison',
  async (t) => {
    const { source, target, world } = await startEnginePair(t)
    await fillDeferring(source, 100)
    let writing: Promise<unknown> | undefined
    let polls = 0
    source.node.misbehave((request) => {
      const docs = source.engine.find('docs')
      const isOver = docs !== undefined && docs.points.length + (docs.deferred ?? []).length > 100
      if (isInfo(request) && isOver && (polls += 1) > 3) optimize(docs)
      return undefined
    })
    target.node.misbehave((request) => {
      const docs = target.engine.find('docs')
      if (isInfo(request) && docs !== undefined) optimize(docs)
      if (!isUpsert(request) || writing !== undefined) return undefined
      const points = manyPoints(300, 101)
      writing = source.call('PUT', '/collections/docs/points?wait=false', { points })
      return { delayMs: 50 }
    })
    const { code, log } = await world.run({ time: instantClock() })
    await writing
    t.equal(code, EXIT.done, log)
    t.equal(target.engine.find('docs')?.points.length, POINTS)
  },
)

t.test(
  'points that stay deferred fail their collection with numbers, before a page is read',
  async (t) => {
    const { source, target, world } = await startEnginePair(t)
    await fillDeferring(source)
    await createCollection(source, 'other', manyPoints(3))
    let pages = 0
    source.node.misbehave((request) => {
      pages += isScroll(request) && request.path[1] === 'docs' ? 1 : 0
      return undefined
    })
    let slept = 0
    const { code } = await world.run({ time: instantClock(() => (slept += 1)) })
    t.equal(code, EXIT.failed)
    t.equal(pages, 0)
    t.ok(slept < 1_000, `${slept} looks`)
    t.equal(target.engine.find('docs'), undefined)
    t.match(await world.result(), {
      completed: 1,
      error:
        /^docs: 272 of about 400 points of docs at the source cannot be read: prevent_unoptimized defers them .* after 60 minutes/,
    })
  },
)

t.test('hidden points are detected also if the engine reports none as deferred', async (t) => {
  const { source, world } = await startEnginePair(t)
  await fillDeferring(source)
  await source.call('PATCH', '/collections/docs', {
    optimizers_config: { prevent_unoptimized: false },
  })
  t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
  t.match(
    (await world.result()).error,
    /^docs: the source counts about 400 points and shows 128: are the others not indexed yet/,
  )
})

t.test('the proof says how many points a source counts if it shows a few less', async (t) => {
  const { source, world } = await startEnginePair(t)
  await fillDeferring(source, 200)
  await source.call('PATCH', '/collections/docs', {
    optimizers_config: { prevent_unoptimized: false },
  })
  await runToDone(t, world, { time: instantClock() })
  matchWhole(t, (await world.result()).collections, [
    { proof: /^128 points on both sides.*; the source counts about 200 points: the others were/ },
  ])
})

t.test('points that are hidden at first, and then not, are copied in a later round', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await fillDeferring(source)
  await source.call('PATCH', '/collections/docs', {
    optimizers_config: { prevent_unoptimized: false },
  })
  let comparisons = 0
  target.node.misbehave((request) => {
    const docs = source.engine.find('docs')
    if (isScroll(request) && docs !== undefined && (comparisons += 1) === 3) optimize(docs)
    return undefined
  })
  await runToDone(t, world, { time: instantClock() })
  t.equal(await target.points('docs'), await source.points('docs'))
  t.equal(target.engine.find('docs')?.points.length, POINTS)
})
