/**
 * Whether the nodes form one cluster. A node that lost its volume starts as a cluster of its own,
 * is ready, and has no collections: the answer of one node is trusted only if all nodes agree.
 */
import { EngineError, Rejected } from '../crds/contract/errors.ts'
import { formatNames } from '../crds/units.ts'
import type { ClusterStatus } from './clients/engine/responses.ts'
import type { Engine } from './clients/engine/client.ts'

/** The expected nodes. */
export interface ClusterNodes {
  replicas: number
  engineForPod: (ordinal: number) => Engine
  signal: AbortSignal
}

/** The view of one node. */
export interface NodeState {
  cluster: ClusterStatus
  collections: string[]
}

/** The view that all nodes share. */
export interface ClusterState {
  /** Sorted by name. */
  collections: string[]
  /** Number of peers; more than nodes if a removed node is still a peer. */
  peers: number
}

/**
 * Asks every node. Throws an `EngineError` without a status, which is transient, if nodes disagree
 * or one does not answer; `Rejected` if they can never agree.
 */
export async function readConsistentState({
  replicas,
  engineForPod,
  signal,
}: ClusterNodes): Promise<ClusterState> {
  const ordinals = Array.from({ length: replicas }, (_, ordinal) => ordinal)
  const views = await Promise.all(
    ordinals.map(async (ordinal): Promise<NodeState> => {
      const engine = engineForPod(ordinal)
      const cluster = await engine.cluster(signal)
      return { cluster, collections: (await engine.collections(signal)).toSorted() }
    }),
  )
  rejectStandaloneNodes(views)
  const inconsistency = findInconsistency(views)
  if (inconsistency !== undefined) throw new EngineError(inconsistency)
  const [first] = views
  const peers = first?.cluster.status === 'enabled' ? Object.keys(first.cluster.peers).length : 1
  return { collections: first?.collections ?? [], peers }
}

/** Why they do not form one cluster, with the view of each node; undefined if they do. */
export function findInconsistency(views: NodeState[]): string | undefined {
  return (
    findStoppedConsensus(views) ??
    findPeerMismatch(views) ??
    findLeaderMismatch(views) ??
    findCollectionMismatch(views)
  )
}

/** Nodes without distributed mode never become one cluster. */
function rejectStandaloneNodes(views: NodeState[]): void {
  const standalone = views.findIndex(({ cluster }) => cluster.status === 'disabled')
  if (standalone === -1 || views.length === 1) return
  throw new Rejected(`node ${standalone} runs alone: distributed mode is disabled`)
}

type ClusterMember = Extract<ClusterStatus, { status: 'enabled' }>

function members(views: NodeState[]): ClusterMember[] {
  return views.map(({ cluster }) => cluster).filter((cluster) => cluster.status === 'enabled')
}

function findStoppedConsensus(views: NodeState[]): string | undefined {
  for (const [ordinal, { consensus_thread_status: status }] of members(views).entries()) {
    const { consensus_thread_status: thread, err = 'no reason given' } = status
    if (thread !== 'working') {
      return `consensus is ${thread} on node ${ordinal}, which a restart of its pod repairs: ${err}`
    }
  }
  return undefined
}

/**
 * Each node must see every pod. A peer without a pod is accepted: replicas on it are checked
 * elsewhere.
 */
function findPeerMismatch(views: NodeState[]): string | undefined {
  const allMembers = members(views)
  const podPeerIds = allMembers.map(({ peer_id }) => String(peer_id))
  if (new Set(podPeerIds).size < podPeerIds.length) {
    return `two pods are the same peer: ${formatList(podPeerIds.map((id, ordinal) => `node ${ordinal} is peer ${id}`))}`
  }
  const visiblePeerIds = allMembers.map(({ peers }) => Object.keys(peers).sort())
  const isComplete = visiblePeerIds.every(
    (peers) =>
      podPeerIds.every((id) => peers.includes(id)) && sameNames(peers, visiblePeerIds[0] ?? []),
  )
  if (isComplete) return undefined
  const names = new Map(podPeerIds.map((id, ordinal) => [id, `node ${ordinal}`]))
  return formatViews(views, (_, ordinal) =>
    (visiblePeerIds[ordinal] ?? []).map(
      (id) => names.get(id) ?? `peer ${id}, which is none of the pods`,
    ),
  )
}

function findLeaderMismatch(views: NodeState[]): string | undefined {
  const leaders = members(views).map(({ raft_info: { leader } }) => leader ?? undefined)
  const leaderless = leaders.indexOf(undefined)
  if (leaderless !== -1) return `node ${leaderless} knows of no leader`
  const [first, ...others] = leaders
  const differing = others.findIndex((leader) => leader !== first)
  if (differing === -1) return undefined
  return `nodes 0 and ${differing + 1} follow different leaders: peers ${first} and ${others[differing]}`
}

function findCollectionMismatch(views: NodeState[]): string | undefined {
  const [first, ...others] = views.map(({ collections }) => collections)
  if (others.every((names) => sameNames(names, first ?? []))) return undefined
  const union = [...new Set(views.flatMap(({ collections }) => collections))].sort()
  const gaps = views.flatMap(({ collections }, ordinal) => {
    const missing = union.filter((name) => !collections.includes(name))
    return missing.length === 0 ? [] : [`node ${ordinal} does not list ${formatList(missing)}`]
  })
  return `the nodes do not list the same collections: ${gaps.join('; ')}`
}

/** The views of the nodes, grouped by equal view. */
function formatViews(
  views: NodeState[],
  formatNode: (state: NodeState, ordinal: number) => string[],
): string {
  const ordinalsByView = new Map<string, number[]>()
  for (const [ordinal, state] of views.entries()) {
    const { length } = state.collections
    const view = `${formatList(formatNode(state, ordinal))}, with ${length} collections`
    ordinalsByView.set(view, [...(ordinalsByView.get(view) ?? []), ordinal])
  }
  const formatted = [...ordinalsByView].map(
    ([view, nodes]) =>
      `${nodes.length === 1 ? 'node' : 'nodes'} ${nodes.join(', ')} ${nodes.length === 1 ? 'sees' : 'see'} ${view}`,
  )
  return `the nodes do not see one cluster: ${formatted.join('; ')}`
}

const MAX_LISTED = 5

function formatList(names: string[]): string {
  return formatNames(names, MAX_LISTED)
}

function sameNames(a: string[], b: string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index])
}
