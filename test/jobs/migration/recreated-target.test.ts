/** Target collections that another client deletes and creates again during `migration run`, with the same points. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { instantClock, laterClock } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isUpsert,
  manyPoints,
  runToDone,
  startEnginePair,
  type EnginePair,
} from './engine-pair.ts'

const POINTS = 60
const ERROR =
  'docs: collection docs was deleted and created again by another client on the target during the migration: delete it or use collectionMapping, and create another VecMigration'

/** At the first such request to the target, another client replaces its collection by an equal one. */
function recreateAt(
  { target }: EnginePair,
  isMoment: (request: EngineRequest) => boolean,
): { changes: string[] } {
  const changes: string[] = []
  let recreated: Promise<void> | undefined
  const recreate = async () => {
    target.engine.removeCollection('docs')
    await createCollection(target, 'docs', manyPoints(POINTS))
    changes.length = 0
  }
  target.node.misbehave((request) => {
    const { method, path } = request
    if (recreated === undefined && isMoment(request)) {
      recreated = recreate()
      return { until: recreated }
    }
    if (method !== 'GET' && path[1] === 'docs' && !/scroll|count/.test(path.at(-1) ?? ''))
      changes.push(`${method} ${path.join('/')}`)
    return undefined
  })
  return { changes }
}

async function startPair(
  t: Test,
  isTargetStandalone: boolean,
  otherTargetNodes = 0,
): Promise<EnginePair> {
  const options = { spec: { batchSize: 10 }, isTargetStandalone, otherTargetNodes }
  const scene = await startEnginePair(t, options)
  const optimizers = { optimizers_config: { indexing_threshold: 7 } }
  await createCollection(scene.source, 'docs', manyPoints(POINTS), { ...SMALL, ...optimizers })
  await createCollection(scene.source, 'other', manyPoints(5))
  return scene
}

const isUpsertOf = (name: string) => (request: EngineRequest) =>
  isUpsert(request) && request.path.includes(name)

/** The threshold is restored between the copy and the comparison. */
const isRestored = ({ method, path }: EngineRequest) =>
  method === 'PATCH' && path.join('/') === 'collections/docs'

for (const [when, isMoment] of [
  ['before its comparison', isRestored],
  ['while the next one is copied', isUpsertOf('other')],
] as const) {
  t.test(`a target collection that is recreated ${when} is not Completed`, async (t) => {
    const scene = await startPair(t, false)
    recreateAt(scene, isMoment)
    const { code, log } = await scene.world.run({ time: instantClock() })
    t.equal(code, EXIT.failed, log.slice(-2000))
    t.match(await scene.world.result(), { completed: 1, failed: 1, error: ERROR })
  })

  t.test(
    `without uuids, one that is recreated ${when} by an equal one stays Completed`,
    async (t) => {
      const scene = await startPair(t, true)
      recreateAt(scene, isMoment)
      await runToDone(t, scene.world)
    },
  )
}

