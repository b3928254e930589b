/** Names that would lead a path of the engine to another resource are rejected before anything is sent. */
import t from 'tap'
import { EngineCollections } from '../../../../jobs/clients/engine/collections.ts'
import { EnginePoints } from '../../../../jobs/clients/engine/points.ts'
import { EngineRecovery } from '../../../../jobs/clients/engine/recovery.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { EngineSnapshots } from '../../../../jobs/clients/engine/snapshots.ts'
import { countPoints } from '../../../../jobs/clients/engine/statistics.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'

const CALLS: [string, (engine: Engine, name: string) => Promise<unknown>][] = [
  [
    'deletion of a snapshot',
    async (engine, name) => new EngineSnapshots(engine).delete('docs', name),
  ],
  [
    'download of a snapshot',
    async (engine, name) =>
      new EngineSnapshots(engine).download('docs', { name, size: 1, checksum: null }),
  ],
  ['snapshots of a collection', async (engine, name) => new EngineSnapshots(engine).list(name)],
  ['placement of a collection', async (engine, name) => engine.collectionCluster(name)],
  [
    'deletion of a collection',
    async (engine, name) => new EngineCollections(engine).deleteCollection(name),
  ],
  [
    'deletion of an index',
    async (engine, name) => new EngineCollections(engine).deleteIndex('docs', name),
  ],
  [
    'recovery of a collection',
    async (engine, collection) =>
      new EngineRecovery(engine).recover(
        { collection },
        { url: 'http://127.0.0.1/x', priority: 'snapshot', checksum: '0', size: 1 },
      ),
  ],
  ['retrieved points', async (engine, name) => new EnginePoints(engine).retrieve(name, ['1'])],
  ['count of a collection', async (engine, collection) => countPoints(engine, { collection })],
  ['count of a shard', async (engine, collection) => countPoints(engine, { collection, shard: 0 })],
]

for (const [what, call] of CALLS) {
  t.test(`${what}: the names '', '.' and '..' are rejected, and nothing is sent`, async (t) => {
    const cluster = new EngineCluster({ staleMs: 0 })
    const node = await startEngineNode({ ordinal: 0, cluster })
    const connections = new EngineConnections()
    t.teardown(async () => {
      await connections.close()
      await node.close()
    })
    cluster.createCollection('docs')
    const sent: string[] = []
    node.misbehave(({ method, path }) => {
      sent.push(`${method} ${path.join('/')}`)
      return undefined
    })
    const log = jobLog({ LOG_LEVEL: 'ERROR' })
    const route = urlTransport(`http://127.0.0.1:${node.port}`, connections)
    const engine = new Engine({ transport: route, log, credentials: async () => ({}) })
    for (const name of ['', '.', '..']) {
      await t.rejects(call(engine, name), {
        code: 'Rejected',
        message: `${JSON.stringify(name)} is not a valid name in an engine path`,
      })
    }
    t.strictSame(sent, [])
    t.ok(cluster.collections.has('docs'))
    await call(engine, 'docs').catch(() => undefined)
    t.not(sent.length, 0, 'a valid name')
  })
}
