/**
 * Updates the pods of a StatefulSet one at a time. Kubernetes replaces the pods from the partition
 * on, so a node is released when the partition is lowered to it. The order is that of StatefulSets,
 * from the highest ordinal down, whichever node is the leader.
 */
import { formatAcceptHint } from '../../../crds/contract/job.ts'
import { differenceDefect, nodeDefect, replicaDefect } from './defects.ts'
import {
  activeElsewhere,
  activeHolders,
  describeShard,
  formatList,
  holds,
  shardsOf,
  type Shard,
} from './queries.ts'
import { SELF_REPAIR_SECONDS } from './repair.ts'
import { planned, refused, transferInProgress, type Plan } from './step.ts'
import type {
  ClusterView,
  CountedReplica,
  DesiredShards,
  Obstruction,
  PeerView,
  UpdateView,
} from './view.ts'

const ACCEPT_HINT = formatAcceptHint('last-copy')

/** The next node to update, or why none can be updated now. */
export function updateNodes(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const { update } = view
  if (update === undefined || desired.update === undefined) return undefined
  const ordinal = nextOrdinal(update)
  if (ordinal === undefined) return incompleteUpdate(view, update, desired)
  if (ordinal >= update.partition) return waiting(`node ${ordinal} is being updated`)
  const incomplete = incompleteUpdate(view, update, desired)
  if (incomplete !== undefined) return incomplete
  if (desired.update.allowsLastCopy) return release(ordinal)
  const missing = missingNode(view, update, ordinal)
  if (missing !== undefined) {
    return isRecent(desired, nodeDefect(missing.ordinal))
      ? waiting(missing.message)
      : refused(
          'NodeMissing',
          `${missing.message}; node ${ordinal} is updated while all others are ready: repair that node, or ${ACCEPT_HINT}`,
        )
  }
  if (view.transfers.length > 0) return transferInProgress(view)
  const peer = view.peers.find((entry) => entry.isMember && entry.ordinal === ordinal)
  if (peer === undefined) return waiting(`node ${ordinal} does not answer`)
  return (
    quorumLoss(view, peer, ordinal) ??
    lastReplicas(view, peer, desired) ??
    differingReplicas(view, peer, desired) ??
    release(ordinal)
  )
}

/**
 * A node that is down serves nothing, so its pod is replaced whatever the state of the others is: the
 * new template may be what repairs the cluster.
 */
export function updateFailedNode(view: ClusterView, { update: desired }: DesiredShards) {
  const { update, broken } = view
  if (update === undefined || desired === undefined || broken?.reason === 'SplitBrain')
    return undefined
  const ordinal = nextOrdinal(update)
  if (ordinal === undefined || ordinal >= update.partition) return undefined
  const isMember = view.peers.some((peer) => peer.isMember && peer.ordinal === ordinal)
  return isMember || !update.unready.includes(ordinal) ? undefined : release(ordinal)
}

/** Why the next node is not updated, if a user can change that. */
export function closedGate(view: ClusterView, desired: DesiredShards): Obstruction | undefined {
  if (view.broken !== undefined || view.unsettled !== undefined) return undefined
  if (updateFailedNode(view, desired) !== undefined) return undefined
  const plan = updateNodes(view, desired)
  if (plan?.is !== 'refused') return undefined
  const { is: _, ...gate } = plan
  return gate
}

/** Collections with shards that only this node has: they are not available while it restarts. */
export function unavailableCollections(view: ClusterView, ordinal: number): string[] {
  const peer = view.peers.find((entry) => entry.ordinal === ordinal && entry.isMember)
  if (peer === undefined) return []
  const shards = shardsOf(view).filter((shard) => isLastReplica(view, shard, peer))
  return [...new Set(shards.map(({ collection }) => collection))]
}

function nextOrdinal({ outdated }: UpdateView): number | undefined {
  return outdated.length === 0 ? undefined : Math.max(...outdated)
}

/** Nodes that were updated are ready, and their replicas are Active again. */
function incompleteUpdate(
  view: ClusterView,
  { partition, outdated, unready }: UpdateView,
  desired: DesiredShards,
): Plan | undefined {
  const { nodes } = desired
  const isUpdated = (ordinal: number) => ordinal >= partition && !outdated.includes(ordinal)
  const starting = unready.find((ordinal) => isUpdated(ordinal) && ordinal < nodes)
  if (starting !== undefined) return waiting(`node ${starting} is not ready yet`)
  for (const peer of view.peers) {
    if (peer.ordinal === undefined || peer.ordinal >= nodes || !isUpdated(peer.ordinal)) continue
    // A defect that lasts is not waited for: the checks below decide whether the other replicas suffice.
    if (!peer.isMember && isRecent(desired, nodeDefect(peer.ordinal))) {
      return waiting(`node ${peer.ordinal} does not answer yet`)
    }
    if (!peer.isMember) continue
    for (const shard of shardsOf(view)) {
      const replica = shard.replicas.find((entry) => entry.peer === peer.id)
      if (replica === undefined || replica.state === 'Active') continue
      if (isStalledTarget(view, shard, peer)) continue
      if (!isRecent(desired, replicaDefect(shard.collection, shard.id, peer.id))) continue
      return waiting(`${describeShard(shard)} on node ${peer.ordinal} is ${replica.state}`)
    }
  }
  return undefined
}

