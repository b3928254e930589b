/**
 * The nodes of a cluster: what is recorded about each of them, and which have lost their data. A node
 * counts as lost only by evidence about its volume or by the word of a user, never because its pod is
 * not ready.
 */
import type { NodeStatus, ReplacedPeer } from '../../crds/cluster-status.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { formatNames } from '../../crds/units.ts'
import { nodeCapacity } from './capacity.ts'
import type { NodeFacts, PeerFacts, ShardFacts, ShardsSummary } from './shards/summary.ts'

const MAX_LISTED = 5
/** How long the Kubernetes node of a local volume has to be missing until its pod is replaced without being asked. */
const NODE_GONE_SECONDS = 600

export interface LostNode {
  ordinal: number
  peer: number
  /** What shows that its data is lost. */
  evidence: string
  /** A user named it in the annotation. */
  isConfirmed: boolean
  /** It would be replaced without being asked, but the evidence may pass: a node that restarts is registered again. */
  isAwaited?: true
  /** The annotation names the node, but was set for an earlier loss of it, or while it was running. */
  ineffective?: ReplacedPeer
}

/**
 * The record of the nodes: the present one while every pod is a member of the cluster, else the last one.
 * The number of pods is that of the StatefulSet. A cluster without pods has not lost its nodes.
 */
export function nodeRecord(
  recorded: NodeStatus[] | undefined,
  { nodes, peers }: ShardFacts,
): NodeStatus[] | undefined {
  const present = nodes.flatMap((facts) => {
    const { ordinal, volume, zone, node } = facts
    const members = peers.filter((peer) => peer.isMember && peer.ordinal === ordinal)
    const [member] = members
    if (member === undefined || members.length > 1) return []
    return [
      {
        ordinal,
        peer: member.id,
        ...(volume !== undefined && { volume }),
        ...(zone !== undefined && { zone }),
        ...(node !== undefined && { node }),
        ...nodeCapacity(facts),
      },
    ]
  })
  return nodes.length > 0 && present.length === nodes.length ? present : recorded
}

/** Nodes whose peer is still listed and whose pod is not a member, with evidence that data is lost. */
export function lostNodes(cluster: VecCluster, facts: ShardFacts): LostNode[] {
  const { status, spec } = cluster
  const isWhenSafe = spec.healing.lostNodes === 'WhenSafe'
  const confirmed = replacedPeers(cluster, facts)
  return facts.nodes.flatMap((node) => {
    const { ordinal } = node
    const isMember = facts.peers.some((peer) => peer.isMember && peer.ordinal === ordinal)
    if (isMember) return []
    const recorded = status?.nodes?.find((entry) => entry.ordinal === ordinal)
    return facts.peers.flatMap((peer) => {
      if (peer.isMember || (peer.ordinal !== ordinal && peer.id !== recorded?.peer)) return []
      const loss = peer.id === recorded?.peer ? lossOf(recorded, node) : undefined
      const isConfirmed = isGivenUp(confirmed, peer)
      const mayBeIntact = peer.id === recorded?.peer && recorded.volume !== undefined
      if (loss === undefined && (!isConfirmed || mayBeIntact)) return []
      const evidence = loss ?? `the annotation ${ANNOTATIONS.replace} names it`
      const ineffective = confirmed.find((entry) => entry.ordinal === ordinal)
      const isAwaited = !isConfirmed && isWhenSafe && mayReturn(recorded, node)
      return [
        {
          ...{ ordinal, peer: peer.id, evidence, isConfirmed },
          ...(isAwaited && { isAwaited }),
          ...(!isConfirmed && ineffective !== undefined && { ineffective }),
        },
      ]
    })
  })
}

/** Of these peers, the nodes whose recorded volume or Kubernetes node is gone. */
export function recordedLosses(
  { status }: VecCluster,
  { nodes }: Pick<ShardFacts, 'nodes'>,
  peers: readonly number[],
): Pick<NodeStatus, 'ordinal' | 'peer' | 'volume'>[] {
  return (status?.nodes ?? []).flatMap((recorded) => {
    const { ordinal, peer, volume } = recorded
    const node = nodes.find((entry) => entry.ordinal === ordinal)
    if (!peers.includes(peer) || node === undefined) return []
    if (lossOf(recorded, node) === undefined) return []
    return [{ ordinal, peer, ...(volume !== undefined && { volume }) }]
  })
}

/**
 * Nodes that the annotation gives up although their volume is intact. They are not replaced: once the peer is removed,
 * the pod never joins again with its volume, and only a user knows whether that may be deleted.
 */
export function intactNodes(
  cluster: VecCluster,
  facts: ShardFacts,
): { ordinal: number; peer: number }[] {
  const named = replacedPeers(cluster, facts)
  return (cluster.status?.nodes ?? []).flatMap((recorded) => {
    const { ordinal, peer: id, volume } = recorded
    const peer = facts.peers.find((entry) => entry.id === id)
    if (peer === undefined || peer.isMember || !isGivenUp(named, peer)) return []
    if (facts.peers.some((entry) => entry.isMember && entry.ordinal === ordinal)) return []
    const node = facts.nodes.find((entry) => entry.ordinal === ordinal)
    const isIntact = volume !== undefined && node?.volume === volume
    if (!isIntact || lossOf(recorded, node) !== undefined) return []
    return [{ ordinal, peer: id }]
  })
}

/**
 * The peers that the annotation gives up: those that were absent when it was first seen. An annotation that
 * is left on the resource must not give up the next peer as well when its pod restarts: a peer that was
 * removed cannot come back with its volume. Nor must one that was set on a running node give it up at its next
 * restart: such a peer is recorded as ignored.
 */
