/** The steps of a plan, and how they are made. */
import type { ShardPurpose } from '../../../crds/contract/shards-job.ts'
import { copiesDefect } from './defects.ts'
import {
  copyError,
  copySource,
  describeShard,
  freeTarget,
  holds,
  moveOf,
  peerName,
  remainingMembers,
  type Shard,
} from './queries.ts'
import type {
  ClusterView,
  DesiredShards,
  Move,
  Obstruction,
  PeerView,
  TransferView,
} from './view.ts'

export type Step =
  /** Creates a replica on a node that has none. With `move`, that on `move.from` is dropped later. */
  | { do: 'replicate'; collection: string; shard: number; from: number; to: number; move?: Move }
  /** Copies an Active replica over a defective one. */
  | { do: 'repair'; collection: string; shard: number; from: number; to: number }
  /** With `isUndo`, the target of a move whose copy has failed, or that has fewer points than the source. */
  | { do: 'drop'; collection: string; shard: number; peer: number; isUndo?: true }
  /** Removes a peer that holds no shard; with `isUnlisted`, the replicas of a peer that no node lists. */
  | { do: 'removePeer'; peer: number; ordinal?: number; isUnlisted?: true }
  /** Lowers the StatefulSet to this number of pods. */
  | { do: 'scaleDown'; nodes: number }
  /** Lets Kubernetes replace the pod by one with the new template. */
  | { do: 'updateNode'; ordinal: number }
  | ReshardingStep

/** In the order in which they follow each other; the engine holds what they change. */
export type ReshardingStep =
  | {
      do: 'startResharding'
      collection: string
      direction: 'up' | 'down'
      /** The shard that is added or removed. */
      shard: number
      peer: number
    }
  /** Copies those points of a shard that belong to another one. */
  | {
      do: 'streamPoints'
      collection: string
      shard: number
      toShard: number
      from: number
      to: number
    }
  /** The replica that got points is called Active. */
  | { do: 'finishMigration'; collection: string; shard: number; peer: number }
  /** Reads use the new shards; from here on it can only be completed. */
  | { do: 'commitRead'; collection: string }
  /** Deletes the points of a replica that belong to the new shard. */
  | { do: 'cleanReplica'; collection: string; shard: number; peer: number; target: number }
  /** Writes use the new shards only. */
  | { do: 'commitWrite'; collection: string }
  | { do: 'finishResharding'; collection: string }
  /** Whether a replica has points of its own shard only. */
  | { do: 'checkReplica'; collection: string; shard: number; peer: number }
  | { do: 'abortResharding'; collection: string }

const RESHARDING_STEPS: ReadonlySet<string> = new Set<ReshardingStep['do']>([
  ...([
    'startResharding',
    'streamPoints',
    'finishMigration',
    'commitRead',
    'cleanReplica',
  ] as const),
  ...(['commitWrite', 'finishResharding', 'checkReplica', 'abortResharding'] as const),
])

export function isReshardingStep(step: Step): step is ReshardingStep {
  return RESHARDING_STEPS.has(step.do)
}

export type Plan =
  /** The cluster is as desired. */
  | { is: 'done' }
  | { is: 'step'; step: Step; purpose: ShardPurpose; bytes: number }
  /** Something is in progress; the next observation decides. */
  | {
      is: 'waiting'
      purpose: ShardPurpose | 'transfer' | 'agreement'
      message: string
      differs?: string
      /** Only the engine or a user can end it, so a Job does not wait for it. */
      isExternal?: true
    }
  /** A user has to act. */
  | ({ is: 'refused' } & Obstruction)

export type Refused = Extract<Plan, { is: 'refused' }>

/** A new replica on the best node that has none. */
export function addReplica(
  view: ClusterView,
  desired: DesiredShards,
  purpose: ShardPurpose,
  shard: Shard,
  /** The node that drops its replica afterwards, where the step has to say so. */
  leaving?: number,
): Plan {
  const target = freeTarget(view, shard, desired)
  if (target === undefined) {
    const failure = closedTarget(view, shard, desired)
    if (failure !== undefined) return refused('TransferFailed', failure)
    const hasNode = remainingMembers(view, desired).some(({ id }) => !holds(shard, id))
    return refused(
      'NoCapacity',
      hasNode
        ? `no node has space for another replica of ${describeShard(shard)}, about ${shard.bytes} bytes: enlarge the volumes or delete data`
        : `every node that answers has a replica of ${describeShard(shard)} already: another one needs another node`,
    )
  }
  return startTransfer(view, desired, purpose, shard, (from) => ({
    do: 'replicate',
    ...shardRef(shard),
    from,
    to: target,
    ...(leaving !== undefined && { move: moveOf(shard, leaving, target) }),
  }))
}

