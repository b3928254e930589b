/**
 * Whether the nodes of a cluster are one cluster. A node that lost its volume starts as a cluster of its
 * own, is ready, and has no collections: what one node says is true only when all of them say it.
 */
import { EngineError, Rejected } from '../crds/errors.ts'
import type { ClusterView } from './clients/engine-answers.ts'
import type { Engine } from './clients/engine.ts'

/** The nodes that there should be. */
export interface Nodes {
  replicas: number
  engineOn: (ordinal: number) => Engine
  signal: AbortSignal
}

/** What one node says. */
export interface NodeView {
  cluster: ClusterView
  collections: string[]
}

/** What all of them say. */
export interface AgreedView {
  /** By name, in order. */
  collections: string[]
  /** How many peers there are; more than nodes where one that was removed is still a peer. */
  peers: number
}

/**
 * Asks every node. Throws an `EngineError` without a status, which passes, where they do not agree or one
 * does not answer; `Rejected` where they never will.
 */
export async function agreedView({ replicas, engineOn, signal }: Nodes): Promise<AgreedView> {
  const ordinals = Array.from({ length: replicas }, (_, ordinal) => ordinal)
  const views = await Promise.all(
    ordinals.map(async (ordinal): Promise<NodeView> => {
      const engine = engineOn(ordinal)
      const cluster = await engine.cluster(signal)
      return { cluster, collections: (await engine.collections(signal)).toSorted() }
    }),
  )
  refuseLoners(views)
  const disagreement = whyDivided(views)
  if (disagreement !== undefined) throw new EngineError(disagreement)
  const [first] = views
  const peers = first?.cluster.status === 'enabled' ? Object.keys(first.cluster.peers).length : 1
  return { collections: first?.collections ?? [], peers }
}

/** Why they are not one cluster, with what each of them sees; undefined when they are. */
export function whyDivided(views: NodeView[]): string | undefined {
  return (
    deadConsensus(views) ??
    differingPeers(views) ??
    differingLeaders(views) ??
    differingCollections(views)
  )
}

/** Nodes without distributed mode never become one cluster. */
function refuseLoners(views: NodeView[]): void {
  const alone = views.findIndex(({ cluster }) => cluster.status === 'disabled')
  if (alone === -1 || views.length === 1) return
  throw new Rejected(`node ${alone} runs alone: distributed mode is disabled`)
}

type Member = Extract<ClusterView, { status: 'enabled' }>

function members(views: NodeView[]): Member[] {
  return views.map(({ cluster }) => cluster).filter((cluster) => cluster.status === 'enabled')
}

function deadConsensus(views: NodeView[]): string | undefined {
  for (const [ordinal, { consensus_thread_status: status }] of members(views).entries()) {
    const { consensus_thread_status: thread, err = 'no reason given' } = status
    if (thread !== 'working') {
      return `consensus is ${thread} on node ${ordinal}, which a restart of its pod repairs: ${err}`
    }
  }
  return undefined
}

/** Each node must see every pod. A peer that is none of them may stay: copies on it are looked at elsewhere. */
function differingPeers(views: NodeView[]): string | undefined {
  const all = members(views)
  const own = all.map(({ peer_id }) => String(peer_id))
  if (new Set(own).size < own.length) {
    return `two pods are the same peer: ${listOf(own.map((id, ordinal) => `node ${ordinal} is peer ${id}`))}`
  }
  const seen = all.map(({ peers }) => Object.keys(peers).sort())
  const isWhole = seen.every(
    (peers) => own.every((id) => peers.includes(id)) && sameText(peers, seen[0] ?? []),
  )
  if (isWhole) return undefined
  const names = new Map(own.map((id, ordinal) => [id, `node ${ordinal}`]))
  return divided(views, (_, ordinal) =>
    (seen[ordinal] ?? []).map((id) => names.get(id) ?? `peer ${id}, which is none of the pods`),
  )
}

function differingLeaders(views: NodeView[]): string | undefined {
  const leaders = members(views).map(({ raft_info: { leader } }) => leader ?? undefined)
  const none = leaders.indexOf(undefined)
  if (none !== -1) return `node ${none} knows of no leader`
  const [first, ...others] = leaders
  const other = others.findIndex((leader) => leader !== first)
  if (other === -1) return undefined
  return `nodes 0 and ${other + 1} follow different leaders: peers ${first} and ${others[other]}`
}

function differingCollections(views: NodeView[]): string | undefined {
  const [first, ...others] = views.map(({ collections }) => collections)
  if (others.every((names) => sameText(names, first ?? []))) return undefined
  const union = [...new Set(views.flatMap(({ collections }) => collections))].sort()
  const lacks = views.flatMap(({ collections }, ordinal) => {
    const missing = union.filter((name) => !collections.includes(name))
    return missing.length === 0 ? [] : [`node ${ordinal} lacks ${listOf(missing)}`]
  })
  return `the nodes do not list the same collections: ${lacks.join('; ')}`
}

/** What each node sees, nodes of one opinion together. */
function divided(views: NodeView[], seenBy: (view: NodeView, ordinal: number) => string[]): string {
  const opinions = new Map<string, number[]>()
  for (const [ordinal, view] of views.entries()) {
    const { length } = view.collections
    const opinion = `${listOf(seenBy(view, ordinal))}, with ${length} collections`
    opinions.set(opinion, [...(opinions.get(opinion) ?? []), ordinal])
  }
  const told = [...opinions].map(
    ([opinion, nodes]) =>
      `${nodes.length === 1 ? 'node' : 'nodes'} ${nodes.join(', ')} ${nodes.length === 1 ? 'sees' : 'see'} ${opinion}`,
  )
  return `the nodes do not see one cluster: ${told.join('; ')}`
}

const MAX_LISTED = 5

function listOf(names: string[]): string {
  const more = names.length - MAX_LISTED
  const listed = names.slice(0, MAX_LISTED).join(', ')
  return more > 0 ? `${listed} and ${more} more` : listed
}

function sameText(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((text, index) => text === other[index])
}
