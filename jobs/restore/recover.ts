/**
 * Recovers the snapshots of a collection. Node snapshots are recovered one node after the other, by
 * ordinal: the shards of a node move to it with its snapshot, so all nodes must agree on the shards
 * before the next recovery starts (docs/engine-notes.md, "Recovery of a collection"). Shard
 * snapshots are recovered on several nodes concurrently, one shard at a time on each node.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { LocalShard, ShardSnapshot } from '../../crds/contract/manifest.ts'
import { formatBytes } from '../../crds/units.ts'
import { retryTransient, runGroupsConcurrently } from '../retry.ts'
import { recoveryForPod, type RunContext } from './context.ts'
import { deliverSnapshot } from './deliver-snapshot.ts'
import { replicasOnFirstNode, type ReplicaStates } from './placement.ts'
import { requireShards } from './prepare-collection.ts'
import type { NodeItem, ShardItem, SourceNodeSnapshot } from '../manifest-check.ts'
import { retryRecovery, waitForIdle } from './retry-recovery.ts'
import { firstMisplaced } from './shard-transfers.ts'
import { PermanentDisagreement, waitForShards } from './wait-for-shards.ts'

/** Shards differ in size; half of the expected points are more than a stray write adds. */
const MIN_POINTS_SHARE = 0.5

/** Recovers from `firstNode` on: the nodes before it already have their snapshots. */
export async function recoverNodes(
  item: NodeItem,
  context: RunContext,
  firstNode: number,
): Promise<void> {
  const { source, name } = item
  const snapshots = source.snapshots.toSorted((a, b) => a.nodeIndex - b.nodeIndex)
  for (const snapshot of snapshots.slice(firstNode)) {
    const { nodeIndex: node, sizeBytes: bytes } = snapshot
    const before = {}
    await retryRecovery(
      {
        ...{ collection: name, node, bytes },
        run: () => recoverNode(item, { snapshot, before }, context),
        isDone: () => isNodeRecovered(item, { snapshot, before }, context),
      },
      context,
    )
    await context.progress.nodeDone(snapshot)
  }
  await waitForIdle(item, context)
}

interface NodeRecovery {
  snapshot: SourceNodeSnapshot
  /** Points of the shards that the node held before its first recovery, by shard id. */
  before: { points?: Map<number, number> }
}

async function recoverNode(
  item: NodeItem,
  { snapshot, before }: NodeRecovery,
  context: RunContext,
): Promise<void> {
  const { name } = item
  const { log, time } = context.tools
  const { nodeIndex: node, sizeBytes } = snapshot
  await waitForIdle(item, context)
  before.points ??= await retryTransient(context, () => readPointCounts(name, node, context))
  context.progress.step(`node ${node + 1}: takes ${formatBytes(sizeBytes)}`)
  const startedAt = time.monotonicMs()
  const mode = await deliverSnapshot(
    { node, target: { collection: name }, snapshot, checksum: expectedChecksum(snapshot) },
    context,
  )
  const seconds = (time.monotonicMs() - startedAt) / 1000
  log.info(
    { collection: name, node, bytes: sizeBytes, seconds, way: mode },
    context.progress.statusLine(),
  )
  await waitForShards(item, context, (replicas) => misplacedOnNode(snapshot, replicas))
}

/**
 * Whether a recovery whose response was lost has succeeded. All shards must now be Active on this
 * node only, and the shards that the node held before must have been empty. A recovery that fails
 * halfway leaves the shards that it found on the node inactive: if a shard has moved to the node,
 * the others are restored too. An engine without distributed mode leaves them Active. So if no
 * shard has moved, none of them may be empty, unless it was empty in the backup, and they must have
 * about as many points as their share of the collection: a backup by node need not have counted each
 * of them. If success cannot be proved, the snapshot is recovered again.
 */
export async function isNodeRecovered(
  item: NodeItem,
  { snapshot, before: { points: before } }: NodeRecovery,
  context: RunContext,
): Promise<boolean> {
  const { source, name } = item
  const heldShards = snapshot.localShards.filter(({ shardId }) => before?.has(shardId) ?? true)
  if (heldShards.some(({ shardId }) => before?.get(shardId) !== 0)) return false
  try {
    await waitForShards(item, context, (replicas) => misplacedOnNode(snapshot, replicas))
  } catch (error) {
    if (!(error instanceof EngineError) || error instanceof PermanentDisagreement) throw error
    return false
  }
  if (heldShards.length < snapshot.localShards.length) return true
  const recorded = source.exactPointsCount ?? source.pointsCount ?? Infinity
  const current = await retryTransient(context, () =>
    readPointCounts(name, snapshot.nodeIndex, context),
  )
  const emptyInBackup = new Set(
    source.shards.flatMap(({ shardId, exactPointsCount }) =>
      exactPointsCount === 0 ? shardId : [],
    ),
  )
  const isMissing = ({ shardId }: LocalShard) =>
    (current.get(shardId) ?? 0) === 0 && !emptyInBackup.has(shardId)
  if (heldShards.some(isMissing)) return false
  const pointsFound = heldShards.reduce((sum, { shardId }) => sum + (current.get(shardId) ?? 0), 0)
  const expectedShare = (recorded * heldShards.length) / source.shards.length
  return pointsFound > 0 && pointsFound >= expectedShare * MIN_POINTS_SHARE
}

/** Points of the shards that a node holds, by shard id. */
async function readPointCounts(
  name: string,
  node: number,
  context: RunContext,
): Promise<Map<number, number>> {
  const { local_shards } = await recoveryForPod(context, node).collectionCluster(
    name,
    context.tools.signal,
  )
  return new Map(local_shards.map(({ shard_id, points_count }) => [shard_id, points_count]))
}

/**
 * Describes the first shard of the snapshot that is not on its node, or is also on another node.
 */