export function replacedPeers(
  { metadata, status }: VecCluster,
  facts: ShardFacts | undefined,
): ReplacedPeer[] {
  const annotation = metadata.annotations?.[ANNOTATIONS.replace] ?? ''
  const named = annotation.split(',').map((name) => name.trim())
  const isNamed = ({ ordinal }: { ordinal: number }) => named.includes(String(ordinal))
  const recorded = (status?.replacedPeers ?? []).filter(isNamed)
  const added = (facts?.nodes ?? [])
    .filter((node) => isNamed(node) && !recorded.some(({ ordinal }) => ordinal === node.ordinal))
    .flatMap(({ ordinal }) => {
      const peers = facts?.peers ?? []
      const member = peers.find((peer) => peer.isMember && peer.ordinal === ordinal)
      if (member !== undefined) return [{ ordinal, peer: member.id, isIgnored: true as const }]
      const recordedPeer = status?.nodes?.find((entry) => entry.ordinal === ordinal)?.peer
      return absentPeers(peers, ordinal, recordedPeer).map(({ id }) => ({ ordinal, peer: id }))
    })
  return [...recorded, ...added]
}

/** What a user reads about nodes that have lost their data: what can be done, and at what price. */
export function lostNodeMessage(
  nodes: LostNode[],
  { onlyOn, backups }: Pick<ShardsSummary, 'onlyOn' | 'backups'>,
): string {
  return nodes
    .map((node) => {
      const { ordinal, peer, evidence } = node
      const shards = onlyOn.filter((entry) => entry.peer === peer).flatMap((entry) => entry.shards)
      const advice = shards.length === 0 ? safeAdvice(node) : unsafeAdvice(shards, backups)
      return `node ${ordinal} has lost its data (${evidence}): ${advice}`
    })
    .join('; ')
}

/**
 * The message if the nodes that still have their data are no majority. Without a majority the nodes agree on nothing, so
 * no node can be replaced, and they list no members. Undefined if nothing shows that.
 */
export function lostMajorityMessage(
  { status }: VecCluster,
  { nodes, backups }: Pick<ShardsSummary, 'nodes' | 'backups'>,
  /** Ordinals of the pods whose engine answers. */
  answering: readonly number[],
): string | undefined {
  const recorded = status?.nodes ?? []
  const lost = recorded.flatMap((entry) => {
    const node = nodes.find(({ ordinal }) => ordinal === entry.ordinal)
    if (node === undefined || answering.includes(entry.ordinal)) return []
    const evidence = lossOf(entry, node)
    if (evidence === undefined || mayReturn(entry, node)) return []
    return [`node ${entry.ordinal} has lost its data (${evidence})`]
  })
  const left = recorded.length - lost.length
  if (lost.length === 0 || left * 2 > recorded.length) return undefined
  return `${lost.join('; ')}: no majority is left (${left} of ${recorded.length} nodes), so no node can be replaced: restore a backup into a new cluster; ${backupsText(backups)}`
}

/** The recorded peer of a node whose pod is no member; without it, the peers at its address. */
function absentPeers(peers: PeerFacts[], ordinal: number, recorded: number | undefined) {
  const absent = peers.filter(({ isMember }) => !isMember)
  const known = absent.filter(({ id }) => id === recorded)
  return known.length > 0 ? known : absent.filter((peer) => peer.ordinal === ordinal)
}

function isGivenUp(replaced: ReplacedPeer[], { id }: PeerFacts): boolean {
  return replaced.some(({ peer, isIgnored }) => peer === id && isIgnored !== true)
}

/** Undefined if nothing shows that the data of the recorded node is lost. */
function lossOf(recorded: NodeStatus, node: NodeFacts): string | undefined {
  if (recorded.volume !== undefined) {
    if (node.isVolumeMissing === true) return 'its volume was deleted'
    if (node.volume !== undefined && node.volume !== recorded.volume)
      return 'its volume is a new one'
  }
  const isGone = node.isNodeGone === true && node.isUnschedulable === true
  if (!isGone || recorded.node === undefined) return undefined
  return `the Kubernetes node ${recorded.node} with its volume does not exist any more`
}

/** The volume is there; the Kubernetes node that it is on is not, and not for long. */
function mayReturn(recorded: NodeStatus | undefined, node: NodeFacts): boolean {
  const hasVolume = node.volume !== undefined && node.volume === recorded?.volume
  return hasVolume && (node.goneSeconds ?? 0) < NODE_GONE_SECONDS
}

function safeAdvice({ ordinal, ineffective, isAwaited }: LostNode): string {
  const annotation = `${ANNOTATIONS.replace}="${ordinal}"`
  const step =
    ineffective === undefined
      ? `annotate the VecCluster with ${annotation}`
      : `remove the annotation ${ANNOTATIONS.replace}, which ${earlierUse(ineffective)}, and set ${annotation} again`
  return isAwaited === true
    ? `every shard on it has an Active replica on another node, so it is replaced once this has lasted for ten minutes; to have it done at once, ${step}`
    : `every shard on it has an Active replica on another node, so it can be replaced: ${step}`
}

function earlierUse({ peer, isIgnored }: ReplacedPeer): string {
  return isIgnored === true
    ? 'was set while the node was running'
    : `gave up the earlier peer ${peer}`
}

function unsafeAdvice(shards: string[], backups: string[]): string {
  return `no other node has an Active replica of ${formatNames(shards, MAX_LISTED)}: restore them from a backup (a VecRestore with spec.shards), or delete their collections; ${backupsText(backups)}`
}

function backupsText(backups: string[]): string {
  return backups.length === 0
    ? 'no Completed VecBackup of the cluster exists'
    : `the newest Completed backups: ${backups.join(', ')}`
}
