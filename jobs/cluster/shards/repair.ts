/** Creates replicas that are missing, and repairs defective ones from an Active one. */
import { nodeDefect, replicaDefect } from './defects.ts'
import {
  absentOrdinals,
  activeElsewhere,
  describeShard,
  hasTransfer,
  peerName,
  requiredReplicas,
  shardsOf,
  type Shard,
} from './queries.ts'
import {
  addReplica,
  dropOf,
  planned,
  refused,
  shardRef,
  startTransfer,
  type Plan,
  type Refused,
} from './step.ts'
import type { ClusterView, DesiredShards, ReplicaView } from './view.ts'

/** How long the engine gets to repair Dead replicas by itself, and a new node to join. */
export const SELF_REPAIR_SECONDS = 600

/** A collection that is being created has replicas that are not Active yet. */
export const DEFECT_SECONDS = 30

export function repairReplicas(view: ClusterView, desired: DesiredShards): Plan | undefined {
  let rejection: Refused | undefined
  let waiting: Plan | undefined
  for (const shard of shardsOf(view)) {
    if (hasTransfer(view, shard)) continue
    const plan = repairShard(view, shard, desired)
    if (plan?.is === 'step') return plan
    if (plan?.is === 'refused') rejection ??= plan
    else waiting ??= plan
  }
  return waiting ?? rejection
}

function repairShard(view: ClusterView, shard: Shard, desired: DesiredShards): Plan | undefined {
  const purpose = 'repair'
  for (const replica of shard.replicas) {
    if (!isDefective(view, replica)) continue
    const isDead = replica.state === 'Dead'
    const hasSource = activeElsewhere(view, shard, replica.peer).length > 0
    // Without a source nothing can be done: a shard that is being created on a busy cluster gets time.
    const waitSeconds = isDead || !hasSource ? SELF_REPAIR_SECONDS : DEFECT_SECONDS
    const defect = replicaDefect(shard.collection, shard.id, replica.peer)
    if (desired.defectSeconds(defect) < waitSeconds) {
      const text = `${describeShard(shard)} on ${peerName(view, replica.peer)} is ${replica.state}`
      const message = isDead ? `${text}; the engine usually repairs it` : text
      return { is: 'waiting', purpose, message }
    }
    if (!hasSource) {
      return refused(
        'NoActiveReplica',
        `${describeShard(shard)} has no Active replica to repair that on ${peerName(view, replica.peer)} from: restore the collection from a backup`,
      )
    }
    // A transfer onto a replica that is called Active would fail, or remove it.
    if (replica.state === 'Unreadable') return planned(purpose, dropOf(shard, replica.peer))
    return startTransfer(view, desired, purpose, shard, (from) => ({
      do: 'repair',
      ...shardRef(shard),
      from,
      to: replica.peer,
    }))
  }
  const present = shard.replicas.filter(({ peer }) => !isLost(view, peer, desired))
  if (present.length >= requiredReplicas(view, shard, desired.nodes)) return undefined
  const joining = absentOrdinals(view, desired.nodes).find(
    (ordinal) => desired.defectSeconds(nodeDefect(ordinal)) < SELF_REPAIR_SECONDS,
  )
  if (joining !== undefined) {
    return { is: 'waiting', purpose, message: `node ${joining} has not joined the cluster yet` }
  }
  return addReplica(view, desired, purpose, shard)
}

/** Nodes that are not members are left alone: they may be restarting. */
function isDefective(view: ClusterView, { peer, state }: ReplicaView): boolean {
  if (view.peers.find(({ id }) => id === peer)?.isMember !== true) return false
  return state === 'Dead' || state === 'Incomplete' || state === 'Unreadable'
}

function isLost(view: ClusterView, peer: number, { lost }: DesiredShards): boolean {
  return lost.includes(peer) && view.peers.find(({ id }) => id === peer)?.isMember !== true
}
