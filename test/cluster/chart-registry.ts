/**
 * The engine's chart in an OCI registry, as a company has one: with a certificate of its own authority, and for one user.
 * The registry is crane's and is reached from this machine only; a gate in front of it has the certificate and asks for
 * the credentials.
 */
import { once } from 'node:events'
import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, get } from 'node:https'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'

import { newAuthority, newCertificate } from '../../metacontroller/identity/certificates.ts'
import { INSTALLABLE_VERSIONS } from './engines.ts'
import type { LocalCluster } from './local.ts'
import { portAnswers, waitFor } from './process.ts'
import { prepareRegistry, type Log } from './tools.ts'

const REGISTRY_PORT = 8882
const GATE_PORT = 8881
const FOLDER = 'charts'
const USERNAME = 'robot'

/** Name of the Secret that the operator pulls the chart with. */
export const CHART_PULL_SECRET = 'chart-registry'

/** A request with the credentials. */
export interface RegistryCall {
  /** Address of the client. */
  readonly from: string
  readonly method: string
  readonly path: string
  /** HTTP status of the answer. */
  readonly status: number
}

export interface ChartRegistry {
  /** An oci:// address that pods reach. */
  readonly address: string
  /** PEM of the authority that signs its certificate. */
  readonly ca: string
  /** HTTP statuses of the registry: with the credentials and without. */
  statuses(): Promise<[number, number]>
  /** Requests with the credentials so far, oldest first. */
  calls(): RegistryCall[]
  close(): Promise<void>
}

/** Starts the registry with the charts that `serveEngineChart` has packaged, and creates the Secret. */
export async function openChartRegistry(
  cluster: LocalCluster,
  namespace: string,
  log: Log,
): Promise<ChartRegistry> {
  const backend = await startRegistry(cluster, log)
  for (const version of INSTALLABLE_VERSIONS) {
    const chart = join(cluster.directory, 'charts', `qdrant-${version}.tgz`)
    await cluster.helm(['push', chart, `oci://${backend}/${FOLDER}`, '--plain-http'])
  }
  const password = crypto.randomUUID()
  const authorization = `Basic ${Buffer.from(`${USERNAME}:${password}`).toString('base64')}`
  const gate = await openGate({ cluster, backend, authorization })
  const secret = pullSecret(gate.host, authorization, namespace)
  await cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(secret) })
  return { ...gate, address: `oci://${gate.host}/${FOLDER}` }
}

async function startRegistry(cluster: LocalCluster, log: Log): Promise<string> {
  const host = '127.0.0.1'
  const address = `${host}:${REGISTRY_PORT}`
  const command = await prepareRegistry(log)
  const args = ['registry', 'serve', '--address', address]
  cluster.startHostProcess({ name: 'registry', command, args })
  await waitFor('the registry', () => portAnswers(host, REGISTRY_PORT))
  return address
}

interface GateOptions {
  readonly cluster: LocalCluster
  /** Host and port of the registry. */
  readonly backend: string
  /** The header that is asked for. */
  readonly authorization: string
}

async function openGate({ cluster: { nodeAddress }, backend, authorization }: GateOptions) {
  const calls: RegistryCall[] = []
  const now = new Date()
  const authority = newAuthority(now, 1)
  const certificate = newCertificate(authority, [nodeAddress], now, { days: 1 })
  const gate = createServer(certificate, (incoming, response) => {
    if (incoming.headers.authorization !== authorization) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="charts"' }).end()
      return
    }
    response.once('finish', () => calls.push(callOf(incoming, response)))
    // A client that has disconnected gets no answer.
    forward(backend, incoming, response).catch(() => response.destroy())
  })
  gate.listen(GATE_PORT, nodeAddress)
  await once(gate, 'listening')
  const host = `${nodeAddress}:${GATE_PORT}`
  return {
    host,
    ca: authority.cert,
    calls: () => [...calls],
    statuses: async (): Promise<[number, number]> => [
      await statusOf(host, authority.cert, { authorization }),
      await statusOf(host, authority.cert, {}),
    ],
    async close() {
      gate.close()
      gate.closeAllConnections()
      await once(gate, 'close')
    },
  }
}

async function forward(backend: string, incoming: IncomingMessage, response: ServerResponse) {
  const { method, url: path, headers } = incoming
  const [host, port] = backend.split(':')
  const passed = request({ host, port, method, path, headers })
  const answered = once(passed, 'response') as Promise<[IncomingMessage]>
  // A failed request shows as a missing response below.
  pipeline(incoming, passed).catch(() => undefined)
  const [answer] = await answered
  response.writeHead(answer.statusCode ?? 502, answer.headers)
  await pipeline(answer, response)
}

function callOf(
  { socket, method = '', url = '' }: IncomingMessage,
  { statusCode }: ServerResponse,
) {
  return { from: socket.remoteAddress ?? '', method, path: url, status: statusCode }
}

async function statusOf(host: string, ca: string, headers: Record<string, string>) {
  const call = get(`https://${host}/v2/`, { ca, headers })
  const [answer] = (await once(call, 'response')) as [IncomingMessage]
  answer.resume()
  return answer.statusCode ?? 0
}

function pullSecret(host: string, authorization: string, namespace: string) {
  const auths = { [host]: { auth: authorization.replace('Basic ', '') } }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: CHART_PULL_SECRET, namespace },
    type: 'kubernetes.io/dockerconfigjson',
    stringData: { '.dockerconfigjson': JSON.stringify({ auths }) },
  }
}
