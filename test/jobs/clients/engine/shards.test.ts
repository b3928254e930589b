/** What nodes report about shards, changes of replicas and peers, and transfers through engines of several versions. */
import t, { type Test } from 'tap'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { EngineResharding } from '../../../../jobs/clients/engine/resharding.ts'
import { EngineShards } from '../../../../jobs/clients/engine/shards.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { UNAVAILABLE } from '../../../doubles/engine/misbehaviour.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ask } from '../../restore/collection-state.ts'
import { engineNodes, outlastsEngine, recordedEngine } from './engine-stage.ts'

const SILENT = jobLog({}, { write: () => undefined })

/** Replicates the shard of a collection to the second node, and returns what the engine was sent. */
async function sentTransfer(
  t: Test,
  version: string,
  optimizers: object = {},
  params: object = {},
): Promise<unknown> {
  const cluster = new EngineCluster({ name: 'vec-a', version, staleMs: 0 })
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const nodes = [
    await startEngineNode({ ordinal: 0, cluster }),
    await startEngineNode({ ordinal: 1, cluster }),
  ]
  t.teardown(() => Promise.all(nodes.map((one) => one.close())))
  const [node] = nodes
  cluster.createCollection('docs', 1)
  const collection = cluster.find('docs')
  if (collection === undefined) throw new Error('there is no collection')
  Object.assign(collection.config.optimizer_config, optimizers)
  Object.assign(collection.config.params, params)
  let sent: unknown
  node?.misbehave(({ method, body }) => {
    if (method === 'POST') sent = body
    return undefined
  })
  const transport = urlTransport(`http://127.0.0.1:${node?.port ?? 1}`, connections)
  const engine = new EngineShards(
    new Engine({ transport, credentials: async () => ({}), log: SILENT }),
  )
  const [from, to] = [cluster.peer(0).id, cluster.peer(1).id]
  await engine.replicate({ collection: 'docs', shard: 0, from, to })
  t.strictSame(collection.shards[0]?.peers.toSorted(), [from, to].toSorted())
  return (sent as { replicate_shard: { method?: string } }).replicate_shard.method
}

t.test('a shard is streamed: a snapshot can lose a write', async (t) => {
  t.equal(await sentTransfer(t, '1.18.0'), 'stream_records')
  t.equal(await sentTransfer(t, '1.19.0', { prevent_unoptimized: false }), 'stream_records')
  t.equal(await sentTransfer(t, '1.17.1'), 'stream_records')
  t.equal(await sentTransfer(t, '1.16.3', { prevent_unoptimized: null }), 'stream_records')
  t.equal(await sentTransfer(t, '1.17.1', { prevent_unoptimized: false }), 'stream_records')
})

t.test('points that are not indexed would be hidden on the target: a snapshot', async (t) => {
  t.equal(await sentTransfer(t, '1.17.1', { prevent_unoptimized: true }), 'snapshot')
  // Newer engines choose it themselves.
  t.equal(await sentTransfer(t, '1.19.0', { prevent_unoptimized: true }), undefined)
})

t.test('a snapshot would lock a collection that gets and loses shard keys', async (t) => {
  const keyed = { sharding_method: 'custom' }
  t.equal(await sentTransfer(t, '1.18.0', {}, keyed), 'stream_records')
  t.equal(await sentTransfer(t, '1.19.0', { prevent_unoptimized: false }, keyed), 'stream_records')
  t.equal(await sentTransfer(t, '1.17.1', {}, keyed), 'stream_records')
  // Hidden points are worse than a lock that only a change of shard keys makes.
  t.equal(await sentTransfer(t, '1.18.0', { prevent_unoptimized: true }, keyed), undefined)
})

/** `docs` of one shard with ten points on the first of two nodes. */
async function twoNodes(t: Test) {
  const { cluster, clients, first } = await engineNodes(t, 2)
  cluster.createCollection('docs', 1)
  const [shard] = cluster.collections.get('docs')?.shards ?? []
  const [node, other] = clients.map(({ engine }) => new EngineShards(engine))
  if (node === undefined || other === undefined || shard === undefined) throw new Error('no shard')
  const points = Array.from({ length: 10 }, (_, id) => ({ id, vector: {} }))
  await ask(first.url, 'PUT', '/collections/docs/points?wait=true', { points })
  const [from = 0, to = 0] = clients.map(({ peer }) => peer)
  return { cluster, clients, first, shard, node, other, from, to }
}

t.test('a collection that does not exist has no placement; no answer is an error', async (t) => {
  const { node, first, from } = await twoNodes(t)
  matchWhole(t, await node.placement('docs'), {
    peer_id: from,
    local_shards: [{ points_count: 10 }],
  })
  t.equal(await node.placement('none'), undefined)
  first.node.misbehave(() => UNAVAILABLE)
  await t.rejects(node.placement('docs'), { code: 'EngineError', status: 503 })
  first.node.misbehave(() => ({ cut: 'before' }))
  await t.rejects(node.placement('docs'), { code: 'EngineError', message: /got no answer/ })
})

t.test('a node reports the consensus, its name, and its collections', async (t) => {
  const { node, first, from, to } = await twoNodes(t)
  t.equal(node.node, first.url)
  t.strictSame(await node.collections(), ['docs'])
  t.match(await node.cluster(), { peer_id: from, peers: { [String(to)]: { uri: String } } })
})

