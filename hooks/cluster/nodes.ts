/**
 * The nodes of a cluster: what is recorded about each of them, and which have lost their data. A node
 * counts as lost only by evidence about its volume or by the word of a user, never because its pod is
 * not ready.
 */
import type { NodeStatus, VecCluster } from '../../crds/cluster.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { nodeCapacity } from './capacity.ts'
import type { NodeFacts, ShardFacts } from './shards/summary.ts'

export interface LostNode {
  ordinal: number
  peer: number
  /** What shows that its data is lost. */
  evidence: string
  /** A user named it in the annotation. */
  isConfirmed: boolean
}

/**
 * The record of the nodes: the present one while every pod is a member of the cluster, else the
 * last one. The number of pods is that of the StatefulSet.
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
  return present.length === nodes.length ? present : recorded
}

/** Nodes whose peer is still listed and whose pod is not a member, with evidence that data is lost. */
export function lostNodes({ metadata, status }: VecCluster, facts: ShardFacts): LostNode[] {
  const confirmed = metadata.annotations?.[ANNOTATIONS.replace]
    ?.split(',')
    .map((name) => name.trim())
  return facts.nodes.flatMap((node) => {
    const { ordinal } = node
    const isMember = facts.peers.some((peer) => peer.isMember && peer.ordinal === ordinal)
    if (isMember) return []
    const recorded = status?.nodes?.find((entry) => entry.ordinal === ordinal)
    const isConfirmed = confirmed?.includes(String(ordinal)) === true
    return facts.peers.flatMap((peer) => {
      if (peer.isMember || (peer.ordinal !== ordinal && peer.id !== recorded?.peer)) return []
      const loss = peer.id === recorded?.peer ? lossOf(recorded, node) : undefined
      if (loss === undefined && !isConfirmed) return []
      const evidence = loss ?? `the annotation ${ANNOTATIONS.replace} names it`
      return [{ ordinal, peer: peer.id, evidence, isConfirmed }]
    })
  })
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
