/** The cluster into which lost shards are restored: the nodes that answer, and what they agree on. */
import { isDeepStrictEqual } from 'node:util'
import { EngineError, keyRejection, Rejected } from '../../crds/contract/errors.ts'
import {
  newObservationMemory,
  observeShards,
  type ObservationMemory,
} from '../cluster/shards/observe.ts'
import { activeHolders, bytesByPeer, hasTransfer, peerName } from '../cluster/shards/queries.ts'
import type { ClusterView, CollectionView, PeerView, ShardView } from '../cluster/shards/view.ts'
import type { ShardItem } from '../manifest-check.ts'
import { isTlsError, poll, retryTransient } from '../retry.ts'
import type { Checkpoint } from './checkpoint.ts'
import { checkSameSchema } from './collection-checks.ts'
import { engineForPod, type RunContext } from './context.ts'
import { requireCompatibleVersion } from './target-checks.ts'

/** Nodes usually agree within seconds; one that restarts needs longer. */
const SETTLE_MS = 120_000

const SETTLE_POLL_MS = 1_000

/**
 * How long the nodes that hold a shard must be away before it is restored. One that only restarts returns with
 * points that are newer than the backup, and the engine would call its replica Dead and fill it from the restored one.
 */
const AWAY_MS = 300_000

const AWAY_POLL_MS = 5_000

/** The nodes of the target that answer, and what they hold. */
export class LostTarget {
  readonly #context: RunContext
  readonly #memory: ObservationMemory = newObservationMemory()
  /** Bytes that this Job has given to each node, by ordinal: the sizes that nodes report are older. */
  readonly #restored = new Map<number, number>()
  /** Since when each node has not answered, in milliseconds, by peer; when that was last observed. */
  readonly #awaySince = new Map<number, number>()
  #observedAt = -Infinity
  /** Since when other nodes reach a node that does not answer this Job. */
  #reachedSince: number | undefined

  constructor(context: RunContext) {
    this.#context = context
  }