t.test('a target collection that is recreated between two pods is not written to', async (t) => {
  const scene = await startPair(t, false)
  const { source, target, world } = scene
  const stop = new AbortController()
  let batches = 0
  target.node.misbehave((request) => {
    if (isUpsert(request) && (batches += 1) === 3) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
  const uuid = target.engine.find('docs')?.uuid
  t.ok(uuid)
  t.equal((await world.result()).position?.targetUuid, uuid)
  const { changes } = recreateAt(scene, () => true)
  const { code, log } = await world.run({ pod: 'pod-2', time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.match((await world.result()).error, ERROR)
  t.strictSame(changes, [], 'nothing of that client is changed')
  t.ok((await target.points('docs')) === (await source.points('docs')), 'every byte')
})

for (const { node, answers, error } of [
  { node: 'has not caught up for a moment', answers: 10, error: ERROR },
  {
    node: 'never catches up',
    answers: Infinity,
    error:
      /^docs: the nodes do not hold the same collection docs: its uuid is \S+ on node 0, \S+ on node 1/,
  },
]) {
  t.test(`nothing is changed in one that is recreated while node 0 ${node}`, async (t) => {
    const scene = await startPair(t, false, 1)
    const { engine, node: double } = scene.target
    let former: ReturnType<typeof engine.find>
    let asked = 0
    const changes: string[] = []
    double.misbehave((request) => {
      const { method, path } = request
      if (former !== undefined) {
        asked += 1
        if (asked === answers) engine.outdated.clear()
        const isChange = ['PATCH', 'DELETE'].includes(method) && path[1] === 'docs'
        if (isChange) changes.push(`${method} ${path.join('/')}`)
      } else if (isUpsertOf('docs')(request)) {
        // The next change is that of the threshold, after the copy.
        former = engine.find('docs')
        engine.removeCollection('docs')
        engine.createCollection('docs', 1, 1)
        engine.outdated.set(0, new Map([['docs', former]]))
      }
      return undefined
    })
    const { code, log } = await scene.world.run({ time: instantClock() })
    t.equal(code, EXIT.failed, log.slice(-2000))
    t.ok(former)
    t.match((await scene.world.result()).error, error)
    t.strictSame(changes, [])
  })
}

for (const [what, isChange] of [
  ['its shard keys', ({ method, path }) => method === 'PUT' && path.at(-1) === 'shards'],
  ['its read fan-out', ({ method }) => method === 'PATCH'],
  ['its payload indexes', ({ method, path }) => method === 'PUT' && path.at(-1) === 'index'],
  ['its threshold', isRestored],
] satisfies [string, (request: EngineRequest) => boolean][]) {
  t.test(`nothing is changed that is recreated while a change of ${what} is retried`, async (t) => {
    const scene = await startEnginePair(t)
    const { source, target, world } = scene
    const isKeyed = what === 'its shard keys'
    await createCollection(source, 'docs', isKeyed ? [] : manyPoints(POINTS), {
      ...SMALL,
      ...(isKeyed && { sharding_method: 'custom' }),
      optimizers_config: { indexing_threshold: 7 },
    })
    if (isKeyed) await source.call('PUT', '/collections/docs/shards', { shard_key: 'a' })
    if (what === 'its read fan-out') {
      await source.call('PATCH', '/collections/docs', { params: { read_fan_out_factor: 2 } })
    }
    const index = { field_name: 'id', field_schema: 'integer' }
    await source.call('PUT', '/collections/docs/index?wait=true', index)
    let isRecreated = false
    const changes: string[] = []
    target.node.misbehave((request) => {
      const { method, path } = request
      const isLater = method !== 'GET' && path[1] === 'docs' && path[2] !== 'points'
      if (isRecreated && isLater) changes.push(`${method} ${path.join('/')}`)
      if (isRecreated || !isChange(request)) return undefined
      isRecreated = true
      target.engine.removeCollection('docs')
      target.engine.createCollection('docs', 1, 1)
      return UNAVAILABLE
    })
    const { code, log } = await world.run({ time: instantClock() })
    t.equal(code, EXIT.failed, log.slice(-2000))
    t.ok(isRecreated)
    t.match((await world.result()).error, ERROR)
    t.strictSame(changes, [])
  })
}

t.test('no point is written a minute after a target collection was recreated', async (t) => {
  const scene = await startPair(t, false)
  const { target, world } = scene
  let elapsed = 0
  let batches = 0
  let later = 0
  target.node.misbehave((request) => {
    if (!isUpsertOf('docs')(request)) return undefined
    batches += 1
    if (batches > 2) later += 1
    if (batches !== 2) return undefined
    target.engine.removeCollection('docs')
    target.engine.createCollection('docs', 1, 1)
    elapsed = 61_000
    return UNAVAILABLE
  })
  const time = laterClock(() => elapsed)
  t.equal((await world.run({ time })).code, EXIT.failed)
  t.match((await world.result()).error, ERROR)
  // Two are written at a time: one may have been sent before.
  t.ok(later <= 1, `${later}`)
})

/** A pod that ends after it has copied `docs`, while it copies the other collection. */
async function endedAfterFirst(t: Test) {
  const scene = await startPair(t, false)
  const { target, world } = scene
  const stop = new AbortController()
  target.node.misbehave((request) => {
    if (!isUpsertOf('other')(request)) return undefined
    stop.abort(new Error('SIGTERM'))
    return { cut: 'before' }
  })
  t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
  target.node.misbehave()
  return scene
}

t.test('a collection that is recreated after another pod copied it is not Completed', async (t) => {
  const { target, world } = await endedAfterFirst(t)
  target.engine.removeCollection('docs')
  await createCollection(target, 'docs', manyPoints(POINTS))
  const { code, log } = await world.run({ pod: 'pod-2', time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.match(await world.result(), { completed: 1, failed: 1, error: ERROR })
})

t.test('a collection that another pod copied and no client changed stays Completed', async (t) => {
  const { world } = await endedAfterFirst(t)
  const { code, log } = await world.run({ pod: 'pod-2', time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(await world.result(), { completed: 2, failed: 0 })
})
