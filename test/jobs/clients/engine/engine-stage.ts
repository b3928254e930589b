/** Engine clients for tests of single endpoints: of nodes of the double, or of an engine whose answers a test writes. */
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import {
  EngineConnections,
  urlTransport,
  type EngineCall,
} from '../../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'

const log = jobLog({ LOG_LEVEL: 'ERROR' })

/** Nodes of one cluster, each with its client and its peer id. */
export async function engineNodes(t: Test, count = 1, version = '1.18.3') {
  const cluster = new EngineCluster({ name: 'vec-a', version, staleMs: 0 })
  const connections = new EngineConnections()
  const nodes = await Promise.all(
    Array.from({ length: count }, (_, ordinal) => startEngineNode({ ordinal, cluster })),
  )
  t.teardown(async () => {
    await connections.close()
    await Promise.all(nodes.map((node) => node.close()))
  })
  const clients = nodes.map((node, ordinal) => {
    const url = `http://127.0.0.1:${node.port}`
    const transport = urlTransport(url, connections)
    const engine = new Engine({ transport, log, credentials: async () => ({}) })
    return { node, url, engine, peer: cluster.peer(ordinal).id }
  })
  const [first] = clients
  if (first === undefined) throw new Error('there is no node')
  return { cluster, clients, first }
}

/** An engine that answers every call with this result, and what it was sent. */
export function recordedEngine(result: unknown = true) {
  const calls: (EngineCall & { sent: string })[] = []
  const record = async (call: EngineCall) => {
    calls.push({
      ...call,
      sent: call.body instanceof Readable ? await text(call.body) : (call.body ?? ''),
    })
    return JSON.stringify({ result, status: 'ok' })
  }
  const transport = {
    node: 'node 0',
    send: async (call: EngineCall) => ({ status: 200, text: await record(call) }),
    open: async (call: EngineCall) => ({
      status: 200,
      body: Readable.from([Buffer.from(await record(call))]),
    }),
  }
  return { calls, engine: new Engine({ transport, log, credentials: async () => ({}) }) }
}

/** Whether the client waits longer than the time limit that it passes to the engine. */
export function outlastsEngine(call: Pick<EngineCall, 'path' | 'timeoutMs'> | undefined): boolean {
  const { searchParams } = new URL(call?.path ?? '/', 'http://engine')
  const seconds = Number(searchParams.get('timeout'))
  return seconds > 0 && (call?.timeoutMs ?? 0) > seconds * 1000
}
