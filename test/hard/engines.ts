/**
 * Real engines in the pods of the embedded world: a process for each pod, on an address of its own. Peers
 * dial each other through a front, and the world reaches a node through another, so that each path can be
 * cut or slowed down separately.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import type { Running } from '../world/controllers/containers.ts'
import type { Pod } from '../world/controllers/objects.ts'
import type { Sandbox } from '../world/controllers/sandbox.ts'
import { dialerOf } from './dialer.ts'
import { Link, type Condition } from './links.ts'

/** Ports of the chart: every node has them on an address of its own. */
const HTTP = 6333
const GRPC = 6334
const P2P = 6335
const CONFIG_FILES = ['production.yaml', 'local.yaml']
/** How long the start of a container waits for the engine to answer; a later answer is seen by the probe. */
const START_MS = 8_000
const RESTART_MS = 1_000
const LONGEST_RESTART_MS = 8_000
const STOP_MS = 10_000

/** Small and quick: a seed must not take a minute. */
const TUNED = {
  log_level: 'INFO',
  telemetry_disabled: true,
  // No engine reshards by itself.
  cluster: { resharding_enabled: true },
  storage: {
    on_disk_payload: true,
    wal: { wal_capacity_mb: 1, wal_segments_ahead: 0 },
    performance: { max_search_threads: 1, optimizer_cpu_budget: 1 },
    optimizers: {
      deleted_threshold: 0.2,
      vacuum_min_vector_number: 1000,
      default_segment_number: 1,
      flush_interval_sec: 1,
      indexing_threshold_kb: 10_000,
      max_optimization_threads: 1,
    },
    hnsw_index: {
      m: 8,
      ef_construct: 16,
      full_scan_threshold_kb: 10_000,
      max_indexing_threads: 1,
      on_disk: false,
    },
  },
}

export interface NetworkOptions {
  /** Second octet of all addresses, so that concurrent runs do not collide. */
  octet: number
  /** Peers dial each other without a front: where no engine listens, the connection is refused. */
  isDirect?: boolean
  /** Certificate of all nodes for the connections between them, as files. */
  p2pTls?: P2pTls
}

export interface P2pTls {
  cert: string
  key: string
  /** Of the authority. */
  ca_cert: string
}

export class RealEngines {
  readonly #bin: string
  readonly #folder: string
  readonly #clusters = new Map<string, RealCluster>()
  readonly #network: NetworkOptions

  constructor(bin: string, folder: string, network: NetworkOptions) {
    this.#bin = bin
    this.#folder = folder
    this.#network = network
  }

  async start(pod: Pod, sandbox: Sandbox): Promise<Running> {
    const [, set = pod.metadata.name, ordinal = '0'] = /^(.+)-(\d+)$/.exec(pod.metadata.name) ?? []
    const node = await this.prepare(set, Number(ordinal))
    return node.run(pod.metadata.uid ?? '', sandbox)
  }

  /** The node at an ordinal, with its links, before it runs. */
  prepare(set: string, ordinal: number): Promise<RealNode> {
    return this.#clusterOf(set).node(ordinal)
  }

  node(set: string, ordinal: number): RealNode {
    const node = this.#clusters.get(set)?.nodes.get(ordinal)
    if (node === undefined) throw new Error(`there is no node ${set}-${ordinal}`)
    return node
  }

