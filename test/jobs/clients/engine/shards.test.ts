/** Transfers of shards through engines of several versions. */
import t, { type Test } from 'tap'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { EngineShards } from '../../../../jobs/clients/engine/shards.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'

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

t.test('an engine chooses the method of a transfer itself from 1.18.0 on', async (t) => {
  t.equal(await sentTransfer(t, '1.18.0'), undefined)
  t.equal(await sentTransfer(t, '1.19.0', { prevent_unoptimized: true }), undefined)
})

t.test('an older engine is asked for its default: it would leave the method open', async (t) => {
  t.equal(await sentTransfer(t, '1.17.1'), 'stream_records')
  t.equal(await sentTransfer(t, '1.16.3', { prevent_unoptimized: null }), 'stream_records')
  t.equal(await sentTransfer(t, '1.17.1', { prevent_unoptimized: false }), 'stream_records')
})

t.test('points that are not indexed would be hidden on the target: a snapshot', async (t) => {
  t.equal(await sentTransfer(t, '1.17.1', { prevent_unoptimized: true }), 'snapshot')
})

t.test('a snapshot would lock a collection that gets and loses shard keys', async (t) => {
  const keyed = { sharding_method: 'custom' }
  t.equal(await sentTransfer(t, '1.18.0', {}, keyed), 'stream_records')
  t.equal(await sentTransfer(t, '1.19.0', { prevent_unoptimized: false }, keyed), 'stream_records')
  t.equal(await sentTransfer(t, '1.17.1', {}, keyed), 'stream_records')
  // Hidden points are worse than a lock that only a change of shard keys makes.
  t.equal(await sentTransfer(t, '1.18.0', { prevent_unoptimized: true }, keyed), undefined)
})