t.test('the points of a replica are counted on its node, exactly and about', async (t) => {
  const { node, other, first, shard } = await twoNodes(t)
  t.strictSame([await node.countPoints('docs', 0), await node.estimatePoints('docs', 0)], [10, 10])
  await t.rejects(other.countPoints('docs', 0), { code: 'EngineError', status: 500 })
  shard.unreadableOn = [0]
  t.equal(await node.estimatePoints('docs', 0), 'unreadable')
  await t.rejects(node.countPoints('docs', 0), { code: 'EngineError', status: 500 })
  first.node.misbehave(() => UNAVAILABLE)
  await t.rejects(node.estimatePoints('docs', 0), { code: 'EngineError', status: 503 })
  const { engine, calls } = recordedEngine({ count: 1 })
  await new EngineShards(engine).estimatePoints('a b', 2)
  await new EngineShards(engine).countPoints('a b', 2, { timeoutMs: 1234 })
  const path = '/collections/a%20b/shards/2/points/count'
  matchWhole(t, calls, [
    { path, sent: '{"exact":false}' },
    { path, sent: '{"exact":true}', timeoutMs: 1234 },
  ])
})

t.test('a transfer is aborted, and a replica is dropped unless it is the last one', async (t) => {
  const { cluster, node, shard, from, to } = await twoNodes(t)
  cluster.transferOutcome = () => 'stall'
  await node.replicate({ collection: 'docs', shard: 0, from, to })
  matchWhole(t, (await node.placement('docs'))?.shard_transfers, [{ shard_id: 0, from, to }])
  await node.abort({ collection: 'docs', shard: 0, from, to })
  const placement = await node.placement('docs')
  t.strictSame(placement?.shard_transfers, [])
  matchWhole(t, placement?.remote_shards, [{ shard_id: 0, peer_id: to, state: 'Dead' }])
  await t.rejects(node.drop('docs', 0, from), { status: 400, message: /at least one active/ })
  await node.drop('docs', 0, to)
  t.strictSame(shard.peers, [from])
})

t.test('a transfer of a resharding is aborted by both of its shards', async (t) => {
  const { engine, calls } = recordedEngine()
  const shards = new EngineShards(engine)
  const transfer = { collection: 'docs', shard: 0, from: 2, to: 3 }
  await shards.abort(transfer)
  await shards.abort({ ...transfer, toShard: 0 })
  const sent = { shard_id: 0, from_peer_id: 2, to_peer_id: 3 }
  t.strictSame(
    calls.map((call) => JSON.parse(call.sent) as object),
    [{ abort_transfer: sent }, { abort_transfer: { ...sent, to_shard_id: 0 } }],
  )
})

t.test('the engine is asked to wait five seconds for a change of shards', async (t) => {
  const { engine, calls } = recordedEngine()
  const shards = new EngineShards(engine)
  const resharding = new EngineResharding(engine)
  await shards.abort({ collection: 'docs', shard: 0, from: 2, to: 3 })
  await shards.drop('docs', 1, 7)
  await resharding.commitRead('docs')
  t.strictSame(
    calls.map(({ path }) => path),
    Array(3).fill('/collections/docs/cluster?timeout=5'),
  )
  for (const call of calls) t.ok(outlastsEngine(call), `${call.sent}: the engine gives up first`)
})

t.test('a peer is removed once it holds no shards, and may be gone already', async (t) => {
  const { cluster, node, from, to } = await twoNodes(t)
  await t.rejects(node.removePeer(from), { status: 400, message: /there are shards on it/ })
  await node.removePeer(to)
  await node.removePeer(to)
  t.strictSame(
    cluster.peers().map(({ id }) => id),
    [from],
  )
  const { engine, calls } = recordedEngine()
  const shards = new EngineShards(engine)
  await shards.removePeer(7)
  await shards.drop('docs', 1, 7)
  for (const call of calls) t.ok(outlastsEngine(call), `${call.path}: the engine gives up first`)
})

t.test('a node knows the parameters of its collections, and the sizes of its shards', async (t) => {
  const { cluster, node, other, shard } = await twoNodes(t)
  shard.vectorBytes = 1000
  const docs = cluster.collections.get('docs')
  const params = JSON.parse(JSON.stringify(docs?.config.params)) as object
  const bytes = new Map([[0, 1000 + 10 * 256]])
  t.strictSame(await node.facts(), new Map([['docs', { factor: 1, params, bytes }]]))
  t.strictSame((await other.facts()).get('docs')?.bytes, new Map(), 'it holds no shard')
  shard.unreadableOn = [0]
  Object.assign(docs?.config.optimizer_config ?? {}, { prevent_unoptimized: true })
  const expected = { factor: 1, bytes: new Map(), hidesUnindexed: true, isIncomplete: true }
  t.strictSame((await node.facts()).get('docs'), { ...expected, params })
})

t.test('values that a node does not report are unknown, and no unknown size is zero', async (t) => {
  const params = { replication_factor: null }
  const local = { vectors_size_bytes: 1, payloads_size_bytes: 2, num_points: null }
  const { engine, calls } = recordedEngine({
    collections: {
      collections: [
        { id: 'a' },
        { id: 'b', config: { params }, shards: null },
        {
          id: 'c',
          config: { params, optimizer_config: { prevent_unoptimized: null } },
          shards: [{ id: 4, local }, { id: 5, local: null }, { id: 6 }],
        },
      ],
    },
  })
  const unknown = { factor: undefined, bytes: new Map(), isIncomplete: true }
  t.strictSame(
    await new EngineShards(engine).facts(),
    new Map<string, object>([
      ['a', { ...unknown, params: undefined }],
      ['b', { ...unknown, params }],
      ['c', { factor: undefined, params, bytes: new Map([[4, 3]]) }],
    ]),
  )
  t.match(calls[0]?.path, /^\/telemetry\?details_level=3&/, 'the first level with shards')
  const none = recordedEngine({ collections: {} })
  t.strictSame(await new EngineShards(none.engine).facts(), new Map())
})
