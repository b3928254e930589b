/**
 * Looks at the cluster all the time: Active replicas of each shard, and the groups of nodes that know each
 * other. What it finds wrong is a finding of the round.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { ask, pathOf } from '../hard/ask.ts'
import type { RealNode } from '../hard/engines.ts'
import { viewOf } from '../hard/replicas.ts'
import { MAX_GAP_MS, type Seen, type SeenReplica } from './serving.ts'
import type { NodesWorld } from './world.ts'

export interface Sample {
  /** Milliseconds since the start of the round. */
  at: number
  pods: number
  /** Number of clusters that the answering nodes form. */
  clusters: number
  /** Active replicas by `collection/shard`, as the node with the newest consensus state reports them. */
  active: Record<string, number>
  /** Shards that are being created: none of their replicas was Active yet. */
  created: number
}

/** What was done to the cluster, at a time of the samples. */
export interface Mark {
  at: number
  what: string
}

interface Peers {
  peer_id: number
  peers: Record<string, { uri: string }>
  raft_info: { commit: number; pending_operations: number; leader: number | null }
  consensus_thread_status: { consensus_thread_status: string; err?: string }
}

/** Between two looks. */
export const PAUSE_MS = 500
const CALL_MS = 2_000
/** For a node that is about to propose that a replica is Dead. */
const AGREED_MS = 1_500
/** A shard whose last Active replica restarts is reported as Active; none for so many samples is a finding. */
const MOST_EMPTY = 3
/** The engine reads from and writes to both alike; the second is that of a shard that gets points of a removed one. */
const SERVING = ['Active', 'ReshardingScaleDown']
/**
 * The engine can block its consensus thread for good when a shard key changes during a transfer, and stop it with an
 * error that a restart cures (docs/engine-notes.md). A user restarts the pod; so does this suite.
 */
const HUNG_MS = 60_000
/**
 * Defects of the engine that stop the consensus of every node for good, whatever an operator does
 * (docs/engine-notes.md). A transfer of the engine's own was agreed on after its shard key was deleted.
 */
const ENGINE_DEFECTS = [/Shard \d+ does not exist/]
/** `GET /cluster` may name no cause. A process that cannot start because of one writes it at the end of its log. */
const FAILED_START = "Can't initialize consensus"
/** What a process writes first. */
const BANNER = 'Version: '
/** Longer than what a process writes until it fails to start. */
const LOG_BYTES = 131_072

/** An answer of a node. One that is not ready yet counts only as hung: it may be starting. */
interface Found {
  ordinal: number
  url: string
  pid: number | undefined
  isReady: boolean
  peers: Peers
}

/** What the watch reads of a world, and how it restarts an engine. */
export type WatchedWorld = Pick<NodesWorld, 'nodes' | 'ordinals' | 'isReady'> & {
  node(ordinal: number): Pick<RealNode, 'url' | 'pid' | 'log' | 'signal'>
}

/** The time of this machine; a test passes its own. */
export interface WatchTime {
  /** Milliseconds since 1970. */
  now(): number
  sleep(ms: number): Promise<void>
}

const REAL_TIME: WatchTime = {
  now: () => Date.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
}

export class Watch {
  readonly samples: Sample[] = []
  readonly marks: Mark[] = []
  readonly findings: string[] = []
  /** What could answer reads, at each look. */
  readonly seen: Seen[] = []
  /** Nodes that were killed because they applied no consensus entry any more, ready or not. */
  hung = 0
  /** Since when a node has not worked because an error stopped its consensus, in milliseconds since 1970. */
  stoppedSince = Infinity
  /** Resolves with the error once a known defect of the engine has stopped the consensus of a node. */
  readonly broken: Promise<string>
  #break: (error: string) => void = () => {}
  readonly #world: WatchedWorld
  readonly #time: WatchTime
  readonly #hungMs: number
  readonly #started: number
  readonly #empty = new Map<string, number>()
  /** Shards that had an Active replica. One that is gone and comes back is another shard, which is empty at first. */
  readonly #wasActive = new Set<string>()
  /** Since when the process of each node has had the same commit although there are changes that it has not applied. */
  readonly #behind = new Map<
    number,
    { pid: number | undefined; commit: number; isStopped: boolean; since: number }
  >()
  /** Replicas that serve, when they were read last. */
  #replicas: SeenReplica[] = []
  #replicasAt = 0
  #over = false
  readonly #work: Promise<void>

