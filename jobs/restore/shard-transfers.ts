/**
 * Moves each shard to the one node that takes its snapshot, before any snapshot is recovered: the
 * engine distributes new shards evenly by number, and an existing collection may have several
 * replicas. Creates the other replicas after the recovery.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { isTransient } from '../retry.ts'
import { EngineShards } from '../clients/engine/shards.ts'
import { changeCollection, requireStillOurs } from './change-collection.ts'
import {
  collectionsForPod,
  engineForPod,
  recoveryForPod,
  targetTopology,
  type RunContext,
} from './context.ts'
import {
  planPlacement,
  recordedFactor,
  replicasOnFirstNode,
  targetFactor,
  type Placement,
  type ReplicaStates,
  type ReportedShards,
} from './placement.ts'
import { forgetLoweredFactor } from './prepare-collection.ts'
import type { RestoreItem, ShardItem } from '../manifest-check.ts'
import { waitForShards } from './wait-for-shards.ts'

/** Cheap if the collection was just created: its shards are empty. */
export async function moveShards(item: ShardItem, context: RunContext): Promise<void> {
  const { name } = item
  const placement = context.placements.get(name) ?? new Map<number, number[]>()
  context.progress.step('places its shards')
  await rebalance(
    item,
    {
      findMissing: (replicas) => firstMisplaced(placement, replicas),
      start: (view) => startChanges(name, plannedMoves(placement, view), context),
    },
    context,
  )
}

/** A move to the node that is to hold the shard, or a replica to drop; with peer ids. */
export type ShardChange =
  { shard: number; from: number; to: number } | { shard: number; drop: number }

/**
 * The remaining changes. A replica on another node is dropped once the shard is on its own node. Drops come first: a node
 * that joins later would take one that is made while another shard is moved from or to its node for the end of that move
 * (docs/engine-notes.md).
 */
export function plannedMoves(placement: Placement, view: ReportedShards): ShardChange[] {
  const peer = (ordinal: number) => view.peers[ordinal] ?? ordinal
  const changes = [...replicasOnFirstNode(view)].flatMap(([shard, states]): ShardChange[] => {
    const [primary] = placement.get(shard) ?? []
    const [holder, ...others] = [...states.keys()]
    if (primary === undefined || holder === undefined) return []
    if (!states.has(primary)) return [{ shard, from: peer(holder), to: peer(primary) }]
    return [holder, ...others]
      .filter((ordinal) => ordinal !== primary)
      .map((ordinal) => ({ shard, drop: peer(ordinal) }))
  })
  const isMove = (change: ShardChange) => Number(!('drop' in change))
  return changes.toSorted((one, other) => isMove(one) - isMove(other))
}

/** Describes the first shard that is not solely on the node that takes its snapshot. */
export function firstMisplaced(placement: Placement, replicas: ReplicaStates): string | undefined {
  for (const [shard, [primary]] of placement) {
    const holders = [...(replicas.get(shard)?.keys() ?? [])]
    if (primary === undefined || (holders.length === 1 && holders[0] === primary)) continue
    return `shard ${shard} is on nodes ${holders.join(', ')}, not on node ${primary} alone`
  }
  return undefined
}

async function startChanges(
  name: string,
  changes: ShardChange[],
  context: RunContext,
): Promise<void> {
  const engine = recoveryForPod(context, 0)
  const { signal } = context.tools
  for (const change of changes) {
    const { shard: shard_id } = change
    const call = () =>
      'drop' in change
        ? engine.dropReplica(name, { shard_id, peer_id: change.drop }, signal)
        : engine.moveShard(
            name,
            { shard_id, from_peer_id: change.from, to_peer_id: change.to },
            signal,
          )
    await startTransfer({ collection: name, shard: shard_id }, call, context)
  }
}

/** Rounds of transfers: a transfer that fails is started again in the next round. */
const MAX_ROUNDS = 3

export interface Rebalance {
  /** Describes the first deviation; undefined if there is none. */
  findMissing: (replicas: ReplicaStates) => string | undefined
  /** Starts everything that is missing. */
  start: (view: ReportedShards) => Promise<void>
}