/** How copies to a node have failed that could have this replica otherwise. */
function closedTarget(view: ClusterView, shard: Shard, desired: DesiredShards): string | undefined {
  const closed = remainingMembers(view, desired).find(
    ({ id }) => !holds(shard, id) && desired.closedTargets?.has(id) === true,
  )
  return closed && desired.closedTargets?.get(closed.id)
}

export function startTransfer(
  view: ClusterView,
  desired: DesiredShards,
  purpose: ShardPurpose,
  shard: Shard,
  toStep: (from: number) => Extract<Step, { do: 'replicate' | 'repair' }>,
): Plan {
  const from = copySource(view, shard)
  if (from === undefined) {
    return refused(
      'NoActiveReplica',
      `${describeShard(shard)} has no Active replica on a node that answers`,
    )
  }
  const next = toStep(from)
  const failure = copyError(shard, next.to, desired)
  if (failure !== undefined) return refused('TransferFailed', failure)
  if (view.transfers.length >= desired.maxTransfers) {
    return transferInProgress(view) ?? { is: 'done' }
  }
  return planned(purpose, next, shard.bytes)
}

export function transferInProgress(view: ClusterView): Plan | undefined {
  const stalled = view.transfers.find(({ stalledSince }) => stalledSince !== undefined)
  const transfer = stalled ?? view.transfers[0]
  if (transfer === undefined) return undefined
  const { collection, shard, from, to, toShard, comment, stalledSince } = transfer
  const text = `${collection}/${shard} is copied from ${peerName(view, from)} to ${peerName(view, to)}`
  if (stalledSince !== undefined) {
    const target = toShard === undefined ? '' : `,"to_shard_id":${toShard}`
    return refused(
      'TransferStalled',
      `${text} without progress since ${stalledSince}, and no Job of the operator has started that. To abort it: POST /collections/${encodeURIComponent(collection)}/cluster with {"abort_transfer":{"shard_id":${shard},"from_peer_id":${from},"to_peer_id":${to}${target}}}`,
    )
  }
  return {
    is: 'waiting',
    purpose: 'transfer',
    message: comment === undefined ? text : `${text} (${comment})`,
  }
}

export function planned(
  purpose: ShardPurpose,
  next: Step,
  bytes = 0,
): Extract<Plan, { is: 'step' }> {
  return { is: 'step', step: next, purpose, bytes }
}

export function refused(reason: string, message: string): Refused {
  return { is: 'refused', reason, message }
}

export function shardRef({ collection, id }: Shard) {
  return { collection, shard: id }
}

export function dropOf(shard: Shard, peer: number, isUndo = false): Step {
  return { do: 'drop', ...shardRef(shard), peer, ...(isUndo && { isUndo }) }
}

/** For how long a drop waits for copies that no Job has started: the engine may repeat one that fails without end. */
const FOREIGN_COPIES_SECONDS = 1_800

/**
 * Drops the replica, once no copy of another shard of its collection from or to this node is in progress. A node that
 * joins later applies the entries of consensus from the time before its own version is known, and then takes the drop
 * for one of an engine before 1.16.3, which aborts those copies: it would know other states of their replicas than the
 * others, and write to some of them only.
 */
export function planDrop(
  view: ClusterView,
  desired: Pick<DesiredShards, 'defectSeconds' | 'isOwnCopy'>,
  purpose: ShardPurpose,
  { shard, peer, isUndo = false }: { shard: Shard; peer: number; isUndo?: boolean },
): Plan {
  const { collection } = shard
  const waitedSeconds = desired.defectSeconds(copiesDefect(collection, peer))
  const copies = view.transfers.filter(
    (copy) => waitedSeconds < FOREIGN_COPIES_SECONDS || desired.isOwnCopy?.(copy) === true,
  )
  const copy = copyWithDrop(copies, { collection, peer })
  if (copy === undefined) return planned(purpose, dropOf(shard, peer, isUndo))
  const stalled = transferInProgress({ ...view, transfers: [copy] })
  if (copy.stalledSince !== undefined && stalled !== undefined) return stalled
  const message = `${describeShard(shard)} on ${peerName(view, peer)} is kept until ${collection}/${copy.shard} is copied`
  return { is: 'waiting', purpose, message }
}

/** The copy in progress that must end before a replica of this collection is dropped from the node (`planDrop`). */
export function copyWithDrop<Copy extends Pick<TransferView, 'collection' | 'from' | 'to'>>(
  transfers: readonly Copy[],
  { collection, peer }: { collection: string; peer: number },
): Copy | undefined {
  return transfers.find(
    ({ collection: name, from, to }) => name === collection && (from === peer || to === peer),
  )
}

export function removalOf({ id, ordinal }: PeerView): Step {
  return { do: 'removePeer', peer: id, ...(ordinal !== undefined && { ordinal }) }
}