  constructor(world: WatchedWorld, time = REAL_TIME, hungMs = HUNG_MS) {
    this.#world = world
    this.#time = time
    this.#hungMs = hungMs
    this.#started = time.now()
    this.broken = new Promise((resolve) => {
      this.#break = resolve
    })
    this.#work = this.#run()
  }

  async stop(): Promise<void> {
    this.#over = true
    await this.#work
  }

  /** Something that was done to the cluster, for the picture. */
  mark(what: string): void {
    this.marks.push({ at: this.#time.now() - this.#started, what })
  }

  /** Ordinal of the leader; undefined while there is none. */
  async leader(): Promise<number | undefined> {
    for (const { ordinal, peers } of await this.#peers()) {
      if (peers.raft_info.leader === peers.peer_id) return ordinal
    }
    return undefined
  }

  /** Whether every node is ready and has applied the same changes, before a pause and after it. */
  async hasAgreed(): Promise<boolean> {
    if (!(await this.#isAgreed())) return false
    await this.#time.sleep(AGREED_MS)
    return this.#isAgreed()
  }

  async #isAgreed(): Promise<boolean> {
    const found = await this.#peers()
    const [first] = found
    if (first === undefined || found.length < this.#world.ordinals().length) return false
    const { commit, leader } = first.peers.raft_info
    return found.every(
      ({ peers: { raft_info: raft } }) =>
        raft.commit === commit &&
        raft.leader === leader &&
        leader !== null &&
        raft.pending_operations === 0,
    )
  }

  /** Id of each answering node, by ordinal. */
  async peerIds(): Promise<Map<number, number>> {
    const found = await this.#peers()
    return new Map(found.map(({ ordinal, peers }) => [ordinal, peers.peer_id]))
  }

  async #run(): Promise<void> {
    while (!this.#over) {
      try {
        await this.#sample()
      } catch {
        // No node answers at this moment.
      }
      await this.#time.sleep(PAUSE_MS)
    }
  }

  async #sample(): Promise<void> {
    const at = this.#time.now()
    const all = await this.#answers()
    const found = all.filter(({ isReady }) => isReady)
    const newest = found.toSorted(
      (one, other) => other.peers.raft_info.commit - one.peers.raft_info.commit,
    )[0]
    const commit = newest?.peers.raft_info.commit ?? 0
    const defect =
      all.map(({ peers }) => engineDefect(peers)).find((text) => text !== undefined) ??
      this.#failedStart(all)
    if (all.some(({ peers }) => isStoppedByError(peers))) {
      this.stoppedSince = Math.min(this.stoppedSince, at)
    } else if (found.length === this.#world.ordinals().length) this.stoppedSince = Infinity
    if (defect === undefined) this.#killHung(all, commit)
    else this.#break(defect)
    try {
      // A blocked node does not answer for its collections.
      const asked = found.find(({ peers }) => !isBehind(peers, commit)) ?? newest
      if (asked !== undefined) await this.#judgeAll(found, asked.url)
    } finally {
      const nodes = found.map(({ peers }) => ({
        ...{ peer: peers.peer_id, commit: peers.raft_info.commit },
        isBehind: isBehind(peers, commit),
      }))
      const isKnown = this.#time.now() - this.#replicasAt <= MAX_GAP_MS
      this.seen.push({ at, nodes, replicas: isKnown ? this.#replicas : [] })
    }
  }

  async #judgeAll(found: readonly { ordinal: number; peers: Peers }[], url: string): Promise<void> {
    const replicas = await replicasOf(url, CALL_MS)
    this.#replicas = replicas.filter(({ state }) => SERVING.includes(state))
    this.#replicasAt = this.#time.now()
    const active = counted(replicas, SERVING)
    const at = this.#time.now() - this.#started
    const sample = {
      at,
      pods: this.#world.ordinals().length,
      // A node that is being removed lists itself alone, from the removal of its peer to that of its pod.
      clusters: groups(
        found.filter(({ ordinal }) => ordinal < this.#world.nodes).map(({ peers }) => peers),
      ),
      active,
    }
    this.#judge(sample)
    const created = Object.keys(active).filter((shard) => !this.#wasActive.has(shard)).length
    this.samples.push({ ...sample, created })
  }

  #killHung(found: readonly Found[], newest: number): void {
    const now = this.#time.now()
    for (const { ordinal, pid, isReady, peers } of found) {
      const { commit } = peers.raft_info
      const isStopped = isStoppedByError(peers)
      const before = this.#behind.get(ordinal)
      const isSame =
        before?.pid === pid && before?.commit === commit && before.isStopped === isStopped
      if (!isStopped && !(isReady && isBehind(peers, newest))) this.#behind.delete(ordinal)
      else if (!isSame) this.#behind.set(ordinal, { pid, commit, isStopped, since: now })
      else if (now - before.since > this.#hungMs) {
        this.hung += 1
        this.#behind.delete(ordinal)
        this.#world.node(ordinal).signal('SIGKILL')
      }
    }
  }

  /** The known defect of the engine with which the last process of a silent node could not start. */
  #failedStart(answering: readonly Found[]): string | undefined {
    for (const ordinal of this.#world.ordinals()) {
      if (answering.some((found) => found.ordinal === ordinal)) continue
      try {
        const defect = defectAtStart(endOf(this.#world.node(ordinal).log))
        if (defect !== undefined) return defect
      } catch {
        // A new pod has no engine yet.
      }
    }
    return undefined
  }

  #judge({ clusters, active, at }: Omit<Sample, 'created'>): void {
    if (clusters > 1) this.#find(`${clusters} clusters answer`, at)
    for (const shard of this.#wasActive) if (!(shard in active)) this.#wasActive.delete(shard)
    for (const [shard, count] of Object.entries(active)) {
      if (count > 0) this.#wasActive.add(shard)
      const isEmpty = count === 0 && this.#wasActive.has(shard)
      const empty = isEmpty ? (this.#empty.get(shard) ?? 0) + 1 : 0
      this.#empty.set(shard, empty)
      if (empty === MOST_EMPTY) this.#find(`${shard} has no Active replica`, at)
    }
  }

  #find(text: string, at: number): void {
    if (this.findings.some((found) => found.startsWith(text))) return
    this.findings.push(`${text} after ${Math.round(at / 1000)} s`)
  }

  /** The nodes that are ready. */
  async #peers(): Promise<Found[]> {
    return (await this.#answers()).filter(({ isReady }) => isReady)
  }

  async #answers(): Promise<Found[]> {
    const found = await Promise.all(
      this.#world.ordinals().map(async (ordinal) => {
        const isReady = this.#world.isReady(ordinal)
        try {
          // A new pod has no engine yet.
          const { url, pid } = this.#world.node(ordinal)
          const peers = (await ask(url, 'GET', '/cluster', undefined, CALL_MS)) as Peers
          return [{ ordinal, url, pid, isReady, peers }]
        } catch {
          return []
        }
      }),
    )
    return found.flat()
  }
}

/** The error with which a known defect of the engine has stopped this node's consensus. */
export function engineDefect(peers: Pick<Peers, 'consensus_thread_status'>): string | undefined {
  const { err = '' } = peers.consensus_thread_status
  if (!isStoppedByError(peers)) return undefined
  return ENGINE_DEFECTS.some((pattern) => pattern.test(err)) ? err : undefined
}

/** The error of a known defect of the engine, if the last process in this log failed to start because of it. */
export function defectAtStart(log: string): string | undefined {
  const process = log.slice(Math.max(0, log.lastIndexOf(BANNER)))
  const failed = process.indexOf(FAILED_START)
  if (failed === -1) return undefined
  const error = process.slice(failed)
  const found = ENGINE_DEFECTS.map((pattern) => pattern.exec(error)?.[0])
  return found.find((text) => text !== undefined)
}

function endOf(path: string): string {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    const bytes = Buffer.alloc(Math.min(size, LOG_BYTES))
    const read = readSync(file, bytes, 0, bytes.length, size - bytes.length)
    return bytes.toString('utf8', 0, read)
  } finally {
    closeSync(file)
  }
}

/** A node that was removed is `stopped` instead. */
function isStoppedByError({
  consensus_thread_status: thread,
}: Pick<Peers, 'consensus_thread_status'>) {
  return thread.consensus_thread_status === 'stopped_with_err'
}

/** Nodes that list each other are one cluster. */
function groups(nodes: readonly Peers[]): number {
  const left = new Set(nodes)
  let count = 0
  for (const node of left) {
    count += 1
    for (const other of left) {
      const isOne = String(other.peer_id) in node.peers || String(node.peer_id) in other.peers
      if (other === node || isOne) left.delete(other)
    }
  }
  return count
}

/** A blocked leader is not behind any node, but does not apply what is committed. */
function isBehind({ raft_info: { commit, pending_operations: pending } }: Peers, newest: number) {
  return commit < newest || pending > 0
}

export async function activeReplicas(
  url: string,
  states: readonly string[] = ['Active'],
): Promise<Record<string, number>> {
  return counted(await replicasOf(url), states)
}

/** How many replicas each shard has in one of these states. */
function counted(
  replicas: readonly (SeenReplica & { state: string })[],
  states: readonly string[],
): Record<string, number> {
  const active: Record<string, number> = {}
  for (const { collection, shard, key, state } of replicas) {
    // The engine reuses the highest id once its shard is deleted.
    const name = `${collection}/${shard}${key === undefined ? '' : ` (${key})`}`
    active[name] = (active[name] ?? 0) + (states.includes(state) ? 1 : 0)
  }
  return active
}

/** Every replica that this node knows, by the names of their collections. */
async function replicasOf(
  url: string,
  timeoutMs?: number,
): Promise<(SeenReplica & { state: string })[]> {
  const { collections } = (await ask(url, 'GET', '/collections', undefined, CALL_MS)) as {
    collections: { name: string }[]
  }
  const all: (SeenReplica & { state: string })[] = []
  for (const { name } of collections.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
    const view = await viewOf(url, name, (...[node, method, path]) =>
      ask(node, method, path, undefined, timeoutMs),
    )
    const own = (view?.local_shards ?? []).map((shard) => ({
      ...shard,
      peer_id: view?.peer_id ?? 0,
    }))
    for (const { shard_id: shard, shard_key: key, state, peer_id: peer } of [
      ...own,
      ...(view?.remote_shards ?? []),
    ]) {
      all.push({ collection: name, shard, ...(key !== undefined && { key }), peer, state })
    }
  }
  return all
}

/** Replicas that a shard should have: two, or one on a single node. */
export async function missingReplicas(url: string, replicas: number): Promise<string[]> {
  const active = await activeReplicas(url)
  return Object.entries(active).flatMap(([shard, count]) =>
    count === replicas ? [] : [`${shard} has ${count} Active replicas instead of ${replicas}`],
  )
}

/** Replicas of all collections on each node, by the id of its peer. */
export async function replicasByPeer(url: string): Promise<Map<number, string[]>> {
  const held = new Map<number, string[]>()
  const { collections } = (await ask(url, 'GET', '/collections')) as {
    collections: { name: string }[]
  }
  for (const { name } of collections) {
    const view = await viewOf(url, name)
    if (view === undefined) continue
    const all = [
      ...view.local_shards.map((shard) => ({ ...shard, peer_id: view.peer_id })),
      ...view.remote_shards,
    ]
    for (const { shard_id: shard, peer_id: peer } of all) {
      held.set(peer, [...(held.get(peer) ?? []), `${pathOf(name)}/${shard}`])
    }
  }
  return held
}
