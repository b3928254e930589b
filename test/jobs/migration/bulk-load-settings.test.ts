/** What `migration run` changes on the target for the copy: it is put back, whatever becomes of its pods. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import type { CollectionConfig } from '../../../crds/engine/collections.ts'
import type { RunContext } from '../../../jobs/migration/context.ts'
import { thresholdToRestore } from '../../../jobs/migration/prepare-target.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock, takeOver, TAKEN_OVER } from '../job-world.ts'
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

const THRESHOLD = 7
const STRICT = { enabled: true, max_query_limit: 100 }
const BODY = {
  ...SMALL,
  strict_mode_config: STRICT,
  optimizers_config: { indexing_threshold: THRESHOLD },
}
const SPEC = { batchSize: 5 }

t.test(
  'a threshold that builds no index is left alone, and so is one after the first pod',
  async (t) => {
    const of = (threshold: unknown, previous?: object) => {
      const config = { optimizer_config: { indexing_threshold: threshold } }
      const context = { tools: { reporter: { previous } } }
      return thresholdToRestore(
        config as unknown as CollectionConfig,
        context as unknown as RunContext,
      )
    }
    t.equal(of(20_000), 20_000)
    t.equal(of(0), undefined)
    t.equal(of(null), undefined)
    t.equal(of(20_000, {}), undefined)
  },
)

function settingsOf({ target }: EnginePair) {
  const { optimizer_config: optimizers, strict_mode_config: strict } =
    target.engine.find('docs')?.config ?? {}
  return { indexing_threshold: optimizers?.['indexing_threshold'], strict }
}

function isPatch({ method, path }: EngineRequest): boolean {
  return method === 'PATCH' && path.length === 2
}

/** Settings of the target at the calls that are meant. */
function watched(scene: EnginePair, isMeant: (request: EngineRequest) => boolean): Set<string> {
  const seen = new Set<string>()
  scene.target.node.misbehave((request) => {
    if (isMeant(request)) seen.add(JSON.stringify(settingsOf(scene)))
    return undefined
  })
  return seen
}

const HELD = JSON.stringify({ indexing_threshold: 0, strict: STRICT })
const BACK = JSON.stringify({ indexing_threshold: THRESHOLD, strict: STRICT })

/** The first pod ends in the middle of the copy, and the target does not hear what it puts back. */
async function killed(scene: EnginePair): Promise<void> {
  const { target, world } = scene
  const stop = new AbortController()
  let upserts = 0
  target.node.misbehave((request) => {
    if (isPatch(request)) return { status: 503, body: 'gone', headers: {} }
    if (isUpsert(request) && (upserts += 1) === 5) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  await world.run({ signal: stop.signal })
  target.node.misbehave()
}

t.test('no index is built during the copy, and strict mode applies from the start', async (t) => {
  for (const [isMeant, settings] of [
    [isUpsert, HELD],
    [isScroll, BACK],
  ] as const) {
    const scene = await startEnginePair(t, { spec: SPEC })
    await createCollection(scene.source, 'docs', manyPoints(100), BODY)
    const seen = watched(scene, isMeant)
    await runToDone(t, scene.world)
    t.strictSame([...seen], [settings])
    t.equal(JSON.stringify(settingsOf(scene)), BACK)
  }
})

t.test('indexes are created although strict mode allows fewer, also by the next pod', async (t) => {
  const strict_mode_config = { enabled: true, max_payload_index_count: 2 }
  for (const isKilled of [false, true]) {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    const body = { ...BODY, strict_mode_config: { enabled: true, max_payload_index_count: 3 } }
    await createCollection(source, 'docs', manyPoints(100), body)
    for (const field_name of ['a', 'b', 'c']) {
      const index = { field_name, field_schema: 'keyword' }
      await source.call('PUT', '/collections/docs/index?wait=true', index)
    }
    await source.call('PATCH', '/collections/docs', { strict_mode_config })
    if (isKilled) {
      const stop = new AbortController()
      target.node.misbehave((request) => {
        if (isUpsert(request)) stop.abort(new Error('SIGTERM'))
        return undefined
      })
      await world.run({ signal: stop.signal })
      target.node.misbehave()
    }
    await runToDone(t, world)
    const { config, payloadSchema = {} } = target.engine.find('docs') ?? {}
    t.match(config?.strict_mode_config, strict_mode_config)
    t.strictSame(Object.keys(payloadSchema).sort(), ['a', 'b', 'c'])
  }
})

t.test('a copy that fails or is stopped restores indexing_threshold', async (t) => {
  for (const way of ['fails', 'is ended'] as const) {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(100), BODY)
    const stop = new AbortController()
    let upserts = 0
    target.node.misbehave((request) => {
      if (!isUpsert(request) || (upserts += 1) < 5) return undefined
      if (way === 'is ended') stop.abort(new Error('SIGTERM'))
      return { status: 403, body: 'no', headers: {} }
    })
    const { code, log } = await world.run({ signal: stop.signal })
    t.equal(code, way === 'fails' ? EXIT.failed : EXIT.crash, log)
    t.equal(JSON.stringify(settingsOf(scene)), BACK, way)
  }
})

t.test('a pod that was replaced leaves the settings to the next one', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(100), BODY)
  let upserts = 0
  target.node.misbehave((request) => {
    if (!isUpsert(request)) return undefined
    upserts += 1
    if (upserts === 2) return { until: takeOver(world.api, { kind: 'VecMigration', name: 'm' }) }
    return upserts < 5 ? undefined : { status: 403, body: 'no', headers: {} }
  })
  const { code, log } = await world.run()
  t.equal(code, EXIT.crash, log)
  t.match(log, TAKEN_OVER)
  t.equal(JSON.stringify(settingsOf(scene)), HELD)
})

