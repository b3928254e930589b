/**
 * The real service as a process, with the flags of its Deployment and with TLS, on the embedded API; next to it an engine
 * that answers what an attack wants. What counts is the most memory of its own that the process ever had.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { parse } from 'yaml'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { ONE } from '../metacontroller/certificates.ts'
import { program } from '../program.ts'
import { serviceFlags } from '../service-flags.ts'
import { startApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { systemClock } from '../world/clock.ts'
import { TOKEN, trustService } from './healthy.ts'
import type { MemoryCgroup } from './memory-cgroup.ts'

const ROOT = join(import.meta.dirname, '../..')
export const MIB = 1024 * 1024
/** A port that no other process on this machine uses. */
const ENGINE_HOST = `127.${10 + (process.pid % 200)}.${process.ppid % 250}.9`
const RELEASE = (
  JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
).version

export type Ground = Awaited<ReturnType<typeof startGround>>

/** The folder is for the files of the service; with a cgroup, the service runs in it. */
export async function startGround(folder: string, cgroup?: MemoryCgroup) {
  const api = await startApi(systemClock)
  const client = new ApiClient({ server: api.url, token: api.token })
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  for (const resource of RESOURCES) await client.create(customResourceDefinition(resource, RELEASE))
  const engine = await startEngine()
  const service = await startProcess(folder, api, cgroup)
  // The service calls an engine only at the address that its Service has.
  const serveEngineOf = (name: string) =>
    client.create({
      ...{ apiVersion: 'v1', kind: 'Service' },
      metadata: { name: `vec-${name}`, namespace: 'ns' },
      spec: { clusterIP: ENGINE_HOST, clusterIPs: [ENGINE_HOST], ports: [{ port: 6333 }] },
    })
  const close = async () => {
    await service.stop()
    await engine.close()
    await client.close()
    await api.close()
  }
  let last = 0
  /** Another one each time, for names. */
  const number = () => (last += 1)
  return { api, client, engine, serveEngineOf, number, ...service, close }
}

/** Of `resources.limits.memory` in the chart's values, in bytes. */
export function memoryLimit(): number {
  const values = parse(readFileSync(join(ROOT, 'chart/values.yaml'), 'utf8')) as {
    resources: { limits: { memory: string } }
  }
  const [, mebibytes = ''] = /^(\d+)Mi$/.exec(values.resources.limits.memory) ?? []
  return Number(mebibytes) * MIB
}

/** An engine on the engine port, with responses from the test. */
async function startEngine() {
  let answer: RequestListener = (_, response) => response.writeHead(404).end()
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(request.url ?? '')
    answer(request, response)
  }).listen(6333, ENGINE_HOST)
  await once(server, 'listening')
  return {
    /** What was asked. */
    paths,
    answers: (listener: RequestListener) => {
      paths.length = 0
      answer = listener
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function startProcess(
  folder: string,
  api: { url: string; serviceToken: string },
  cgroup?: MemoryCgroup,
) {
  writeFileSync(join(folder, 'tokens'), `${TOKEN}\n`)
  writeFileSync(join(folder, 'api-token'), api.serviceToken)
  writeFileSync(join(folder, 'tls.crt'), ONE.cert)
  writeFileSync(join(folder, 'tls.key'), ONE.key)
  trustService()
  const main = join(await program(), 'metacontroller', 'serve.js')
  const names = join(import.meta.dirname, '../doubles/loopback-names.ts')
  const flags = ['--import', names, ...serviceFlags(), main, '--port', '0', '--host', '127.0.0.1']
  const [command, args] = cgroup?.command(process.execPath, flags) ?? [process.execPath, flags]
  const child = spawn(command, args, {
    env: {
      ...{ PATH: process.env['PATH'], NODE_ENV: 'production', IMAGE: 'vec-operator:test' },
      ...{ HOOK_TOKEN_FILE: join(folder, 'tokens'), ENGINE_ROUTE: 'direct' },
      ...{ TLS_CERT_FILE: join(folder, 'tls.crt'), TLS_KEY_FILE: join(folder, 'tls.key') },
      ...{ VEC_API_SERVER: api.url, VEC_API_TOKEN_FILE: join(folder, 'api-token') },
      ...{ LOOPBACK_CLUSTER: ENGINE_HOST, LOG_LEVEL: 'WARNING', LOG_FORMAT: 'json' },
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let log = ''
  child.stdout.on('data', (chunk: Buffer) => (log = (log + chunk.toString()).slice(-100_000)))
  const port = await listeningPort(child.pid ?? 0, () => child.exitCode !== null)
  return {
    url: `https://127.0.0.1:${port}`,
    /** A connection for something else than HTTP; its errors are ignored. */
    connect: () =>
      connectTls({ host: '127.0.0.1', port, ca: ONE.cert }).on('error', () => undefined),
    log: () => log,
    /** The most memory it ever had, in bytes; 0 once it has ended. */
    peak: () => (child.exitCode === null ? peakOf(child.pid ?? 0) : 0),
    isAlive: () => child.exitCode === null && child.signalCode === null,
    stop: async () => {
      child.kill()
      await exited
    },
  }
}

/** Found as the kernel knows it: at the level of the log in production the service does not say it. */
async function listeningPort(pid: number, hasEnded: () => boolean): Promise<number> {
  for (;;) {
    if (hasEnded()) throw new Error('the service ended at its start')
    const port = portOf(pid)
    if (port !== undefined) return port
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const LISTENS = '0A'

function portOf(pid: number): number | undefined {
  const sockets = new Set(linksOf(pid).map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]))
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').trim().split('\n').slice(1)
  for (const line of lines) {
    const [, local = '', , state, , , , , , inode] = line.trim().split(/ +/)
    if (state === LISTENS && sockets.has(inode)) return Number.parseInt(local.slice(-4), 16)
  }
  return undefined
}

function linksOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).flatMap((name) => {
    try {
      return [readlinkSync(join(folder, name))]
    } catch {
      // Closed meanwhile.
      return []
    }
  })
}

/**
 * Without the pages of files, above all of node itself: those the kernel takes back before it ends a pod. A
 * memory cgroup around the service measures the same within a few MiB.
 */
function peakOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kilobytes = (field: string) =>
    Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? NaN)
  return (kilobytes('VmHWM') - kilobytes('RssFile')) * 1024
}

/** Writes while the client reads. */
export function endless(stream: Writable, chunk: string | Buffer): void {
  const write = () => {
    if (stream.destroyed) return
    // Not in a loop: a reader that keeps up would never let anything else happen here.
    if (stream.write(chunk)) setImmediate(write)
    else stream.once('drain', write)
  }
  stream.on('error', () => undefined)
  write()
}
