/**
 * Creates replicas that are missing, and repairs defective ones from an Active one. Replaces nodes that have lost their
 * data: their replicas are dropped, where another node has an Active one, and their peers are removed.
 */
import { nodeDefect, replicaDefect } from './defects.ts'
import {
  absentOrdinals,
  activeElsewhere,
  copyError,
  describeShard,
  freeTarget,
  hasTransfer,
  peerName,
  requiredReplicas,
  shardsOf,
  type Shard,
  formatList,
  holds,
  isMember,
  hasFailedCopy,
  nodeName,
} from './queries.ts'
import {
  addReplica,
  dropOf,
  planDrop,
  planned,
  refused,
  shardRef,
  startTransfer,
  transferInProgress,
  type Plan,
  type Refused,
  removalOf,
} from './step.ts'
import type { ClusterView, DesiredShards, ReplicaState, ReplicaView } from './view.ts'

const PURPOSE = 'repair'

/** How long the engine gets to repair Dead replicas by itself, and a new node to join. */
export const SELF_REPAIR_SECONDS = 600

const DEFECTIVE_STATES: ReadonlySet<ReplicaState> = new Set<ReplicaState>([
  'Dead',
  'Incomplete',
  'Unreadable',
  'Disputed',
])

/** A collection that is being created has replicas that are not Active yet. */
const DEFECT_SECONDS = 30

export function repairReplicas(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const hasFailed = (shard: Shard) => Number(desired.copyFailure?.(shard) !== undefined)
  // A shard whose copies fail must not keep the others from being repaired.
  const shards = shardsOf(view)
    .filter((shard) => !hasTransfer(view, shard))
    .toSorted((a, b) => hasFailed(a) - hasFailed(b))
  return firstPossible(shards.map((shard) => () => repairShard(view, shard, desired)))
}

/** A replica that waits, or cannot be repaired, must not keep the others of its shard from being repaired. */
function repairShard(view: ClusterView, shard: Shard, desired: DesiredShards): Plan | undefined {
  return firstPossible([
    ...shard.replicas.map((replica) => () => repairReplica(view, shard, replica, desired)),
    () => createMissing(view, shard, desired),
  ])
}

/**
 * Most nodes write to it, and it may have most points: another replica is created first, where a node is free. Otherwise it
 * is dropped when the copy that replaces it can begin.
 */
function replaceDisputed(
  view: ClusterView,
  shard: Shard,
  peer: number,
  desired: DesiredShards,
): Plan | undefined {
  // It may call the one Dead that the others call Active.
  const away = view.peers.find(({ id, isMember }) => !isMember && !desired.lost.includes(id))
  if (away !== undefined) {
    const message = `${nodeName(away)} does not answer`
    return { is: 'waiting', purpose: PURPOSE, message, isExternal: true }
  }
  const required = requiredReplicas(view, shard, view.nodes)
  const drop = () => planDrop(view, desired, PURPOSE, { shard, peer })
  if (activeElsewhere(view, shard, peer).length >= required) return drop()
  const isMissingOne = shard.replicas.length < required
  if (isMissingOne || hasUntriedTarget(view, shard, desired)) return undefined
  if (view.transfers.length >= desired.maxTransfers) return transferInProgress(view)
  return drop()
}

/** The first step; without one, what is waited for, or else why nothing is possible. */
function firstPossible(plans: readonly (() => Plan | undefined)[]): Plan | undefined {
  let rejection: Refused | undefined
  let waiting: Plan | undefined
  for (const makePlan of plans) {
    const plan = makePlan()
    if (plan?.is === 'step') return plan
    if (plan?.is === 'refused') rejection ??= plan
    else waiting ??= plan
  }
  return waiting ?? rejection
}

function repairReplica(
  view: ClusterView,
  shard: Shard,
  replica: ReplicaView,
  desired: DesiredShards,
): Plan | undefined {
  if (!isDefective(view, replica)) return undefined
  const { peer, state } = replica
  const isDead = state === 'Dead'
  const hasSource = activeElsewhere(view, shard, peer).length > 0
  // Without a source nothing can be done: a shard that is being created on a busy cluster gets time.
  const waitSeconds = isDead || !hasSource ? SELF_REPAIR_SECONDS : DEFECT_SECONDS
  if (state === 'Disputed' && hasSource) return replaceDisputed(view, shard, peer, desired)
  if (desired.defectSeconds(replicaDefect(shard.collection, shard.id, peer)) < waitSeconds) {
    const text = `${describeShard(shard)} on ${peerName(view, peer)} is ${state}`
    const message = isDead ? `${text}; the engine usually repairs it` : text
    return { is: 'waiting', purpose: PURPOSE, message }
  }
  if (!hasSource) {
    return refused(
      'NoActiveReplica',
      `${describeShard(shard)} has no Active replica to repair that on ${peerName(view, peer)} from: restore the collection from a backup`,
    )
  }
  // A transfer onto a replica that is called Active would fail, or remove it.
  if (state === 'Unreadable') return planDrop(view, desired, PURPOSE, { shard, peer })
  if (isSurplus(view, shard, { peer, desired }) || mayGoElsewhere(view, shard, { peer, desired })) {
    return planDrop(view, desired, PURPOSE, { shard, peer })
  }
  const toStep = (from: number) => ({
    do: 'repair' as const,
    ...shardRef(shard),
    from,
    to: peer,
  })
  return startTransfer(view, desired, PURPOSE, shard, toStep)
}

