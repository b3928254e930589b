/**
 * Which pods form the cluster. A pod that founded a cluster of its own is distinguished from one that
 * was removed or has not joined yet: only the first has a leader among the peers that it lists.
 */
import type { NodeStatus } from '../../clients/engine/shards.ts'
import type { Obstruction } from './view.ts'

/** A pod that answered, in distributed mode. */
export interface PodStatus {
  ordinal: number
  status: NodeStatus
}

/** The members of the one working cluster, by ordinal; otherwise why there is none. */
export function findMembers(pods: PodStatus[], nodes: number): PodStatus[] | Obstruction {
  const duplicate = findDuplicate(pods)
  if (duplicate !== undefined) return duplicate
  const working = groupsOf(pods).filter((group) => leaders(group).length > 0)
  const [members] = working.toSorted((a, b) => b.length - a.length)
  if (members === undefined) return whyNone(pods, nodes)
  const separate = working.filter((group) => group !== members && isSeparate(group, members))
  if (separate.length > 0) {
    const formatted = [members, ...separate].map(formatNodes).join('; ')
    return {
      reason: 'SplitBrain',
      message: `the pods form ${separate.length + 1} separate clusters: ${formatted}`,
    }
  }
  const peers = new Set(members.flatMap(({ status }) => Object.keys(status.peers)))
  if (members.length * 2 <= peers.size) {
    return {
      reason: 'NoLeader',
      message: `${members.length} of ${peers.size} peers answer, which is no majority`,
    }
  }
  return members
}

/** `http://vec-docs-2.vec-docs-headless:6335/` is pod 2. */
export function ordinalFromUri(uri: string): number | undefined {
  const digits = /^[a-z]+:\/\/[^./:]*-(\d+)[.:/]/.exec(uri)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function findDuplicate(pods: PodStatus[]): Obstruction | undefined {
  for (const { ordinal, status } of pods) {
    const other = pods.find((pod) => pod.ordinal > ordinal && pod.status.peer_id === status.peer_id)
    if (other === undefined) continue
    const message = `nodes ${ordinal} and ${other.ordinal} are the same peer ${status.peer_id}`
    return { reason: 'SplitBrain', message }
  }
  return undefined
}

/** Pods that list each other, directly or through others. */
function groupsOf(pods: PodStatus[]): PodStatus[][] {
  const groups: PodStatus[][] = []
  const rest = new Set(pods)
  for (const pod of pods) {
    if (!rest.delete(pod)) continue
    const group = [pod]
    for (const member of group) {
      for (const other of rest) {
        if (!listsOther(member, other) || !listsOther(other, member)) continue
        rest.delete(other)
        group.push(other)
      }
    }
    groups.push(group.toSorted((a, b) => a.ordinal - b.ordinal))
  }
  return groups
}

function listsOther({ status }: PodStatus, other: PodStatus): boolean {
  return String(other.status.peer_id) in status.peers
}

/** Leaders that pods of the group follow. A removed node names one that it no longer lists. */
function leaders(group: PodStatus[]): number[] {
  return group.flatMap(({ status }) => {
    const { leader } = status.raft_info
    const isWorking = status.consensus_thread_status.consensus_thread_status === 'working'
    return isWorking && leader != null && String(leader) in status.peers ? [leader] : []
  })
}

/** A pod that follows a leader of the other group is joining it, or does not know that it was removed. */
function isSeparate(group: PodStatus[], other: PodStatus[]): boolean {
  const listed = new Set(other.flatMap(({ status }) => Object.keys(status.peers)))
  return leaders(group).every((leader) => !listed.has(String(leader)))
}

function whyNone(pods: PodStatus[], nodes: number): Obstruction {
  if (pods.length === 0) {
    return { reason: 'EngineNotReady', message: `none of the ${nodes} nodes answers` }
  }
  const stopped = pods.filter(
    ({ status }) => status.consensus_thread_status.consensus_thread_status !== 'working',
  )
  if (stopped.length === pods.length) {
    return { reason: 'ConsensusStopped', message: `consensus is stopped on ${formatNodes(pods)}` }
  }
  return { reason: 'NoLeader', message: `no leader is known to ${formatNodes(pods)}` }
}

function formatNodes(pods: PodStatus[]): string {
  const ordinals = pods.map(({ ordinal }) => ordinal).join(', ')
  return `${pods.length === 1 ? 'node' : 'nodes'} ${ordinals}`
}
