/** VecCollection: what it does with an engine. Sources: docs/kinds/collection.md, the specification. */
import fc from 'fast-check'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { finalizerName } from '../../../metacontroller/controllers.ts'
import { engineOf } from '../../doubles/engine/without-server.ts'
import { Broken } from '../promises.ts'
import type { Stage } from '../stage.ts'
import { Run, type Model, type Expectation } from './model.ts'
import { HOME, namespaceOf, putCluster, putSecret, type Access } from './surroundings.ts'

export interface CollectionCase {
  cluster: 'absent' | 'Running'
  access: Access
  isEngineSilent: boolean
  /** What the engine has under the name already. */
  existing: 'none' | 'same' | 'otherSize'
  size: number
  deletionPolicy: 'Retain' | 'Delete'
}

const cases: fc.Arbitrary<CollectionCase> = fc.record(
  {
    cluster: fc.constantFrom('Running' as const, 'Running' as const, 'absent' as const),
    access: fc.constantFrom<Access>('own', 'own', 'allowed', 'denied'),
    isEngineSilent: fc.constantFrom(false, false, true),
    existing: fc.constantFrom<CollectionCase['existing']>('none', 'same', 'otherSize'),
    size: fc.integer({ min: 1, max: 100 }),
    deletionPolicy: fc.constantFrom('Retain' as const, 'Delete' as const),
  },
  { noNullPrototype: true },
)

export const collectionModel: Model<CollectionCase> = {
  kind: 'VecCollection',
  cases,
  run: runCase,
}

export function expected(one: CollectionCase): Expectation[] {
  const expect = (phase: string, condition: string): Expectation => ({ phase, condition, jobs: 0 })
  if (one.cluster === 'absent') return [expect('Pending', 'Ready=False ClusterNotFound')]
  if (one.access === 'denied') return [expect('Failed', 'Ready=False RefNotPermitted')]
  if (one.isEngineSilent) {
    return [
      expect('Pending', 'Ready=False ClusterNotReady'),
      expect('Pending', 'Ready=False EngineNotAnswering'),
    ]
  }
  if (one.existing === 'otherSize') {
    return [expect('Degraded', 'Ready=False ImmutableFieldMismatch')]
  }
  return [expect('Ready', 'Ready=True CollectionReady')]
}

async function runCase(stage: Stage, one: CollectionCase): Promise<string> {
  stage.clear()
  const engine = new EngineCluster({ staleMs: 0 })
  const answering = engineOf(engine)
  stage.engine = one.isEngineSilent ? async () => undefined : answering
  if (one.existing !== 'none') {
    const size = one.existing === 'same' ? one.size : one.size + 1
    engine.addCollection('c', { vectors: { size, distance: 'Dot' } })
  }
  const before = JSON.stringify(engine)
  surround(stage, one)
  const parent = stage.put({
    apiVersion: API_VERSION,
    kind: 'VecCollection',
    metadata: { name: 'one', namespace: HOME, finalizers: [finalizerName('veccollections')] },
    spec: {
      clusterRef: { name: 'main', namespace: namespaceOf(one.access) },
      collectionName: 'c',
      vectors: [{ size: one.size, distance: 'Dot' }],
      deletionPolicy: one.deletionPolicy,
    },
  })
  const run = new Run(stage, parent)
  const { phase, condition } = await run.expect(expected(one), 'at first')
  const word = `VecCollection ${phase} ${condition.split(' ').at(-1)}`
  if (phase !== 'Ready' && JSON.stringify(engine) !== before) {
    throw new Broken(`wrote to the engine while ${condition}`)
  }
  if (phase !== 'Ready') {
    const access = one.access === 'denied' ? 'allowed' : one.access
    const healed: CollectionCase = { ...one, cluster: 'Running', access, isEngineSilent: false }
    surround(stage, healed)
    stage.engine = answering
    await run.expect(expected(healed), 'once nothing is missing')
  }
  checkSize(engine, one)
  await checkDeletion(run, engine, one)
  return word
}

function surround(stage: Stage, { cluster, access }: CollectionCase): void {
  putCluster(stage, { state: cluster, access })
  const namespace = namespaceOf(access)
  putSecret(stage, { namespace, name: 'vec-main-apikey', state: 'good' }, ['api-key'])
}

function checkSize(engine: EngineCluster, one: CollectionCase): void {
  const size = engine.find('c')?.config.params.vectors['size']
  const expectedSize = one.existing === 'otherSize' ? one.size + 1 : one.size
  if (Number(size) !== expectedSize) throw new Broken(`the collection has size ${String(size)}`)
}

async function checkDeletion(run: Run, engine: EngineCluster, one: CollectionCase): Promise<void> {
  const { stage, parent } = run
  const { namespace = '', name } = parent.metadata
  const kind = stage.resources.kinds.of(API_VERSION, 'VecCollection')
  stage.resources.delete(kind, { namespace, name })
  for (let count = 0; run.live !== undefined; count += 1) {
    if (count === MAX_PASSES) throw new Broken('its deletion has no end')
    await run.pass()
    await stage.later(31)
  }
  const isThere = engine.find('c') !== undefined
  if (one.deletionPolicy === 'Retain' && !isThere) throw new Broken('deleted what is to stay')
  const isOurs = one.existing === 'none'
  if (one.deletionPolicy === 'Delete' && isOurs && isThere) {
    throw new Broken('left the collection it had created')
  }
}

const MAX_PASSES = 14