function createMissing(view: ClusterView, shard: Shard, desired: DesiredShards): Plan | undefined {
  const required = requiredReplicas(view, shard, desired.nodes)
  const present = shard.replicas.filter(({ peer }) => !isLost(view, peer, desired))
  // One that cannot be copied to is replaced on another node. It is surplus afterwards.
  const usable = present.filter(
    ({ peer, state }) =>
      state === 'Active' || (state !== 'Disputed' && copyError(shard, peer, desired) === undefined),
  )
  const isReplaceable = usable.length < required && hasUntriedTarget(view, shard, desired)
  if (present.length >= required && !isReplaceable) return undefined
  const joining = absentOrdinals(view, desired.nodes).find(
    (ordinal) => desired.defectSeconds(nodeDefect(ordinal)) < SELF_REPAIR_SECONDS,
  )
  if (joining !== undefined) {
    const message = `node ${joining} has not joined the cluster yet`
    return { is: 'waiting', purpose: PURPOSE, message }
  }
  return addReplica(view, desired, PURPOSE, shard)
}

/**
 * Copies to this node have failed too often, the engine repeats them without end, and the shard has its replicas without
 * this one. With how many a shard key was created is not known.
 */
function isSurplus(
  view: ClusterView,
  shard: Shard,
  { peer, desired }: { peer: number; desired: DesiredShards },
): boolean {
  if (shard.key !== undefined || copyError(shard, peer, desired) === undefined) return false
  const required = requiredReplicas(view, shard, view.nodes)
  return activeElsewhere(view, shard, peer).length >= required
}

/**
 * A Job has created the replica, it has never had all points, and neither the Job nor the engine could fill it: its
 * volume may be full. It makes way for one on a node that was not tried yet.
 */
function mayGoElsewhere(
  view: ClusterView,
  shard: Shard,
  { peer, desired }: { peer: number; desired: DesiredShards },
): boolean {
  const isCreated = desired.copyFailure?.(shard)?.createdOn?.includes(peer) === true
  return isCreated && hasUntriedTarget(view, shard, desired)
}

function hasUntriedTarget(view: ClusterView, shard: Shard, desired: DesiredShards): boolean {
  const target = freeTarget(view, shard, desired)
  return target !== undefined && !hasFailedCopy(shard, target, desired)
}

/** Nodes that are not members are left alone: they may be restarting. */
function isDefective(view: ClusterView, { peer, state }: ReplicaView): boolean {
  return isMember(view, peer) && DEFECTIVE_STATES.has(state)
}

function isLost(view: ClusterView, peer: number, { lost }: DesiredShards): boolean {
  return lost.includes(peer) && !isMember(view, peer)
}

/** Peers whose volume is lost hold nothing: once they are removed, their pods join as new peers. */
export function replaceLostNodes(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const purpose = 'lost node'
  const lastReplicas: string[] = []
  for (const peer of view.peers) {
    if (peer.isMember || !desired.lost.includes(peer.id)) continue
    const held = shardsOf(view).filter((shard) => holds(shard, peer.id))
    // Also of a node with a last replica: a resharding waits for each replica of its collection.
    for (const shard of held) {
      if (activeElsewhere(view, shard, peer.id).length === 0) {
        lastReplicas.push(`${describeShard(shard)} on ${nodeName(peer)}`)
      } else if (!hasTransfer(view, shard)) {
        return planned(purpose, dropOf(shard, peer.id))
      }
    }
    if (held.length === 0 && !drivesResharding(view, peer.id)) {
      return planned(purpose, removalOf(peer))
    }
  }
  if (lastReplicas.length === 0) return removeFormerPeers(view, desired)
  return refused(
    'LastReplicaLost',
    `no other node has an Active replica of ${formatList(lastReplicas)}: restore these shards from a backup, or delete their collections`,
  )
}

/**
 * Peers of pods that were removed earlier without their peers. What only they hold stays listed: a
 * user accepted that loss when the pods were removed.
 */
function removeFormerPeers(view: ClusterView, { nodes }: DesiredShards): Plan | undefined {
  const purpose = 'lost node'
  for (const peer of view.peers) {
    const isFormer = peer.ordinal !== undefined && peer.ordinal >= Math.max(nodes, view.nodes)
    if (!isFormer || peer.isMember) continue
    const held = shardsOf(view).filter((shard) => holds(shard, peer.id))
    const dispensable = held.find(
      (shard) => !hasTransfer(view, shard) && activeElsewhere(view, shard, peer.id).length > 0,
    )
    if (dispensable !== undefined) return planned(purpose, dropOf(dispensable, peer.id))
    if (held.length === 0 && !drivesResharding(view, peer.id)) {
      return planned(purpose, removalOf(peer))
    }
  }
  return undefined
}

/**
 * The engine aborts a resharding with the peer that it was started on, at any stage: what has been
 * written to the new shard since reads use it would be lost.
 */
function drivesResharding({ collections }: ClusterView, peer: number): boolean {
  return collections.some(({ resharding }) => resharding?.peer === peer)
}