export function misplacedOnNode(
  { nodeIndex, localShards }: Pick<SourceNodeSnapshot, 'nodeIndex' | 'localShards'>,
  replicas: ReplicaStates,
): string | undefined {
  return firstMisplaced(new Map(localShards.map(({ shardId }) => [shardId, [nodeIndex]])), replicas)
}

/**
 * The checksum that the engine reported, or else the checksum of the uploaded bytes; another
 * program may have recorded neither.
 */
function expectedChecksum({ checksum, sha256 }: SourceNodeSnapshot): string | undefined {
  return (checksum ?? sha256)?.toLowerCase()
}

/** Nodes that recover concurrently: each one adds a stream through the memory of the Job. */
const NODE_CONCURRENCY = 8

/** Recovers all shards that are not restored yet. */
export async function recoverShards(
  item: ShardItem,
  context: RunContext,
  restored: readonly number[],
): Promise<void> {
  const { source, name } = item
  const remaining = source.snapshots.filter(({ shardId }) => !restored.includes(shardId))
  if (remaining.length === 0) return
  const view = await waitForShards(item, context)
  requireShards(item, view)
  const nodeByShard = singleHolders(name, remaining, replicasOnFirstNode(view))
  const deliveries = remaining.map((snapshot) => ({
    snapshot,
    node: nodeByShard.get(snapshot.shardId) ?? 0,
  }))
  const groups = [...Map.groupBy(deliveries, ({ node }) => node).values()]
  const inProgress = new Set<string>()
  await runGroupsConcurrently(groups, NODE_CONCURRENCY, async ({ snapshot, node }) => {
    const label = `${snapshot.shardId} on node ${node}`
    const begins = () =>
      context.progress.step(`takes shards ${[...inProgress.add(label)].join(', ')}`)
    const before = { points: undefined as number | undefined }
    const recovery = { snapshot, node, begins, before }
    await retryRecovery(
      {
        ...{ collection: name, node, shard: snapshot.shardId, bytes: snapshot.sizeBytes },
        run: () => recoverShard(item, recovery, context),
        isDone: () => isShardRecovered(name, recovery, context),
      },
      context,
    )
    inProgress.delete(label)
    await context.progress.shardDone(snapshot)
  })
  await waitForIdle(item, context)
  const placement = new Map([...nodeByShard].map(([shard, node]) => [shard, [node]]))
  await waitForShards(item, context, (replicas) => firstMisplaced(placement, replicas))
}

/** The node that holds each shard; throws if a shard does not have exactly one replica. */
function singleHolders(
  name: string,
  snapshots: ShardSnapshot[],
  replicas: ReplicaStates,
): Map<number, number> {
  return new Map(
    snapshots.map(({ shardId }) => {
      const [holder, ...others] = replicas.get(shardId)?.keys() ?? []
      if (holder !== undefined && others.length === 0) return [shardId, holder]
      throw new EngineError(`shard ${shardId} of ${name} has ${others.length + 1} copies, not one`)
    }),
  )
}

interface ShardRecovery {
  snapshot: ShardSnapshot
  node: number
  begins: () => void
  /** Points of the shard at the target before its first recovery. */
  before: { points: number | undefined }
}

async function recoverShard(
  item: ShardItem,
  { snapshot, node, begins, before }: ShardRecovery,
  context: RunContext,
): Promise<void> {
  const { log, time } = context.tools
  const { name } = item
  const { shardId: shard, sizeBytes, sha256 } = snapshot
  await waitForIdle(item, context, [node])
  const points = await requireShardOnNode(name, snapshot, node, context)
  before.points ??= points
  begins()
  const startedAt = time.monotonicMs()
  const target = { collection: name, shard }
  const mode = await deliverSnapshot({ node, target, snapshot, checksum: sha256 }, context)
  const seconds = (time.monotonicMs() - startedAt) / 1000
  log.info(
    { collection: name, shard, node, bytes: sizeBytes, seconds, way: mode },
    context.progress.statusLine(),
  )
}

/**
 * Whether a recovery whose response was lost has succeeded: the shard had another number of points
 * before, and now has the number of its snapshot. If success cannot be proved, the shard is
 * recovered again.
 */
export async function isShardRecovered(
  name: string,
  { snapshot, node, before }: Pick<ShardRecovery, 'snapshot' | 'node' | 'before'>,
  context: RunContext,
): Promise<boolean> {
  const { shardId, pointsCount } = snapshot
  if (pointsCount === undefined || before.points === undefined) return false
  if (before.points === pointsCount) return false
  const { signal } = context.tools
  const { local_shards } = await retryTransient(context, () =>
    recoveryForPod(context, node).collectionCluster(name, signal),
  )
  const shard = local_shards.find(({ shard_id }) => shard_id === shardId)
  return shard?.state === 'Active' && shard.points_count === pointsCount
}

/**
 * Runs directly before a recovery, which would add a second replica on a node that does not hold
 * the shard (docs/engine-notes.md, "Snapshots of a shard"). Returns the number of points of the
 * shard.
 */
async function requireShardOnNode(
  name: string,
  { shardId, shardKey }: ShardSnapshot,
  node: number,
  context: RunContext,
): Promise<number> {
  const { local_shards } = await recoveryForPod(context, node).collectionCluster(
    name,
    context.tools.signal,
  )
  const shard = local_shards.find(({ shard_id }) => shard_id === shardId)
  if (shard === undefined) {
    throw new EngineError(`shard ${shardId} of ${name} is no longer on node ${node}`, {
      status: 409,
    })
  }
  if ((shard.shard_key ?? undefined) === shardKey) return shard.points_count
  throw new EngineError(`shard ${shardId} of ${name} exists under another shard key`, {
    status: 409,
  })
}
