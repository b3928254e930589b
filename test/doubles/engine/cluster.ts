/**
 * What the nodes of one engine agree on: peers, collections, and where the shards are. One object for
 * all nodes stands for their consensus; what only one node knows of itself is kept by ordinal.
 */
import { createHash } from 'node:crypto'

interface Peer {
  id: number
  ordinal: number
  uri: string
}

interface Shard {
  id: number
  /** Peers that hold a copy. */
  peers: number[]
}

export interface Collection {
  shards: Shard[]
}

interface Options {
  /** StatefulSet of the nodes: their addresses are made from it. */
  name?: string
  version?: string
  /** False runs each node by itself. */
  enabled?: boolean
  /** What `toJSON` gave, as after a restart. */
  state?: { peers: Peer[]; collections: Record<string, Collection> }
}

export class EngineCluster {
  readonly name: string
  readonly version: string
  readonly enabled: boolean
  readonly collections: Map<string, Collection>
  readonly #peers: Map<number, Peer>
  /** Ordinals whose consensus thread is dead, with its last words. */
  readonly #stopped = new Map<number, string>()

  constructor({ name = 'vec', version = '1.18.3', enabled = true, state }: Options = {}) {
    this.name = name
    this.version = version
    this.enabled = enabled
    this.collections = new Map(Object.entries(state?.collections ?? {}))
    this.#peers = new Map((state?.peers ?? []).map((peer) => [peer.ordinal, peer]))
  }

  /** A node that comes back is the peer it was; one that leaves stays a peer. */
  join(ordinal: number, uri = this.#uriOf(ordinal)): Peer {
    const known = this.#peers.get(ordinal)
    if (known !== undefined) return known
    const peer = { id: peerId(this.name, ordinal), ordinal, uri }
    this.#peers.set(ordinal, peer)
    return peer
  }

  peers(): Peer[] {
    return [...this.#peers.values()].sort((a, b) => a.ordinal - b.ordinal)
  }

  peer(ordinal: number): Peer {
    return this.join(ordinal)
  }

  /** The node's consensus thread dies; it goes on serving, but no metadata write passes it. */
  stopConsensus(ordinal: number, error: string): void {
    this.#stopped.set(ordinal, error)
  }

  /** As after a restart of the pod. */
  resumeConsensus(ordinal: number): void {
    this.#stopped.delete(ordinal)
  }

  consensusError(ordinal: number): string | undefined {
    return this.#stopped.get(ordinal)
  }

  /** Shards are spread over the peers, one after the other. */
  createCollection(name: string, shardNumber?: number, replicationFactor = 1): void {
    const peers = this.peers().map(({ id }) => id)
    const copies = Math.min(replicationFactor, peers.length)
    const shards = Array.from({ length: shardNumber ?? peers.length }, (_, id) => ({
      id,
      peers: Array.from({ length: copies }, (_, copy) => peers[(id + copy) % peers.length] ?? 0),
    }))
    this.collections.set(name, { shards })
  }

  toJSON(): Required<Options>['state'] {
    return { peers: this.peers(), collections: Object.fromEntries(this.collections) }
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