t.test(
  'what a killed pod could not put back is put back by the next, which changes nothing',
  async (t) => {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(100), BODY)
    await killed(scene)
    t.equal(JSON.stringify(settingsOf(scene)), HELD)
    t.match((await world.result()).position, { indexingThreshold: THRESHOLD })
    const seen = watched(scene, isUpsert)
    await runToDone(t, world, { pod: 'pod-2' })
    t.strictSame([...seen], [BACK], 'a pod that is killed now leaves nothing behind')
    t.equal(
      await target.points('docs', undefined, 100),
      await source.points('docs', undefined, 100),
    )
    matchWhole(t, (await world.result()).collections, [
      { proof: /^100 points on both sides, each equal/ },
    ])
  },
)

t.test('indexing_threshold is restored also if the source lost the collection', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, world } = scene
  await createCollection(source, 'docs', manyPoints(100), BODY)
  await killed(scene)
  source.engine.removeCollection('docs')
  t.equal((await world.run({ pod: 'pod-2' })).code, EXIT.failed)
  t.equal(JSON.stringify(settingsOf(scene)), BACK)
})

t.test('if indexing_threshold cannot be restored, the error says what to do', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(100), BODY)
  target.node.misbehave((request) => {
    const isOver = isPatch(request) || (isUpsert(request) && settingsOf(scene).strict !== undefined)
    return isOver ? { status: 403, body: 'no', headers: {} } : undefined
  })
  t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
  t.match(
    (await world.result()).error,
    /answered 403: no; indexing_threshold of docs is still 0 on the target: set it to 7$/,
  )
})

t.test(
  'a second kill forgets neither where the copy stood nor whose collection it is',
  async (t) => {
    const scene = await startEnginePair(t, { spec: SPEC })
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(100), BODY)
    await createCollection(source, 'z-last', manyPoints(3))
    await killed(scene)
    const { position } = await world.result()
    t.match(position, { collection: 'docs', isOurs: true })
    // Before it begins to copy, and with a collection before it in the list.
    await createCollection(source, 'a-before', manyPoints(3))
    const stop = new AbortController()
    source.node.misbehave(({ method, path }) => {
      if (method === 'GET' && path[1] === 'docs' && path.length === 2) {
        void world.result().then((result) => {
          if (result.total === 3) stop.abort(new Error('SIGTERM'))
        })
        return { delayMs: 30 }
      }
      return undefined
    })
    t.equal((await world.run({ pod: 'pod-2', signal: stop.signal })).code, EXIT.crash)
    source.node.misbehave()
    t.match((await world.result()).position, { collection: 'docs', isOurs: true, before: 0 })
    await runToDone(t, world, { pod: 'pod-3' })
    t.equal(
      await target.points('docs', undefined, 100),
      await source.points('docs', undefined, 100),
    )
    matchWhole(t, (await world.result()).collections, [
      { name: 'a-before', status: 'Completed', pointsCopied: 3 },
      { name: 'docs', status: 'Completed', proof: /^100 points on both sides, each equal/ },
      { name: 'z-last', status: 'Completed', pointsCopied: 3 },
    ])
  },
)
