/** Collections that another client creates on the target while `migration run` is about to create them. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { instantClock } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  manyPoints,
  runToDone,
  startEnginePair,
  type EnginePair,
} from './engine-pair.ts'

const CREATED_BY_OTHER =
  /^docs: collection docs was created on the target by another client while this migration was about/

/** The first request that creates a collection finds one that another client has just created. */
function createMeanwhile({ target }: EnginePair, points: object[], body: object): void {
  let creations = 0
  target.node.misbehave(({ method, path }) => {
    if (method !== 'PUT' || path.length !== 2) return undefined
    creations += 1
    return creations === 1 ? { until: createCollection(target, 'docs', points, body) } : undefined
  })
}

const OTHERS: [string, object[], object][] = [
  ['has points', manyPoints(2, 500), { ...SMALL, optimizers_config: { indexing_threshold: 77 } }],
  ['has another number of shards', [], { ...SMALL, shard_number: 5 }],
  ['has another vector', [], { vectors: { other: { size: 2, distance: 'Dot' } } }],
]
for (const [what, points, body] of OTHERS) {
  t.test(
    `a collection that another client has just created and that ${what} is not changed`,
    async (t) => {
      const scene = await startEnginePair(t, { spec: { target: { shardNumber: 3 } } })
      const { source, target, world } = scene
      const optimizers = { optimizers_config: { indexing_threshold: 7 } }
      await createCollection(source, 'docs', manyPoints(3), { ...SMALL, ...optimizers })
      createMeanwhile(scene, points, { shard_number: 3, ...body })
      const { code, log } = await world.run({ time: instantClock() })
      t.equal(code, EXIT.failed, log.slice(-2000))
      t.match((await world.result()).error, CREATED_BY_OTHER)
      t.equal(target.engine.find('docs')?.points.length, points.length)
      const { indexing_threshold: threshold } =
        target.engine.find('docs')?.config.optimizer_config ?? {}
      t.not(threshold, 7, 'its settings are those of its client')
    },
  )
}

const QUANTIZATION = { quantization_config: { scalar: { type: 'int8', always_ram: true } } }
const CONFIGURATIONS: [string, object, string][] = [
  ['quantization', {}, 'quantization_config.scalar.always_ram is null, not true'],
  ['HNSW', { ...QUANTIZATION, hnsw_config: { m: 32 } }, 'hnsw_config.m is 32, not 16'],
  [
    'optimizers',
    { ...QUANTIZATION, optimizers_config: { default_segment_number: 3 } },
    'optimizers_config.default_segment_number is 3, not 0',
  ],
]
for (const [what, body, difference] of CONFIGURATIONS) {
  t.test(`an empty collection of another client with other ${what} is not filled`, async (t) => {
    const scene = await startEnginePair(t)
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(3), { ...SMALL, ...QUANTIZATION })
    createMeanwhile(scene, [], { ...SMALL, ...body })
    t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
    const { error = '' } = await world.result()
    t.match(error, CREATED_BY_OTHER)
    t.ok(error.includes(difference), error)
    t.equal(target.engine.find('docs')?.points.length, 0)
  })
}

t.test('an empty collection that differs only in its indexing_threshold is filled', async (t) => {
  const scene = await startEnginePair(t)
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(3), { ...SMALL, ...QUANTIZATION })
  const optimizers = { optimizers_config: { indexing_threshold: 77 } }
  createMeanwhile(scene, [], { ...SMALL, ...QUANTIZATION, ...optimizers })
  await runToDone(t, world)
  t.ok((await target.points('docs')) === (await source.points('docs')), 'every byte')
})

t.test(
  'a collection that another client has just created as this one would is filled',
  async (t) => {
    const scene = await startEnginePair(t)
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(3))
    createMeanwhile(scene, [], SMALL)
    await runToDone(t, world)
    t.ok((await target.points('docs')) === (await source.points('docs')), 'every byte')
  },
)

t.test(
  'a collection of another client is not continued after a kill before its creation',
  async (t) => {
    const scene = await startEnginePair(t)
    const { source, target, world } = scene
    const optimizers = { optimizers_config: { indexing_threshold: 7 } }
    await createCollection(source, 'docs', manyPoints(3), { ...SMALL, ...optimizers })
    const stop = new AbortController()
    target.node.misbehave(({ method, path }) => {
      if (method !== 'PUT' || path.length !== 2) return undefined
      stop.abort(new Error('SIGTERM'))
      return { cut: 'before' }
    })
    t.equal((await world.run({ signal: stop.signal })).code, EXIT.crash)
    t.equal((await world.result()).position?.isOurs, true)
    target.node.misbehave()
    await createCollection(target, 'docs', manyPoints(2, 500))
    const before = target.engine.find('docs')?.config.optimizer_config['indexing_threshold']
    const { code, log } = await world.run({ pod: 'pod-2', time: instantClock() })
    t.equal(code, EXIT.failed, log.slice(-2000))
    t.match((await world.result()).error, CREATED_BY_OTHER)
    t.equal(target.engine.find('docs')?.points.length, 2)
    t.equal(target.engine.find('docs')?.config.optimizer_config['indexing_threshold'], before)
  },
)
