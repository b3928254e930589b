/** A pod of `migration run` that another pod has replaced repeats no change of the target, and none changes a collection of another client. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { instantClock, takeOver, TAKEN_OVER } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isUpsert,
  manyPoints,
  startEnginePair,
  type EnginePair,
} from './engine-pair.ts'

const THRESHOLD = { optimizers_config: { indexing_threshold: 7 } }

async function startPair(t: Parameters<typeof startEnginePair>[0]): Promise<EnginePair> {
  const scene = await startEnginePair(t, { spec: { batchSize: 5 }, isTargetStandalone: false })
  const keyed = { ...SMALL, ...THRESHOLD, sharding_method: 'custom', shard_number: 1 }
  const { source } = scene
  await createCollection(source, 'docs', [], keyed)
  await source.call('PUT', '/collections/docs/shards', { shard_key: 'a' })
  await source.call('PUT', '/collections/docs/index', { field_name: 'n', field_schema: 'integer' })
  await source.call('PATCH', '/collections/docs', { params: { read_fan_out_factor: 2 } })
  await source.call('PUT', '/collections/docs/points?wait=true', {
    points: manyPoints(20),
    shard_key: 'a',
  })
  return scene
}

const CHANGES: [what: string, method: string, path: string, body?: string][] = [
  ['creates a collection', 'PUT', 'collections/docs'],
  ['creates a shard key', 'PUT', 'collections/docs/shards'],
  ['creates a payload index', 'PUT', 'collections/docs/index'],
  ['sets the read fan-out', 'PATCH', 'collections/docs', 'read_fan_out_factor'],
  ['restores the indexing threshold', 'PATCH', 'collections/docs', 'indexing_threshold'],
]

for (const [what, method, path, body = ''] of CHANGES) {
  t.test(`a pod that is replaced while it ${what} does not repeat the call`, async (t) => {
    const { target, world } = await startPair(t)
    let [calls, later] = [0, 0]
    let done: Promise<void> | undefined
    target.node.misbehave((request) => {
      const isMeant =
        request.method === method &&
        request.path.join('/') === path &&
        JSON.stringify(request.body ?? null).includes(body)
      if (!isMeant) return undefined
      calls += 1
      if (done !== undefined) later += 1
      done ??= takeOver(world.api, { kind: 'VecMigration', name: 'm' })
      return UNAVAILABLE
    })
    const { code, log } = await world.run({ time: instantClock(() => done) })
    t.equal(calls - later, 1, log.slice(-2000))
    t.equal(later, 0)
    t.match(log, TAKEN_OVER)
    t.equal(code, EXIT.crash)
  })
}

function isPatch({ method }: EngineRequest): boolean {
  return method === 'PATCH'
}

/** Another client replaces the target by a collection that builds no index either. */
function recreate({ engine }: EnginePair['target']): void {
  engine.removeCollection('docs')
  engine.createCollection('docs', 1)
  const { optimizer_config: optimizers = {} } = engine.find('docs')?.config ?? {}
  Object.assign(optimizers, { indexing_threshold: 0 })
}

function thresholdOf({ engine }: EnginePair['target']): unknown {
  return engine.find('docs')?.config.optimizer_config?.['indexing_threshold']
}

t.test('a copy that fails changes no collection that has replaced its target', async (t) => {
  const { target, world } = await startPair(t)
  let upserts = 0
  target.node.misbehave((request) => {
    if (!isUpsert(request) || (upserts += 1) !== 2) return undefined
    recreate(target)
    return { status: 403, body: 'no', headers: {} }
  })
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.equal(thresholdOf(target), 0)
})

t.test('a copy that is complete changes no collection that has replaced its target', async (t) => {
  const { target, world } = await startPair(t)
  let batches = 0
  const onLine = (line: string) => {
    if (/engine call .*call=PUT \/collections\/docs\/points/.test(line) && (batches += 1) === 5) {
      recreate(target)
    }
  }
  const { code, log } = await world.run({ time: instantClock(), onLine })
  t.equal(batches, 5)
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.equal(thresholdOf(target), 0)
})

t.test('a pod changes no collection that has replaced the target of a killed one', async (t) => {
  const { target, world } = await startPair(t)
  const stop = new AbortController()
  let upserts = 0
  target.node.misbehave((request) => {
    if (isPatch(request) && upserts > 0) return { status: 503, body: 'gone', headers: {} }
    if (isUpsert(request) && (upserts += 1) === 2) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
  target.node.misbehave()
  t.match((await world.result()).position, { indexingThreshold: 7 })
  recreate(target)
  const { code, log } = await world.run({ pod: 'pod-2', time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.equal(thresholdOf(target), 0)
})
