/**
 * Whether the nodes of a cluster are one cluster. A node that lost its volume starts as a cluster of its
 * own, is ready, and has no collections: what one node says is true only when all of them say it.
 */
import { EngineError, Rejected } from '../crds/contract/errors.ts'
import type { ClusterStatus } from './clients/engine/responses.ts'
import type { Engine } from './clients/engine/client.ts'

/** The nodes that there should be. */
export interface ClusterNodes {
  replicas: number
  engineForPod: (ordinal: number) => Engine
  signal: AbortSignal
}

/** What one node says. */
export interface NodeState {
  cluster: ClusterStatus
  collections: string[]
}

/** What all of them say. */
export interface ClusterState {
  /** By name, in order. */
  collections: string[]
  /** How many peers there are; more than nodes where one that was removed is still a peer. */
  peers: number
}

/**
 * Asks every node. Throws an `EngineError` without a status, which passes, where they do not agree or one
 * does not answer; `Rejected` where they never will.
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

/** Why they are not one cluster, with what each of them sees; undefined when they are. */
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

/** Each node must see every pod. A peer that is none of them may stay: copies on it are looked at elsewhere. */
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
    return missing.length === 0 ? [] : [`node ${ordinal} lacks ${formatList(missing)}`]
  })
  return `the nodes do not list the same collections: ${gaps.join('; ')}`
}

/** What each node sees, nodes of one opinion together. */
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
  const unlisted = names.length - MAX_LISTED
  const listed = names.slice(0, MAX_LISTED).join(', ')
  return unlisted > 0 ? `${listed} and ${unlisted} more` : listed
}

function sameNames(a: string[], b: string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index])
}
