/**
 * What the nodes of one engine agree on: peers, collections, and where the shards are. One object for
 * all nodes replaces their consensus; what only one node knows of itself is kept by ordinal.
 */
import { createHash, randomInt, randomUUID } from 'node:crypto'
import {
  newConfig,
  type Collection,
  type Config,
  type Fields,
  type Shard,
  type Unfinished,
} from './collection.ts'
import { cloneJson } from './json.ts'

export interface Peer {
  id: number
  ordinal: number
  uri: string
}

interface Options {
  /** StatefulSet of the nodes: their addresses are made from it. */
  name?: string
  version?: string
  /** False runs each node as a cluster of its own. */
  enabled?: boolean
  /** How long a read after a PATCH still returns the old value. */
  staleMs?: number
  /** Default: the clock of the machine. */
  now?: () => Date
  /** What `toJSON` gave, as after a restart. */
  state?: State
}

interface State {
  peers: Peer[]
  collections: Record<string, Collection>
  aliases?: Record<string, string>
}

interface QueuedUpdate {
  /** Those that take part in it. */
  shards: ReadonlySet<Shard>
  update: () => void
}

/** What becomes of a transfer: `stall` never ends. */
export type TransferOutcome = 'complete' | 'fail' | 'stall'

/** As measured on idle collections: see docs/engine-notes.md. */
const STALE_MS = 5
/** Normally it is less than 0.2 s on the real engine. */
const SETTLE_MS = 20
/** Time until a replica of a small shard is copied. */
const COPY_MS = 30

export class EngineCluster {
  readonly name: string
  readonly version: string
  /** Of the nodes that have another one, by ordinal. */
  readonly versions = new Map<number, string>()
  readonly enabled: boolean
  readonly collections: Map<string, Collection>
  /** From alias to collection. */
  readonly aliases: Map<string, string>
  staleMs: number
  /** Memory of each node. */
  residentBytes = 64 * 1024 * 1024
  /** How long nodes have not applied a recovery after its end. */
  settleMs = SETTLE_MS
  /** Status of collections that are created or recovered from now on; default: green. */
  newStatus: Unfinished | undefined
  /** A write with `wait=true` is applied when it is answered, another one this much later. */
  applyMs = 0
  /** How long a transfer takes. */
  copyMs = COPY_MS
  /** Decides when a transfer starts. */
  transferOutcome: (transfer: { shard: number; from: number; to: number }) => TransferOutcome =
    () => 'complete'
  /** cluster.resharding_enabled of the nodes. */
  /** Set before collections are created. */
  reshardingEnabled = false
  /** By how many changes a node is behind the others, by its ordinal. */
  readonly lag = new Map<number, number>()
  /**
   * Collections as a node still has them that has not caught up, by its ordinal and their name; undefined: none.
   * Only how it describes them: points are those that all agree on.
   */
  readonly outdated = new Map<number, Map<string, Collection | undefined>>()
  /** Peers that a node does not list, by its ordinal. */
  readonly unlisted = new Map<number, number[]>()
  /** Ordinals of nodes that are down: their replicas miss what is written, and are called Dead if others have it. */
  readonly away = new Set<number>()
  /** Ordinals of nodes that messages of the leader do not reach; a node that is closed is one. */
  readonly unreachable = new Set<number>()
  /** Changes of replicas and peers that were agreed on. */
  changes = 0
  readonly now: () => Date
  readonly #peers: Map<number, Peer>
  /** Peers that were removed and whose nodes still have their old volume, by ordinal. */
  readonly #removed = new Map<number, Peer>()
  #volumes = 0
  /** Ordinals whose consensus thread is dead, with its last words. */
  readonly #stopped = new Map<number, string>()
  /** When the consensus thread of a node panicked. */
  readonly #panicked = new Map<number, string>()
  /** Updates whose clients do not wait, in the order in which they are applied. */
  readonly #queue = new Set<QueuedUpdate>()

  #operations = 0

