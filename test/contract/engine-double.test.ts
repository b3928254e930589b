/** The engine double as its pods run it: the command line and the files of the real one, a process a node. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { EngineConnections, urlTransport } from '../../jobs/clients/engine/transport.ts'
import { Engine } from '../../jobs/clients/engine/client.ts'
import { jobLog } from '../../jobs/log.ts'
import { matchWhole } from '../match-whole.ts'

const MAIN = fileURLToPath(new URL('../doubles/engine/main.ts', import.meta.url))

interface Node {
  process: ChildProcess
  engine: Engine
  url: string
}

/** Starts the nodes of one engine; each has its own folder and ports, as each pod has. */
async function engineOf(t: Test, size: number) {
  const folder = t.testdir({})
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const p2p = await freePorts(size)
  const http = await freePorts(size)
  const grpc = await freePorts(size)
  const uri = (ordinal: number) => `http://127.0.0.1:${p2p[ordinal] ?? 0}`

  const start = async (ordinal: number): Promise<Node> => {
    const home = join(folder, String(ordinal))
    mkdirSync(join(home, 'config'), { recursive: true })
    mkdirSync(join(home, 'storage'), { recursive: true })
    const config = {
      cluster: { enabled: true, p2p: { port: p2p[ordinal] } },
      service: { http_port: http[ordinal], grpc_port: grpc[ordinal] },
    }
    writeFileSync(join(home, 'config', 'production.yaml'), stringify(config))
    writeFileSync(join(home, 'config', 'local.yaml'), 'service:\n  api_key: k')
    const joins = ordinal === 0 ? [] : ['--bootstrap', uri(0)]
    const child = spawn(process.execPath, [MAIN, '--uri', uri(ordinal), ...joins], {
      env: { ...process.env, HOSTNAME: `vec-a-${ordinal}`, ENGINE_FOLDER: home },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    const url = `http://127.0.0.1:${http[ordinal] ?? 0}`
    const route = urlTransport(url, connections)
    const log = jobLog({ LOG_LEVEL: 'ERROR' })
    const engine = new Engine({ transport: route, log, credentials: async () => ({ key: 'k' }) })
    return { process: child, engine, url }
  }
  return { start }
}

async function ready(node: Node): Promise<void> {
  while ((await node.engine.notReadyReason()) !== undefined) await pause(node)
}

/** Between two questions; a process that has ended, for example without its port, never answers. */
async function pause({ process: { exitCode } }: Node): Promise<void> {
  if (exitCode !== null) throw new Error(`the node has ended with code ${exitCode}`)
  await new Promise((resolve) => setTimeout(resolve, 10))
}

t.test('nodes join the first one and answer as one engine', async (t) => {
  const { start } = await engineOf(t, 2)
  const second = await start(1)
  while ((await second.engine.version().catch(() => undefined)) === undefined) {
    await pause(second)
  }
  t.match(await second.engine.notReadyReason(), /answered 503/, 'no peer to join yet')
  const first = await start(0)
  await ready(first)
  await ready(second)

  const [one, two] = [await first.engine.cluster(), await second.engine.cluster()]
  if (one.status === 'disabled' || two.status === 'disabled') throw new Error('distributed mode')
  t.strictSame(one.peers, two.peers)
  t.not(one.peer_id, two.peer_id)

  const made = await fetch(`${second.url}/collections/docs`, {
    method: 'PUT',
    headers: { 'api-key': 'k', 'content-type': 'application/json' },
    body: '{"shard_number": 2}',
  })
  t.strictSame(await made.json(), { result: true, status: 'ok', time: 0.000012 })
  t.strictSame(await first.engine.collections(), ['docs'])
  matchWhole(t, await second.engine.collectionCluster('docs'), {
    peer_id: two.peer_id,
    local_shards: [{ state: 'Active' }],
    remote_shards: [{ peer_id: one.peer_id }],
  })
  t.equal((await fetch(`${second.url}/collections`)).status, 401)

  await t.test('and what they agreed on outlives a restart of the first', async (t) => {
    first.process.kill('SIGTERM')
    await once(first.process, 'close')
    await t.rejects(second.engine.collections(), { status: 500, message: /leader is not establ/ })
    const again = await start(0)
    await ready(again)
    t.strictSame(await again.engine.collections(), ['docs'])
    t.match(await again.engine.cluster(), { peer_id: one.peer_id })
  })
})

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      return server
    }),
  )
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}