/** It is not Active before a user aborts the transfer. */
function isStalledTarget({ transfers }: ClusterView, { collection, id }: Shard, peer: PeerView) {
  return transfers.some(
    ({ stalledSince, collection: name, shard, toShard = shard, to }) =>
      stalledSince !== undefined && name === collection && toShard === id && to === peer.id,
  )
}

function missingNode(
  view: ClusterView,
  { unready }: UpdateView,
  except: number,
): { ordinal: number; message: string } | undefined {
  for (let ordinal = 0; ordinal < view.nodes; ordinal += 1) {
    if (ordinal === except) continue
    const isMember = view.peers.some((peer) => peer.isMember && peer.ordinal === ordinal)
    if (!isMember) return { ordinal, message: `node ${ordinal} does not answer` }
    if (unready.includes(ordinal)) return { ordinal, message: `node ${ordinal} is not ready` }
  }
  return undefined
}

function isRecent({ defectSeconds }: DesiredShards, defect: string): boolean {
  return defectSeconds(defect) < SELF_REPAIR_SECONDS
}

/** For how long the replicas of a shard may differ until a user is asked: under writes they do for moments. */
const DIFFERENCE_SECONDS = 300

/** Of two nodes, none can be missing: their consensus pauses while one of them restarts. */
const QUORUM_NODES = 3

function quorumLoss({ peers, nodes }: ClusterView, peer: PeerView, ordinal: number) {
  if (nodes < QUORUM_NODES) return undefined
  const remaining = peers.filter(({ id, isMember }) => isMember && id !== peer.id).length
  if (remaining * 2 > peers.length) return undefined
  return refused(
    'NoQuorum',
    `without node ${ordinal}, ${remaining} of ${peers.length} peers answer, which is no majority: remove the peers without a pod, or ${ACCEPT_HINT}`,
  )
}

function lastReplicas(view: ClusterView, peer: PeerView, { update, nodes }: DesiredShards) {
  const ordinal = peer.ordinal ?? 0
  const last = shardsOf(view).filter((shard) => isLastReplica(view, shard, peer))
  const replicated = last.filter(({ factor }) => Math.min(factor, nodes) > 1)
  if (replicated.length > 0) {
    const found = replicated.length === 1 ? 'is Active only on' : 'are Active only on'
    return refused(
      'LastCopy',
      `${formatList(replicated.map(describeShard))} ${found} node ${ordinal}, which is updated next: repair the other replicas, or ${ACCEPT_HINT}`,
    )
  }
  if (last.length === 0 || update?.singleCopies !== 'Refuse') return undefined
  const names = [...new Set(last.map(({ collection }) => `"${collection}"`))]
  const found = names.length === 1 ? 'has single replicas on' : 'have single replicas on'
  return refused(
    'SingleCopies',
    `${formatList(names)} ${found} node ${ordinal}, which is updated next: raise the replication factor, set spec.update.singleCopies: Restart, or ${ACCEPT_HINT}`,
  )
}

function isLastReplica(view: ClusterView, shard: Shard, { id }: PeerView): boolean {
  return activeHolders(view, shard).includes(id) && activeElsewhere(view, shard, id).length === 0
}

/** The replica that remains must have what this one has. Under writes they differ for moments. */
function differingReplicas(
  view: ClusterView,
  { id, ordinal }: PeerView,
  desired: DesiredShards,
): Plan | undefined {
  const differing = shardsOf(view).filter(
    (shard) => shard.difference !== undefined && holds(shard, id),
  )
  const secondsOf = (shard: Shard) =>
    desired.defectSeconds(differenceDefect(shard.collection, shard.id))
  // What a user has to see comes first.
  const [shard] = differing.toSorted((a, b) => secondsOf(b) - secondsOf(a))
  if (shard?.difference === undefined) return undefined
  const uncounted = shard.difference.filter(({ points }) => points === undefined)
  const isKnown = uncounted.length === 0
  const message = isKnown ? differenceText(shard) : uncountedText(shard, uncounted)
  const differs = describeShard(shard)
  if (secondsOf(shard) < DIFFERENCE_SECONDS) return { ...waiting(message), differs }
  const gate = isKnown
    ? refused(
        'ReplicasDiffer',
        `${message}, and node ${ordinal} is updated next: if clients add or delete points all the time, pause them for a minute; otherwise drop the replica with missing points, which is created again, or ${ACCEPT_HINT}`,
      )
    : refused(
        'ReplicasNotCounted',
        `${message}, and node ${ordinal} is updated next: look at the log and the load of that node, or ${ACCEPT_HINT}`,
      )
  return { ...gate, differs }
}

function differenceText(shard: Shard): string {
  const counts = (shard.difference ?? []).map(
    ({ ordinal, points }) => `${points} on node ${ordinal}`,
  )
  return `the replicas of ${describeShard(shard)} have different numbers of points: ${counts.join(', ')}`
}

function uncountedText(shard: Shard, uncounted: readonly CountedReplica[]): string {
  const nodes = uncounted.map(({ ordinal }) => `node ${ordinal}`)
  return `the points of ${describeShard(shard)} are not counted: no answer from ${nodes.join(', ')}`
}

function waiting(message: string): Extract<Plan, { is: 'waiting' }> {
  return { is: 'waiting', purpose: 'update', message }
}

function release(ordinal: number): Plan {
  return planned('update', { do: 'updateNode', ordinal })
}
