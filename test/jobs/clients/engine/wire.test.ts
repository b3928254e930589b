/** What the engine clients send, as it is on the wire: parameters on which the safety of data depends. */
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { EngineCollections } from '../../../../jobs/clients/engine/collections.ts'
import { EnginePoints } from '../../../../jobs/clients/engine/points.ts'
import { EngineRecovery } from '../../../../jobs/clients/engine/recovery.ts'
import { EngineSnapshots } from '../../../../jobs/clients/engine/snapshots.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { http2Server } from '../../../doubles/http2-server.ts'
import { ONE } from '../../../metacontroller/certificates.ts'
import { recordedEngine } from './engine-stage.ts'

const log = jobLog({ LOG_LEVEL: 'ERROR' })
const MOVE = { shard_id: 1, from_peer_id: 2, to_peer_id: 3 }

t.test('calls that all nodes have to agree on wait longer than the engine itself', async (t) => {
  const { calls, engine } = recordedEngine()
  const recovery = new EngineRecovery(engine)
  const collections = new EngineCollections(engine)
  await recovery.createShardKey('docs', { key: 'a', shards: 1 })
  await recovery.deleteShardKey('docs', 'a')
  await recovery.moveShard('docs', MOVE)
  await recovery.dropReplica('docs', { shard_id: 1, peer_id: 2 })
  await collections.createCollection('docs', {})
  await collections.patchCollection('docs', {})
  await collections.deleteCollection('docs')
  await collections.updateAliases([])
  t.equal(calls.length, 8)
  for (const { path, timeoutMs } of calls) {
    const seconds = Number(new URL(path, 'http://engine').searchParams.get('timeout'))
    t.ok(seconds > 0, `${path} passes its time limit to the engine`)
    t.ok(timeoutMs > seconds * 1000, `${path} is not given up before`)
  }
})

t.test('an index is built after the answer: no hook waits for it', async (t) => {
  const { calls, engine } = recordedEngine({})
  const collections = new EngineCollections(engine)
  await collections.putIndex('docs', { field_name: 'a', field_schema: { type: 'keyword' } })
  await collections.deleteIndex('docs', 'a')
  t.strictSame(
    calls.map(({ path }) => path),
    ['/collections/docs/index?wait=false', '/collections/docs/index/a?wait=false'],
  )
})

t.test('calls about points may take an hour, calls of hooks half a minute', async (t) => {
  const page = recordedEngine({ points: [], next_page_offset: null })
  await new EnginePoints(page.engine).scroll('docs', { limit: 10 })
  const written = recordedEngine({})
  await new EnginePoints(written.engine).upsert('docs', [Buffer.from('[]')])
  const found = recordedEngine([])
  await new EnginePoints(found.engine).retrieve('docs', ['1'])
  const count = recordedEngine({ count: 3 })
  await new EngineSnapshots(count.engine).exactCount('docs')
  const long = [...page.calls, ...written.calls, ...found.calls, ...count.calls]
  t.strictSame(
    long.map(({ path, timeoutMs }) => [path, timeoutMs]),
    [
      ['/collections/docs/points/scroll', 3_600_000],
      ['/collections/docs/points?wait=true', 3_600_000],
      ['/collections/docs/points', 3_600_000],
      ['/collections/docs/points/count', 3_600_000],
    ],
  )
  const { calls, engine } = recordedEngine({})
  const collections = new EngineCollections(engine)
  await collections.putIndex('docs', { field_name: 'a', field_schema: { type: 'keyword' } })
  await collections.deleteIndex('docs', 'a')
  const writes = recordedEngine()
  const changes = new EngineCollections(writes.engine)
  await changes.patchCollection('docs', {})
  await changes.deleteCollection('docs')
  await changes.updateAliases([])
  for (const { path, timeoutMs } of [...calls, ...writes.calls]) t.equal(timeoutMs, 30_000, path)
  await changes.createCollection('docs', {})
  t.equal(writes.calls.at(-1)?.timeoutMs, 65_000, 'every replica is created before it answers')
})

t.test('a node answers once it has taken a snapshot, not before', async (t) => {
  const { calls, engine } = recordedEngine()
  const recovery = new EngineRecovery(engine)
  const source = Readable.from([Buffer.from('bytes')])
  const download = {
    url: 'http://store/x',
    priority: 'snapshot',
    size: 5,
    checksum: undefined,
  } as const
  await recovery.recover({ collection: 'docs' }, download)
  await recovery.upload(
    { collection: 'docs', shard: 1 },
    { file: 'x.snapshot', source, size: 5, priority: 'snapshot', beforeEnd: async () => undefined },
  )
  t.equal(calls.length, 2)
  for (const { path } of calls) {
    const { searchParams } = new URL(path, 'http://engine')
    t.equal(searchParams.get('wait'), 'true', path)
  }
})

/** A server on loopback, with every connection that was made to it. */
async function serverOf(t: Test, headers: Record<string, string> = {}) {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    response.writeHead(200, headers).end('{"result":{},"status":"ok"}')
  })
  server.keepAliveTimeout = 0
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const route = urlTransport(`http://127.0.0.1:${port}`, connections)
  const engine = new Engine({ transport: route, log, credentials: async () => ({}) })
  return { engine, requests }
}

t.test('a download is asked for as it is stored, not compressed', async (t) => {
  const { engine, requests } = await serverOf(t)
  const body = await engine.open('/collections/docs/snapshots/x', 10_000)
  await text(body)
  t.equal(requests[0]?.headers['accept-encoding'], 'identity')
})

t.test('an idle connection is closed by the client, before the engine does it', async (t) => {
  const { engine, requests } = await serverOf(t)
  await engine.notReadyReason()
  const socket = requests[0]?.socket
  if (socket === undefined) throw new Error('nothing was asked')
  // The engine closes it after five seconds, which it announces in no header. In short waits: where the machine
  // stands still, the client gets its turn all the same.
  for (let waits = 0; waits < ENGINE_IDLE_MS / WAIT_MS && !socket.destroyed; waits += 1) {
    await sleep(WAIT_MS)
  }
  t.ok(socket.destroyed)
})

const ENGINE_IDLE_MS = 5_000
const WAIT_MS = 50

t.test('a node that stops answering fails no call but the one on its connection', async (t) => {
  const answer = JSON.stringify({ result: { collections: [{ name: 'docs' }] } })
  const { url, loseConnections } = await http2Server(t, { ...ONE, answer })
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const credentials = async () => ({ ca: ONE.cert })
  const engine = new Engine({ transport: urlTransport(url, connections), credentials, log })
  t.strictSame(await engine.collections(), ['docs'])
  loseConnections()
  const failures: unknown[] = []
  for (let count = 0; count < 3; count += 1)
    await engine
      .collections(AbortSignal.timeout(2_000))
      .catch((error: unknown) => failures.push(error))
  t.ok(failures.length <= 1, failures.join('; '))
})