  nodes(set: string): RealNode[] {
    return [...(this.#clusters.get(set)?.nodes.values() ?? [])].toSorted(
      (one, other) => one.ordinal - other.ordinal,
    )
  }

  /** Sets the condition of the links between two peers; without a condition they work again. */
  between(set: string, one: number, other: number, condition?: Condition): void {
    this.node(set, one).meets(String(other), condition)
    this.node(set, other).meets(String(one), condition)
  }

  async close(): Promise<void> {
    for (const { nodes } of this.#clusters.values()) {
      await Promise.all([...nodes.values()].map((node) => node.close()))
    }
  }

  #clusterOf(set: string): RealCluster {
    const known = this.#clusters.get(set)
    if (known !== undefined) return known
    const prefix = `127.${this.#network.octet}.${this.#clusters.size}`
    const own = { bin: this.#bin, folder: join(this.#folder, set), prefix }
    const made = new RealCluster({ ...own, network: this.#network })
    this.#clusters.set(set, made)
    return made
  }
}

interface ClusterOptions {
  bin: string
  folder: string
  /** Of the addresses of its nodes. */
  prefix: string
  network: NetworkOptions
}

class RealCluster {
  readonly nodes = new Map<number, RealNode>()
  readonly #options: ClusterOptions

  constructor(options: ClusterOptions) {
    this.#options = options
  }

  async node(ordinal: number): Promise<RealNode> {
    const known = this.nodes.get(ordinal)
    if (known !== undefined) return known
    const { bin, folder, prefix, network } = this.#options
    const front = `${prefix}.${101 + ordinal}`
    const node = new RealNode({
      ...{ ordinal, bin, folder: join(folder, String(ordinal)) },
      ...{ host: network.isDirect === true ? front : `${prefix}.${1 + ordinal}`, front },
      first: `${prefix}.101`,
      ...(network.p2pTls !== undefined && { p2pTls: network.p2pTls }),
    })
    this.nodes.set(ordinal, node)
    await node.open((near) => this.#dialer(near))
    return node
  }

  /** Ordinal of the peer that dialled. */
  #dialer(near: Socket): string {
    const pids = new Map([...this.nodes.values()].map((node) => [node.pid ?? 0, node.ordinal]))
    const pid = dialerOf(near, [...pids.keys()])
    return String(pids.get(pid ?? 0) ?? 'unknown')
  }
}

interface NodeOptions {
  ordinal: number
  bin: string
  folder: string
  /** Where the process listens. */
  host: string
  /** Where its peers dial it. */
  front: string
  /** Where peers dial node 0. */
  first: string
  p2pTls?: P2pTls
}

export class RealNode {
  readonly ordinal: number
  /** Past every front: for the writer and the oracle. */
  readonly url: string
  /** The address its peers know it by. */
  readonly uri: string
  /** Node 0 starts a new cluster unless it is given a peer to join. */
  bootstrap: string | undefined
  /** What the container runs instead of the engine's command line, which it ends with. */
  command: (engine: string[]) => [string, ...string[]] = ([bin = '', ...args]) => [bin, ...args]
  readonly #options: NodeOptions
  #fronts: Link[] = []
  /** For the world: it can be cut. */
  #access: Link | undefined
  /** For the kubelet's probe: it never is. */
  #probe: Link | undefined
  #child: ChildProcess | undefined
  /** Ends the run of the present pod. */
  #onExit: (() => void) | undefined
  /** Until the engine of the present pod has ended. */
  #ended: Promise<number> | undefined
  /** The next start waits longer. */
  #restarts = 0
  #isClosed = false

  constructor(options: NodeOptions) {
    const { ordinal, host, front, first, p2pTls } = options
    const scheme = p2pTls === undefined ? 'http' : 'https'
    this.ordinal = ordinal
    this.#options = options
    this.url = `http://${host}:${HTTP}`
    this.uri = `${scheme}://${front}:${P2P}`
    this.bootstrap = ordinal === 0 ? undefined : `${scheme}://${first}:${P2P}`
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Port of the path from Jobs and service, on 127.0.0.1. */
  get port(): number | undefined {
    return this.#access?.port
  }

  /** How often its process has ended since the pod began, or since its volume was lost. */
  get restarts(): number {
    return this.#restarts
  }

  get log(): string {
    return join(this.#options.folder, 'log')
  }

  async open(dialer: (near: Socket) => string): Promise<void> {
    const { host, front, folder } = this.#options
    mkdirSync(folder, { recursive: true })
    const ports = host === front ? [] : [P2P, HTTP]
    this.#fronts = await Promise.all(
      ports.map((port) => Link.open({ host, port }, { host: front, port }, dialer)),
    )
    this.#access = await Link.open({ host, port: HTTP })
    this.#probe = await Link.open({ host, port: HTTP })
  }

  /** The condition of the links from peers to this node. */
  meets(peer: string, condition?: Condition): void {
    for (const front of this.#fronts) front.set(peer, condition)
  }

  /** The condition of the link from Jobs and service to this node. */
  meetsJobs(condition?: Condition): void {
    this.#access?.set('', condition)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Deletes what the node has stored; the process must not be running on it for long. */
  loseVolume(): void {
    this.#restarts = 0
    this.signal('SIGKILL')
    rmSync(join(this.#options.folder, 'storage'), { recursive: true, force: true })
  }

  /** A container: the engine runs, and is started again when it dies, until the pod ends. */
  async run(podUid: string, sandbox: Sandbox): Promise<Running> {
    const { folder } = this.#options
    const config = this.#config(sandbox, podUid)
    const file = join(folder, 'config.yaml')
    writeFileSync(file, stringify(config))
    await this.end()
    const ended = Promise.withResolvers<number>()
    this.#ended = ended.promise
    const state = { over: false }
    this.#restarts = 0
    const start = () => {
      if (state.over || this.#isClosed) return
      const child = this.#spawn(file)
      child.once('exit', () => {
        if (this.#child === child) this.#child = undefined
        if (state.over) {
          ended.resolve(137)
          return
        }
        this.#restarts += 1
        setTimeout(start, Math.min(LONGEST_RESTART_MS, RESTART_MS * this.#restarts))
      })
    }
    const end = (signal: NodeJS.Signals) => {
      // It may belong to the next pod by now.
      if (this.#ended !== ended.promise) return
      state.over = true
      const child = this.#child
      if (child === undefined) {
        ended.resolve(0)
        return
      }
      child.kill('SIGCONT')
      child.kill(signal)
      setTimeout(() => child.kill('SIGKILL'), STOP_MS).unref()
    }
    this.#onExit = () => end('SIGKILL')
    start()
    await this.#answers()
    return {
      log: () => '',
      port: (port) => (port === HTTP ? this.#probe?.port : undefined),
      stop: () => end('SIGTERM'),
      kill: () => end('SIGKILL'),
      setReady: () => undefined,
      ended: ended.promise,
    }
  }

  /** A pod that was deleted during its start may still be running: two engines must not share a folder. */
  async end(): Promise<void> {
    this.#onExit?.()
    await this.#ended
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const child = this.#child
    this.#onExit?.()
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      await new Promise((resolve) => child.once('exit', resolve))
    }
    const links = [...this.#fronts, this.#access, this.#probe]
    await Promise.all(links.map(async (link) => link?.close()))
  }

  #spawn(file: string): ChildProcess {
    const { bin, folder } = this.#options
    const log = openSync(this.log, 'a')
    const joins = this.bootstrap === undefined ? [] : ['--bootstrap', this.bootstrap]
    const args = ['--config-path', file, '--disable-telemetry', '--uri', this.uri, ...joins]
    const env = { ...process.env, QDRANT_INIT_FILE_PATH: join(folder, 'initialized') }
    const [program, ...rest] = this.command([bin, ...args])
    const child = spawn(program, rest, { cwd: folder, env, stdio: ['ignore', log, log] })
    closeSync(log)
    // A binary that is missing shows as a node that never answers.
    child.on('error', () => undefined)
    this.#child = child
    CHILDREN.add(child)
    child.once('exit', () => CHILDREN.delete(child))
    return child
  }

  #config(sandbox: Sandbox, podUid: string): object {
    const { folder, host, p2pTls } = this.#options
    const snapshots = join(folder, `snapshots-${podUid}`)
    const own = {
      storage: { storage_path: join(folder, 'storage'), snapshots_path: snapshots },
      service: { host, http_port: HTTP, grpc_port: GRPC, max_workers: 1 },
      cluster: { enabled: true, p2p: { port: P2P, enable_tls: p2pTls !== undefined } },
      ...(p2pTls !== undefined && { tls: p2pTls }),
    }
    const files = CONFIG_FILES.map((name) => sandbox.path(`/qdrant/config/${name}`)).filter(
      (path) => statSync(path, { throwIfNoEntry: false })?.isFile(),
    )
    const mounted = files.map((path) => parse(readFileSync(path, 'utf8')) as object)
    return [TUNED, ...mounted, own].reduce(merged, {})
  }

  async #answers(): Promise<void> {
    const end = Date.now() + START_MS
    while (Date.now() < end && !this.#isClosed) {
      try {
        if ((await fetch(`${this.url}/livez`)).ok) return
      } catch {
        // It does not listen yet.
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

/** Engines must not outlive a run that ends without a word. */
const CHILDREN = new Set<ChildProcess>()
process.once('exit', () => CHILDREN.forEach((child) => child.kill('SIGKILL')))

function merged(one: object, other: object): object {
  const result: Record<string, unknown> = { ...one }
  for (const [key, value] of Object.entries(other) as [string, unknown][]) {
    const before = result[key]
    result[key] = isRecord(before) && isRecord(value) ? merged(before, value) : value
  }
  return result
}

function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