  constructor(options: Options = {}) {
    const { name = 'vec', version = '1.18.3', enabled = true, state, staleMs = STALE_MS } = options
    const { now = () => new Date() } = options
    this.name = name
    this.staleMs = staleMs
    this.now = now
    this.version = version
    this.enabled = enabled
    this.collections = new Map(Object.entries(state?.collections ?? {}))
    this.aliases = new Map(Object.entries(state?.aliases ?? {}))
    this.#peers = new Map((state?.peers ?? []).map((peer) => [peer.ordinal, peer]))
  }

  /** A node that returns is the same peer; one that leaves remains a peer. */
  join(ordinal: number, uri = this.#uriOf(ordinal)): Peer {
    const known = this.#peers.get(ordinal) ?? this.#removed.get(ordinal)
    if (known !== undefined) return known
    const peer = { id: peerId(this.name, ordinal), ordinal, uri }
    this.#peers.set(ordinal, peer)
    this.#replay(ordinal)
    return peer
  }

  peers(): Peer[] {
    return [...this.#peers.values()].sort((a, b) => a.ordinal - b.ordinal)
  }

  peer(ordinal: number): Peer {
    return this.join(ordinal)
  }

  /** Whether the others have removed the peer of this node: it continues to serve, alone. */
  isRemoved(ordinal: number): boolean {
    return this.#removed.has(ordinal)
  }

  queue(queued: QueuedUpdate): void {
    this.#queue.add(queued)
    setTimeout(() => {
      if (this.#queue.has(queued)) this.applyQueued(queued.shards)
    }, this.applyMs).unref()
  }

  /** Each shard applies its updates in the order in which it got them. */
  applyQueued(shards: ReadonlySet<Shard>): void {
    for (const queued of this.#queue) {
      if (![...queued.shards].some((shard) => shards.has(shard))) continue
      this.#queue.delete(queued)
      queued.update()
    }
  }

  hasShards(peer: number): boolean {
    return [...this.collections.values()].some(({ shards }) =>
      shards.some(({ peers }) => peers.includes(peer)),
    )
  }

  /** Accepts a peer that does not exist, as the engine does. */
  removePeer(id: number): void {
    const peer = this.peers().find((one) => one.id === id)
    if (peer === undefined) return
    this.#peers.delete(peer.ordinal)
    this.#removed.set(peer.ordinal, peer)
    this.changes += 1
  }

  /** Whether its version, or that of a node, is this one or a later one. */
  isSince(version: string, ordinal?: number): boolean {
    const present = (ordinal === undefined ? undefined : this.versions.get(ordinal)) ?? this.version
    const [own, other] = [present, version].map((text) => text.split('.').map(Number))
    const index = (own ?? []).findIndex((part, at) => part !== other?.[at])
    return (own?.[index] ?? 0) >= (other?.[index] ?? 0)
  }

  /**
   * The node starts with an empty volume: it becomes another peer, unless the address still belongs
   * to a peer with shards. An engine before 1.17.1 accepts it only once that peer was removed. Returns whether it
   * could join.
   */
  rejoinEmpty(ordinal: number): boolean {
    const former = this.#peers.get(ordinal)
    if (former !== undefined && (this.hasShards(former.id) || !this.isSince('1.17.1'))) return false
    this.#peers.delete(ordinal)
    this.#removed.delete(ordinal)
    this.#volumes += 1
    const id = peerId(`${this.name}/${this.#volumes}`, ordinal)
    this.#peers.set(ordinal, { id, ordinal, uri: this.#uriOf(ordinal) })
    this.#replay(ordinal)
    this.changes += 1
    return true
  }

  /** A node that joins applies what the others have agreed on, not always as they did. */
  #replay(ordinal: number): void {
    for (const shard of [...this.collections.values()].flatMap(({ shards }) => shards)) {
      const failed = (shard.failedForJoining ?? []).filter((peer) => shard.peers.includes(peer))
      if (failed.length === 0) continue
      const states = Object.fromEntries(failed.map((peer) => [peer, 'Dead']))
      shard.reportedStates = {
        ...shard.reportedStates,
        [ordinal]: { ...shard.reportedStates?.[ordinal], ...states },
      }
    }
  }

  /** The node's consensus thread dies; the node still serves, but no metadata write passes it. */
  stopConsensus(ordinal: number, error: string): void {
    this.#stopped.set(ordinal, error)
  }

  /** The thread panics: the node reports that it works, and the time of its last work, which no longer changes. */
  panicConsensus(ordinal: number): void {
    this.#stopped.set(ordinal, 'panicked')
    this.#panicked.set(ordinal, new Date().toISOString())
  }

  panicTime(ordinal: number): string | undefined {
    return this.#panicked.get(ordinal)
  }

  /** As after a restart of the pod. */
  resumeConsensus(ordinal: number): void {
    this.#stopped.delete(ordinal)
    this.#panicked.delete(ordinal)
  }

  consensusError(ordinal: number): string | undefined {
    return this.#stopped.get(ordinal)
  }

  /** A collection with shards spread over the peers in order, for tests that need to know where. */
  createCollection(name: string, shardNumber?: number, replicationFactor = 1): void {
    const wish = {
      replication_factor: replicationFactor,
      ...(shardNumber && { shard_number: shardNumber }),
    }
    this.#add(name, newConfig(wish, this.#peers.size), 0)
  }

  /** Placement as in the engine: spread evenly, starting at an unpredictable peer. */
  addCollection(name: string, body: Fields): void {
    const nodes = this.enabled ? this.#peers.size : 1
    this.#add(name, newConfig(body, nodes), randomInt(Math.max(nodes, 1)))
  }

  /** From a snapshot, with replicas on arbitrary nodes. */
  addRecovered(name: string, config: Config, payloadSchema: Record<string, Fields>): Collection {
    this.#add(name, cloneJson(config), randomInt(Math.max(this.#peers.size, 1)))
    const collection = this.collections.get(name)
    if (collection === undefined) throw new Error(`${name} was not made`)
    collection.payloadSchema = cloneJson(payloadSchema)
    return collection
  }

  /** By its name or by an alias. */
  find(name: string): Collection | undefined {
    return this.collections.get(name) ?? this.collections.get(this.aliases.get(name) ?? '')
  }

  /** What a node has under a name, also if it has not caught up. */
  findOn(ordinal: number, name: string): Collection | undefined {
    const outdated = this.outdated.get(ordinal)
    return outdated?.has(name) === true ? outdated.get(name) : this.find(name)
  }

  namesOn(ordinal: number): string[] {
    const outdated = this.outdated.get(ordinal) ?? new Map<string, undefined>()
    const names = new Set([...this.collections.keys(), ...outdated.keys()])
    return [...names].filter((name) => this.findOn(ordinal, name) !== undefined)
  }

  /** Aliases go with their collection. */
  removeCollection(name: string): boolean {
    for (const [alias, target] of this.aliases) if (target === name) this.aliases.delete(alias)
    return this.collections.delete(name)
  }

  nextOperation(): number {
    this.#operations += 1
    return this.#operations
  }

  toJSON(): State {
    return {
      peers: this.peers(),
      collections: Object.fromEntries(this.collections),
      aliases: Object.fromEntries(this.aliases),
    }
  }

  #add(name: string, config: Config, start: number): void {
    this.collections.set(name, {
      // The engine gives one through consensus only.
      ...(this.enabled && { uuid: randomUUID() }),
      ...(this.reshardingEnabled && { hasRing: true as const }),
      ...(this.newStatus !== undefined && { status: this.newStatus }),
      shards: this.#shards(config, start),
      config,
      payloadSchema: {},
      points: [],
    })
  }

  #shards({ params }: Config, start: number): Shard[] {
    if (params['sharding_method'] === 'custom') return []
    const peers = this.peers().map(({ id }) => id)
    const copies = Math.min(Number(params['replication_factor']), peers.length)
    return Array.from({ length: Number(params['shard_number']) }, (_, id) => ({
      id,
      peers: Array.from(
        { length: copies },
        (_, copy) => peers[(start + id + copy) % peers.length] ?? 0,
      ),
    }))
  }

  #uriOf(ordinal: number): string {
    return `http://${this.name}-${ordinal}.${this.name}-headless:6335/`
  }
}

/** As large as the engine makes them, and the same at every run of a test. */
function peerId(name: string, ordinal: number): number {
  const digest = createHash('sha256').update(`${name}/${ordinal}`).digest()
  return digest.readUIntBE(0, 6) * 16 + ordinal
}