/** Repeats until nothing is missing and all nodes agree on that. */
export async function rebalance(
  item: Pick<RestoreItem, 'name' | 'source'>,
  { findMissing, start }: Rebalance,
  context: RunContext,
): Promise<void> {
  for (let round = 1; ; round += 1) {
    try {
      const view = await waitForShards(item, context)
      if (findMissing(replicasOnFirstNode(view)) === undefined) return
      await start(view)
      await waitForShards(item, context, findMissing)
      return
    } catch (error) {
      if (!isTransient(error) || round === MAX_ROUNDS) throw error
      context.tools.log.warn(
        { collection: item.name, round, reason: error.message },
        'retrying replication',
      )
    }
  }
}

/**
 * A transfer that does not start may already be in progress; otherwise the next round starts it.
 */
export async function startTransfer(
  { collection, shard }: { collection: string; shard: number },
  call: () => Promise<void>,
  context: RunContext,
): Promise<void> {
  const { tools } = context
  // Earlier transfers may have taken minutes. A pod that has replaced this one makes its own plan.
  await tools.reporter.verifyOwnership()
  try {
    await requireStillOurs(collection, context)
    await call()
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    tools.log.info({ collection, shard, reason: error.message }, 'replication not started')
  }
}

export async function replicateShards(item: RestoreItem, context: RunContext): Promise<void> {
  const { name } = item
  const target = targetTopology(context)
  const factor = targetFactor(item, target)
  noteFewerReplicas(item, factor, context)
  if (factor > 1) {
    const body = { params: { replication_factor: factor } }
    const { signal } = context.tools
    await changeCollection(name, context, () =>
      collectionsForPod(context, 0).patchCollection(name, body, signal),
    )
  }
  forgetLoweredFactor(name, context)
  const view = await waitForShards(item, context)
  const placement = planPlacement(item, { view, planned: context.placements.get(name) }, target)
  if ([...placement.values()].every((nodes) => nodes.length <= 1)) return
  context.progress.step('makes the other copies of its shards')
  await rebalance(
    item,
    {
      findMissing: (replicas) => firstMissing(placement, replicas),
      start: (current) => startTransfers(name, missingReplicas(placement, current), context),
    },
    context,
  )
}

/**
 * If there are fewer nodes than requested replicas, each node gets a replica, and a note reports
 * it.
 */
function noteFewerReplicas(
  item: RestoreItem,
  factor: number,
  { replicationFactor, progress }: RunContext,
): void {
  const requested = replicationFactor ?? recordedFactor(item)
  if (factor >= requested) return
  const { name } = item
  progress.note(
    `${name} has ${factor} copies of each shard, not ${requested}: there are ${factor} nodes`,
  )
}

interface ReplicaTransfer {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
}

/** Transfers from a node that holds the shard to each node that is to hold it too. */
export function missingReplicas(placement: Placement, view: ReportedShards): ReplicaTransfer[] {
  const replicas = replicasOnFirstNode(view)
  return [...placement].flatMap(([shardId, nodes]) => {
    const holders = replicas.get(shardId) ?? new Map<number, string>()
    const [holder] = holders.keys()
    const from = holder === undefined ? undefined : view.peers[holder]
    return nodes.flatMap((node) => {
      const to = view.peers[node]
      if (holders.has(node) || from === undefined || to === undefined) return []
      return [{ shard_id: shardId, from_peer_id: from, to_peer_id: to }]
    })
  })
}

/** Describes the first replica that is missing on its node. */
export function firstMissing(placement: Placement, replicas: ReplicaStates): string | undefined {
  for (const [shardId, nodes] of placement) {
    const node = nodes.find((ordinal) => !(replicas.get(shardId)?.has(ordinal) ?? false))
    if (node !== undefined) return `shard ${shardId} has no copy on node ${node}`
  }
  return undefined
}

async function startTransfers(
  name: string,
  transfers: ReplicaTransfer[],
  context: RunContext,
): Promise<void> {
  const engine = new EngineShards(engineForPod(context, 0))
  for (const { shard_id: shard, from_peer_id: from, to_peer_id: to } of transfers) {
    const transfer = { collection: name, shard, from, to }
    const call = () => engine.replicate(transfer, context.tools.signal)
    await startTransfer({ collection: name, shard }, call, context)
  }
}
