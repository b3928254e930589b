/**
 * One node of the engine double in a pod, under the command line and the configuration files of the
 * real one. Node 0 keeps what all agree on, in its storage; the others ask it over the p2p port.
 */
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import { createServer as createTlsServer, request as tlsRequest } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { hostname } from 'node:os'
import { text } from 'node:stream/consumers'
import type { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { failed, type EngineAnswer, type EngineRequest } from './answers.ts'
import { EngineCluster } from './cluster.ts'
import { parseJson } from './json.ts'
import { parseConfig, type EngineConfig } from './config.ts'
import { answerAs, startEngineNode } from './node.ts'

interface Question {
  ordinal: number
  uri: string
  /** Absent: the node only joins. */
  request?: EngineRequest
}

type State = NonNullable<ConstructorParameters<typeof EngineCluster>[0]>['state']

const CONFIG_FILES = ['production.yaml', 'local.yaml']
const JOIN_EVERY_MS = 1_000
const ANSWER_WITHIN_MS = 10_000
const ANY_HOST = '::'

const flags = parseArgs({
  options: { uri: { type: 'string', default: '' }, bootstrap: { type: 'string' } },
}).values
const folder = process.env['ENGINE_FOLDER'] ?? '/qdrant'
const stateFile = `${folder}/storage/double.json`
const pod = process.env['HOSTNAME'] ?? hostname()
const ordinal = Number(/-(\d+)$/.exec(pod)?.[1] ?? 0)
const config = readConfig()
const tls = readTls(config)
const p2p = config.cluster?.p2p ?? {}
const alone = config.cluster?.enabled === false
const bootstrap = alone ? undefined : flags.bootstrap

const cluster = new EngineCluster({
  name: pod.replace(/-\d+$/, ''),
  version: process.env['ENGINE_VERSION'] ?? '1.18.3',
  enabled: !alone,
  ...readState(),
})
cluster.join(ordinal, flags.uri)
const node = await startEngineNode({
  ordinal,
  cluster,
  config,
  host: ANY_HOST,
  port: config.service?.http_port ?? 6333,
  ...(config.service?.enable_tls && tls !== undefined && { tls }),
  ready: bootstrap === undefined,
  agreed: async (request) =>
    bootstrap === undefined
      ? answerHere(ordinal, request)
      : ask({ ordinal, uri: flags.uri, request }),
})
listenForPeers()
createTcpServer((socket) => socket.end()).listen(config.service?.grpc_port ?? 6334, ANY_HOST)
process.once('SIGTERM', () => process.exit(0))
log(`node ${ordinal} listens on ${node.port}`)
await join()

/** Ready once the first node knows us; the container would be restarted if it could not be reached. */
async function join(): Promise<void> {
  while (bootstrap !== undefined) {
    const answer = await ask({ ordinal, uri: flags.uri })
    if (answer.status === 200) break
    log(`cannot join yet: ${JSON.stringify(answer.body)}`)
    await setTimeout(JOIN_EVERY_MS)
  }
  node.setReady(true)
  log('ready')
}

async function answerHere(asked: number, request: EngineRequest): Promise<EngineAnswer> {
  const answer = await answerAs(cluster, asked, request)
  if (request.method !== 'GET') saveState()
  return answer
}

/** Asks node 0 what this node would know by consensus. */
async function ask(question: Question): Promise<EngineAnswer> {
  const send = p2p.enable_tls ? tlsRequest : httpRequest
  return new Promise((resolve) => {
    const call = send(
      bootstrap ?? '',
      { method: 'POST', rejectUnauthorized: false, timeout: ANSWER_WITHIN_MS },
      (answer) => resolve(received(answer) as Promise<EngineAnswer>),
    )
    call.on('timeout', () => call.destroy(new Error('timed out')))
    call.on('error', ({ message }) =>
      resolve(failed(500, `Service internal error: leader is not established: ${message}`)),
    )
    call.end(JSON.stringify(question))
  })
}

function listenForPeers(): void {
  const server = p2p.enable_tls && tls !== undefined ? createTlsServer(tls) : createServer()
  server.on('request', (request, response) => {
    void received(request).then(async (body) => {
      const question = body as Question
      cluster.join(question.ordinal, question.uri)
      saveState()
      const answer = question.request && (await answerHere(question.ordinal, question.request))
      response.end(JSON.stringify(answer ?? { status: 200, body: {} }))
    })
  })
  server.listen(p2p.port ?? 6335, ANY_HOST)
}

async function received(stream: Readable): Promise<unknown> {
  return parseJson(await text(stream))
}

function readConfig(): EngineConfig {
  // A Secret without the file leaves an empty folder in its place, and the engine open.
  const files = CONFIG_FILES.map((file) => `${folder}/config/${file}`).filter((path) =>
    statSync(path, { throwIfNoEntry: false })?.isFile(),
  )
  return parseConfig(
    files.map((path) => readFileSync(path, 'utf8')),
    process.env,
  )
}

function readTls({ tls: paths = {} }: EngineConfig) {
  if (paths.cert === undefined || paths.key === undefined) return undefined
  return { cert: readFileSync(paths.cert, 'utf8'), key: readFileSync(paths.key, 'utf8') }
}

function readState(): { state?: NonNullable<State> } {
  if (!existsSync(stateFile)) return {}
  return { state: parseJson(readFileSync(stateFile, 'utf8')) as NonNullable<State> }
}

function saveState(): void {
  // In one step: a node that is killed while it writes must find the old state or the new one.
  writeFileSync(`${stateFile}.new`, JSON.stringify(cluster))
  renameSync(`${stateFile}.new`, stateFile)
}

function log(message: string): void {
  process.stdout.write(`${new Date().toISOString()} INFO ${message}\n`)
}