  /** Throws unless every node that answers reads snapshots of these versions. */
  async requireVersion(recorded: string[]): Promise<void> {
    const view = await this.#view()
    const { signal } = this.#context.tools
    for (const { ordinal } of members(view)) {
      const version = await retryTransient(this.#context, () =>
        engineForPod(this.#context, ordinal).version(signal),
      )
      for (const engineVersion of recorded) requireCompatibleVersion(version, engineVersion)
    }
  }

  /** Nodes on which an earlier attempt may have left a recovery. */
  nodesOf({ running }: Checkpoint): number[] {
    return running === 'unknown' ? [] : [...new Set(running.map(({ node }) => node))]
  }

  /**
   * Throws `Rejected` unless the collection has the schema of the backup, and the shard keys of these shards have the
   * same shards: which points belong to them depends on all shards of the key, and on no other key. Without shard keys
   * these are all shards of the collection.
   */
  async requireSameCollection(
    name: string,
    recorded: ShardItem['source'],
    lost: ShardItem['source']['shards'],
  ): Promise<void> {
    const view = await this.#view()
    const live = requireCollection(view, name)
    const keys = new Set(lost.map(({ shardKey }) => shardKey))
    const ids = (shards: [number, string | number | undefined][]) =>
      shards.filter(([, key]) => keys.has(key)).toSorted(([a], [b]) => a - b)
    const expected = ids(recorded.shards.map(({ shardId, shardKey }) => [shardId, shardKey]))
    const actual = ids(live.shards.map(({ id, key }) => [id, key]))
    if (!isDeepStrictEqual(expected, actual)) {
      throw new Rejected(
        `collection ${name} is at the target with other shards or shard keys than in the backup`,
      )
    }
    const facts = [...this.#memory.facts.values()].map((byName) => byName.get(name))
    const params = facts.find((one) => one?.params !== undefined)?.params
    if (params === undefined) {
      throw new EngineError(`no node reports the configuration of collection ${name}`)
    }
    checkSameSchema(name, recorded, params)
  }

  /**
   * Waits until the nodes that hold replicas of these shards have been away long enough. Throws `Rejected` if one
   * returns with an Active replica, or answers without saying what it holds.
   */
  async waitUntilLost(name: string, ids: readonly number[]): Promise<void> {
    const { tools, progress } = this.#context
    const { time, signal } = tools
    const afterPause = () => progress.reported()
    await poll({ time, signal, pauseMs: AWAY_POLL_MS, afterPause }, async () => {
      const view = await this.#view()
      const shards = ids.map((id) => requireShard(view, name, id))
      for (const shard of shards) requireNoActiveReplica(view, name, shard)
      const holders = new Set(shards.flatMap(({ replicas }) => replicas.map(({ peer }) => peer)))
      const now = time.monotonicMs()
      await this.#requireSilent(view, holders)
      this.#recordAway(view, holders, now)
      await this.#requireUnreached(view, holders, now)
      const recent = [...this.#awaySince].find(
        ([peer, since]) => holders.has(peer) && now - since < AWAY_MS,
      )
      if (recent === undefined) return true
      const node = peerName(view, recent[0])
      progress.step(`waiting until ${node} has been away for ${AWAY_MS / 60_000} minutes`)
      return undefined
    })
  }

  /**
   * A node that others reach begins to be away when they do not. A leader that was just elected has not sent messages
   * to every peer yet: only after some minutes the node is said to be reached.
   */
  async #requireUnreached(
    view: ClusterView,
    holders: ReadonlySet<number>,
    now: number,
  ): Promise<void> {
    const reached = await this.#reachedByOthers(view, holders)
    for (const peer of reached) this.#awaySince.set(peer, now)
    const [peer] = reached
    this.#reachedSince = peer === undefined ? undefined : (this.#reachedSince ?? now)
    if (peer === undefined || now - (this.#reachedSince ?? now) < AWAY_MS) return
    throw reachedError(view, peer)
  }

  /**
   * The holders that do not answer this Job, but the consensus of the others: a network policy or a broken route may
   * separate only the Job from a node that serves clients (docs/engine-notes.md, "Transfers of shards").
   */
  async #reachedByOthers(view: ClusterView, holders: ReadonlySet<number>): Promise<number[]> {
    const answering = members(view)
    const silent = [...holders].filter((peer) => !answering.some(({ id }) => id === peer))
    const [first] = answering
    if (first === undefined || silent.length === 0) return []
    const status = await this.#status(first.ordinal)
    const leader = answering.find(({ id }) => id === status?.raft_info.leader)
    // Without a leader that answers, a silent node may lead the others.
    if (leader === undefined) return silent
    const ofLeader = await this.#status(leader.ordinal)
    if (ofLeader?.raft_info.leader !== leader.id) return silent
    const { peers, message_send_failures: failures = {} } = ofLeader
    return silent.filter((peer) => {
      const uri = peers[String(peer)]?.uri
      return uri !== undefined && !(uri in failures)
    })
  }

  async #status(ordinal: number) {
    const { signal } = this.#context.tools
    const status = await retryTransient(this.#context, () =>
      engineForPod(this.#context, ordinal).cluster(signal),
    )
    return status.status === 'enabled' ? status : undefined
  }

  /** A node that serves clients with another API key or certificate is no member of the view, and has newer points. */
  async #requireSilent(view: ClusterView, holders: ReadonlySet<number>): Promise<void> {
    const { signal } = this.#context.tools
    const ordinals = new Set(members(view).map(({ ordinal }) => ordinal))
    for (const { id, ordinal } of view.peers) {
      if (!holders.has(id) || ordinal === undefined || ordinals.has(ordinal)) continue
      const rejection = await engineForPod(this.#context, ordinal)
        .cluster(signal)
        .then(noRejection, findRejection)
      if (rejection === undefined) continue
      throw new Rejected(
        `node ${ordinal} is not lost: it answers, and may have newer points than the backup, but does not say what it holds: ${rejection}`,
      )
    }
  }

  /** During the upload of another shard nothing is observed: a node may have been back, and be restarting now. */
  #recordAway(view: ClusterView, holders: ReadonlySet<number>, now: number): void {
    if (now - this.#observedAt >= AWAY_MS) this.#awaySince.clear()
    this.#observedAt = now
    const answering = new Set(members(view).map(({ id }) => id))
    for (const peer of answering) this.#awaySince.delete(peer)
    for (const peer of holders) {
      if (!answering.has(peer) && !this.#awaySince.has(peer)) this.#awaySince.set(peer, now)
    }
  }

  /** The node that takes the shard, or that an earlier attempt has given it to. */
  async findNode(
    name: string,
    id: number,
    checkpoint: Checkpoint,
  ): Promise<{ ordinal: number; isDone: boolean }> {
    const view = await this.#view()
    const shard = requireShard(view, name, id)
    const restored = restoredNode(view, shard, checkpoint)
    if (restored !== undefined) return { ordinal: restored, isDone: true }
    requireNoActiveReplica(view, name, shard)
    if (hasTransfer(view, { ...shard, collection: name })) {
      throw new Rejected(`shard ${id} of ${name} is being transferred`)
    }
    const ordinal = freeNode(view, { name, shard, restored: this.#restored })
    return { ordinal, isDone: false }
  }

  recordRestored(ordinal: number, bytes: number): void {
    this.#restored.set(ordinal, (this.#restored.get(ordinal) ?? 0) + bytes)
  }

  /**
   * Runs directly before a recovery, which replaces the replica of the node and makes the others Dead. Throws
   * `Rejected` if one of them is Active, or on a node that others reach.
   */
  async requireNoReplica(name: string, id: number, ordinal: number): Promise<void> {
    const view = await this.#view()
    const shard = requireShard(view, name, id)
    requireNoActiveReplica(view, name, shard)
    const holders = new Set(shard.replicas.map((replica) => replica.peer))
    const [reached] = await this.#reachedByOthers(view, holders)
    if (reached !== undefined) throw reachedError(view, reached)
    const peer = members(view).find((member) => member.ordinal === ordinal)
    const isHeld = shard.replicas.some((replica) => replica.peer === peer?.id)
    if (peer !== undefined && !isHeld) return
    throw new EngineError(
      `shard ${id} of ${name} has another replica than before: create the VecRestore again`,
      { status: 409 },
    )
  }

  async isActiveOn(name: string, id: number, ordinal: number): Promise<boolean> {
    const view = await this.#view()
    const peer = members(view).find((member) => member.ordinal === ordinal)
    return peer !== undefined && activeHolders(view, requireShard(view, name, id)).includes(peer.id)
  }

  /** Until every node that answers calls the replica Active. */
  async waitUntilActive(name: string, id: number, ordinal: number): Promise<void> {
    const { time, signal, progress } = { ...this.#context.tools, progress: this.#context.progress }
    const afterPause = () => progress.reported()
    await poll({ time, signal, pauseMs: SETTLE_POLL_MS, afterPause }, async ({ waitedMs }) => {
      if (await this.isActiveOn(name, id, ordinal)) return true
      if (waitedMs() < SETTLE_MS) return undefined
      throw new EngineError(
        `shard ${id} of ${name} was restored on node ${ordinal}, but not every node calls it Active`,
      )
    })
  }

  /** What the nodes agree on. */
  async #view(): Promise<ClusterView> {
    const { plan, tools, progress } = this.#context
    const { time, signal } = tools
    const { name, replicas: nodes } = plan.cluster
    const engineOf = (ordinal: number) => engineForPod(this.#context, ordinal)
    const afterPause = () => progress.reported()
    return poll({ time, signal, pauseMs: SETTLE_POLL_MS, afterPause }, async ({ waitedMs }) => {
      const options = { nodes, name, memory: this.#memory, nowMs: time.monotonicMs() }
      const view = await observeShards(options, engineOf, signal)
      const reason = view.broken?.message ?? view.unsettled
      if (reason === undefined) return view
      if (waitedMs() >= SETTLE_MS) throw new EngineError(reason)
      return undefined
    })
  }
}

function reachedError(view: ClusterView, peer: number): Rejected {
  return new Rejected(
    `${peerName(view, peer)} is not lost: it does not answer this Job, but other nodes reach it, and it may have newer points than the backup: check network policies and routes`,
  )
}

function noRejection(): undefined {
  return undefined
}

/** The message of an error that only a node gives that runs. */
function findRejection(error: unknown): string | undefined {
  if (!(error instanceof EngineError)) throw error
  const { message } = error
  return keyRejection(error) !== undefined || isTlsError(message) ? message : undefined
}

type Member = PeerView & { ordinal: number }

/**
 * The node to which an earlier attempt has given the shard. By now the operator may have created replicas on
 * other nodes as well.
 */
export function restoredNode(
  view: ClusterView,
  shard: ShardView,
  { shardsDone, running }: Pick<Checkpoint, 'shardsDone' | 'running'>,
): number | undefined {
  const holders = activeHolders(view, shard)
  const isBegun = (ordinal: number) =>
    running !== 'unknown' &&
    running.some((recovery) => recovery.shard === shard.id && recovery.node === ordinal)
  const holding = members(view).filter(({ id }) => holders.includes(id))
  const found =
    holding.find(({ ordinal }) => isBegun(ordinal)) ??
    (shardsDone.includes(shard.id) ? holding[0] : undefined)
  return found?.ordinal
}

function members(view: ClusterView): Member[] {
  return view.peers.filter((peer): peer is Member => peer.isMember && peer.ordinal !== undefined)
}

function requireCollection({ collections }: ClusterView, name: string): CollectionView {
  const collection = collections.find((one) => one.name === name)
  if (collection !== undefined) return collection
  throw new Rejected(
    `collection ${name} does not exist: restore it as a whole, without spec.shards`,
  )
}

function requireShard(view: ClusterView, name: string, id: number): ShardView {
  const shard = requireCollection(view, name).shards.find((one) => one.id === id)
  if (shard === undefined) throw new Rejected(`collection ${name} has no shard ${id}`)
  return shard
}

/** A replica that is Active has newer points than any backup. */
function requireNoActiveReplica(view: ClusterView, name: string, shard: ShardView): void {
  const [holder] = activeHolders(view, shard)
  if (holder === undefined) return
  throw new Rejected(
    `shard ${shard.id} of ${name} has an Active replica on ${peerName(view, holder)}: there is nothing to restore`,
  )
}

/** The node with the least data among those that answer and have no replica of the shard. */
function freeNode(
  view: ClusterView,
  { name, shard, restored }: { name: string; shard: ShardView; restored: Map<number, number> },
): number {
  const bytes = bytesByPeer(view, { moves: [] })
  const load = ({ id, ordinal }: Member) => (bytes.get(id) ?? 0) + (restored.get(ordinal) ?? 0)
  const [free] = members(view)
    .filter(({ id }) => !shard.replicas.some(({ peer }) => peer === id))
    .toSorted((a, b) => load(a) - load(b) || a.ordinal - b.ordinal)
  if (free !== undefined) return free.ordinal
  throw new Rejected(
    `every node that answers has a replica of shard ${shard.id} of ${name} that is not Active, and a restore would overwrite it: add a node`,
  )
}
