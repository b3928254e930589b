/** What a VecCollection writes while the pods of its cluster have different versions of the engine. */
import t, { type Test } from 'tap'
import type { CollectionSpec } from '../../../crds/collection.ts'
import { Engine } from '../../../jobs/clients/engine/client.ts'
import { EngineCollections } from '../../../jobs/clients/engine/collections.ts'
import { EngineConnections, urlTransport } from '../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../jobs/log.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { matchWhole } from '../../match-whole.ts'
import { collection, CollectionHarness, keywordIndex, vector, writeNames } from './stage.ts'

const MIXED = ['1.17.1', '1.18.3']

function waitingFor(paths: string): string {
  return `the pods have the versions 1.17.1, 1.18.3: waiting until they have the same minor version to write ${paths}`
}

/** A collection that matches this spec, and whose pods then have two versions. */
async function heldUpdate(spec: Partial<CollectionSpec> = {}): Promise<CollectionHarness> {
  const stage = new CollectionHarness(collection(spec))
  await stage.syncUntilStable()
  stage.engine.writes.length = 0
  stage.podVersions = MIXED
  return stage
}

function ready({ parent }: CollectionHarness) {
  return parent.status?.conditions?.find(({ type }) => type === 'Ready')
}

const CHANGES: [spec: Partial<CollectionSpec>, paths: string, write: string][] = [
  [{ quantization: { turbo: {} } }, 'quantization', 'patchCollection'],
  [{ hnsw: { m: 8, ef_construct: 90 } }, 'hnsw.m, hnsw.ef_construct', 'patchCollection'],
  [{ optimizers: { max_segment_size: 9 } }, 'optimizers.max_segment_size', 'patchCollection'],
  [{ strictMode: { enabled: true } }, 'strictMode.enabled', 'patchCollection'],
  [
    { vectors: [{ ...vector, quantization: { binary: {} } }] },
    'vectors[0].quantization',
    'patchCollection',
  ],
  [
    { payloadIndexes: [{ ...keywordIndex('a'), params: { is_tenant: true } }] },
    'payloadIndexes[a].params',
    'putIndex',
  ],
]

for (const [spec, paths, write] of CHANGES) {
  t.test(`${paths}: written once the pods have one minor version`, async (t) => {
    const stage = await heldUpdate()
    stage.applySpec(spec)
    const status = await stage.syncUntilStable()
    t.equal(status.phase, 'Ready', 'the last one that was determined')
    t.equal(status.ignored, undefined)
    t.match(ready(stage), { status: 'False', reason: 'Waiting', message: waitingFor(paths) })
    t.strictSame(stage.engine.writes, [])

    stage.podVersions = ['1.18.2', '1.18.3']
    stage.advance(30)
    t.equal((await stage.syncUntilStable()).phase, 'Ready')
    t.match(ready(stage), { status: 'True', reason: 'CollectionReady' })
    t.strictSame(writeNames(stage.engine.writes), [write])
  })
}

t.test('a collection with values for the engine is created afterwards', async (t) => {
  const spec = { hnsw: { m: 8 }, wal: { wal_capacity_mb: 8 } }
  const stage = new CollectionHarness(collection(spec))
  stage.podVersions = MIXED
  const { resyncAfterSeconds, status } = await stage.sync()
  t.equal(resyncAfterSeconds, 30)
  matchWhole(t, status, {
    phase: 'Pending',
    collectionName: 'docs',
    conditions: [
      {
        type: 'Ready',
        status: 'False',
        reason: 'Waiting',
        message: waitingFor('hnsw.m, wal.wal_capacity_mb'),
      },
    ],
  })
  t.strictSame(stage.engine.writes, [])
  stage.podVersions = []
  stage.advance(30)
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
})

t.test('what every version knows is written at once', async (t) => {
  const created = new CollectionHarness(collection())
  created.podVersions = MIXED
  t.equal((await created.syncUntilStable()).phase, 'Ready')

  const stage = await heldUpdate({ payloadIndexes: [keywordIndex('a')] })
  // A held update may wait for the factor (SingleCopies).
  stage.applySpec({
    ...{ replicationFactor: 2, onDiskPayload: false, aliases: ['live'] },
    payloadIndexes: [keywordIndex('b')],
  })
  const status = await stage.syncUntilStable()
  t.equal(status.phase, 'Ready')
  t.strictSame([status.payloadIndexes, status.aliases], [['b'], ['live']])
  t.strictSame(
    writeNames(stage.engine.writes).toSorted(),
    ['deleteIndex', 'patchCollection', 'putIndex', 'updateAliases'].toSorted(),
  )
})

t.test('of several changes, those that every version knows are written at once', async (t) => {
  const stage = await heldUpdate()
  stage.applySpec({ replicationFactor: 2, hnsw: { m: 8 } })
  await stage.syncUntilStable()
  t.match(ready(stage), { reason: 'Waiting', message: waitingFor('hnsw.m') })
  t.strictSame(stage.engine.writes, [
    ['patchCollection', 'docs', { params: { replication_factor: 2 } }],
  ])
  stage.applySpec({
    hnsw: {},
    payloadIndexes: [keywordIndex('a'), { ...keywordIndex('b'), params: { is_tenant: true } }],
  })
  await stage.syncUntilStable()
  t.match(ready(stage), { reason: 'Waiting', message: waitingFor('payloadIndexes[b].params') })
  t.strictSame(stage.engine.writes.slice(1), [
    ['putIndex', 'docs', { field_name: 'a', field_schema: 'keyword' }],
  ])
  t.strictSame(stage.parent.status?.payloadIndexes, ['a', 'b'])
})

t.test('a pass without a change does not ask for the versions', async (t) => {
  const stage = await heldUpdate({ hnsw: { m: 8 }, payloadIndexes: [keywordIndex('a')] })
  stage.ports.podVersions = async () => {
    throw new Error('asked')
  }
  t.equal((await stage.syncNextInterval()).phase, 'Ready')
})

/** Nodes 0 and 1 of a cluster, and the engine as the Service routes: to node 1. */
async function mixedNodes(t: Test) {
  const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const start = (ordinal: number, version: string) => startEngineNode({ ordinal, cluster, version })
  const nodes = [await start(0, '1.17.1'), await start(1, '1.18.3')]
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    for (const node of nodes) await node.close()
  })
  const engine = new Engine({
    transport: urlTransport(`http://127.0.0.1:${nodes[1]?.port}`, connections),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    credentials: async () => ({}),
  })
  return { cluster, start, nodes, engine: new EngineCollections(engine) }
}

t.test('H24: a kind of quantization that an older node cannot read does not stop it', async (t) => {
  const { cluster, start, nodes, engine } = await mixedNodes(t)
  cluster.createCollection('docs')
  const stage = new CollectionHarness(
    collection({ vectors: [], quantization: { turbo: { bits: 'bits4' } } }),
    // The engine is called over a connection: a hook has to wait for its answers.
    60_000,
  )
  Object.assign(stage.ports, { engine: () => engine })
  stage.podVersions = MIXED
  await stage.syncUntilStable()
  t.match(ready(stage), { reason: 'Waiting', message: waitingFor('quantization') })
  t.equal(cluster.consensusError(0), undefined)

  await nodes[0]?.close()
  nodes[0] = await start(0, '1.18.3')
  stage.podVersions = ['1.18.3']
  stage.advance(30)
  t.equal((await stage.syncUntilStable()).phase, 'Ready')
  t.equal(cluster.consensusError(0), undefined)
  t.match(await engine.collectionInfo('docs', new AbortController().signal), {
    config: { quantization_config: { turbo: { bits: 'bits4' } } },
  })
})
