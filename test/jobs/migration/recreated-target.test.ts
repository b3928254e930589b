/** Target collections that another client deletes and creates again during `migration run`, with the same points. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { instantClock } from '../job-world.ts'
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

async function startPair(t: Test, isTargetStandalone: boolean): Promise<EnginePair> {
  const scene = await startEnginePair(t, { spec: { batchSize: 10 }, isTargetStandalone })
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
