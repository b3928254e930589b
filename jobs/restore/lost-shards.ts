/**
 * Restores single shards whose replicas are all lost (`spec.shards`) into a collection that exists.
 * Nodes that do not answer are left out. Nothing is overwritten: a node takes only a shard of which
 * it has no replica. The engine then calls the replicas on the lost nodes Dead, so that the nodes
 * can be replaced (docs/engine-notes.md, "Snapshots of a shard").
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { isShardManifest, type ShardSnapshot } from '../../crds/contract/manifest.ts'
import type { RestoreSpec } from '../../crds/restore.ts'
import { countPoints } from '../clients/engine/statistics.ts'
import type { ShardItem, SourceManifest } from '../manifest-check.ts'
import { retryTransient } from '../retry.ts'
import type { Checkpoint } from './checkpoint.ts'
import { checkObjects } from './collection-checks.ts'
import { attemptCollection, engineForPod, type RunContext } from './context.ts'
import { deliverSnapshot } from './deliver-snapshot.ts'
import { readManifest } from './manifest.ts'
import { retryRecovery, waitForEarlierRecoveries, waitForIdle } from './retry-recovery.ts'
import { recordedVersions } from './target-checks.ts'
import { LostTarget } from './lost-shards-target.ts'

type LostShards = NonNullable<RestoreSpec['shards']>

/** A collection with the shards to restore, and the collection as it was backed up. */
interface LostItem {
  item: ShardItem
  recorded: ShardItem['source']
}

export async function restoreLostShards(requests: LostShards, context: RunContext): Promise<void> {
  const { plan, tools, bucket, progress } = context
  progress.report()
  const names = [...new Set(requests.map(({ collection }) => collection))]
  const { signal } = tools
  const manifest = await readManifest({ bucket, plan, collections: names, signal })
  const lost = selectShards(manifest, requests)
  const items = lost.map(({ item }) => item)
  const target = new LostTarget(context)
  await target.requireVersion(recordedVersions(manifest, items))
  progress.setItems(items, plan.cluster.replicas)
  progress.report()
  for (const one of lost) await restoreItem(one, target, context)
}

/** The requested shards of each collection. Throws `Rejected` if the backup does not have them. */
export function selectShards(manifest: SourceManifest, requests: LostShards): LostItem[] {
  if (!isShardManifest(manifest)) {
    throw new Rejected('spec.shards needs a backup with spec.method Shard')
  }
  const { nodeCount, collections } = manifest
  const byName = Map.groupBy(requests, ({ collection }) => collection)
  return [...byName].map(([name, entries]) => {
    const recorded = collections.find((collection) => collection.name === name)
    if (recorded === undefined) {
      throw new Rejected(`Collections not present in backup: ${name}`)
    }
    const ids = new Set(entries.flatMap((entry) => entry.ids))
    const missing = [...ids].filter((id) => !recorded.shards.some(({ shardId }) => shardId === id))
    if (missing.length > 0) {
      throw new Rejected(
        `shards of collection ${name} not present in backup: ${missing.join(', ')}`,
      )
    }
    const source = {
      ...recorded,
      shards: recorded.shards.filter(({ shardId }) => ids.has(shardId)),
      snapshots: recorded.snapshots.filter(({ shardId }) => ids.has(shardId)),
    }
    return { item: { method: 'Shard', source, name, nodeCount }, recorded }
  })
}

async function restoreItem(
  { item, recorded }: LostItem,
  target: LostTarget,
  context: RunContext,
): Promise<void> {
  const { progress, plan, tools } = context
  const { name } = item
  const checkpoint = progress.checkpoint(name)
  if (checkpoint === 'Completed' || checkpoint === 'Failed') return
  progress.startCollection(item, plan.cluster.replicas, checkpoint)
  const counts: (number | undefined)[] = []
  const isRestored = await attemptCollection(
    name,
    async () => {
      await checkObjects(item.source, context)
      await waitForEarlierRecoveries(item, checkpoint, context, target.nodesOf(checkpoint))
      await target.requireSameCollection(name, recorded, item.source.shards)
      await target.waitUntilLost(name, openShards(item, checkpoint))
      for (const snapshot of item.source.snapshots) {
        counts.push(await restoreShard(item, { snapshot, checkpoint }, target, context))
      }
    },
    context,
  )
  if (isRestored) {
    progress.completed(name, sumIfAllKnown(counts))
    const shards = item.source.snapshots.map(({ shardId }) => shardId)
    tools.log.info({ collection: name, shards }, `shards of ${name} restored`)
  }
  progress.report()
  await progress.reported()
}

/** Shards that no earlier attempt has restored or begun. */
function openShards({ source }: ShardItem, { shardsDone, running }: Checkpoint): number[] {
  const begun = running === 'unknown' ? [] : running.map(({ shard }) => shard)
  return source.snapshots
    .map(({ shardId }) => shardId)
    .filter((id) => !shardsDone.includes(id) && !begun.includes(id))
}

interface ShardRequest {
  snapshot: ShardSnapshot
  checkpoint: Checkpoint
}

function sumIfAllKnown(counts: readonly (number | undefined)[]): number | undefined {
  return counts.reduce<number | undefined>(
    (sum, count) => (sum === undefined || count === undefined ? undefined : sum + count),
    0,
  )
}

/** Returns the number of points of the shard, estimated if they are too many to count; undefined if it is unknown. */
async function restoreShard(
  item: ShardItem,
  { snapshot, checkpoint }: ShardRequest,
  target: LostTarget,
  context: RunContext,
): Promise<number | undefined> {
  const { progress } = context
  const { name } = item
  const { shardId: shard, sizeBytes: bytes, sha256 } = snapshot
  // The shards before it may have taken hours.
  if (openShards(item, checkpoint).includes(shard)) await target.waitUntilLost(name, [shard])
  const found = await target.findNode(name, shard, checkpoint)
  const { ordinal: node } = found
  if (!found.isDone) {
    progress.step(`node ${node}: takes shard ${shard}`)
    await retryRecovery(
      {
        ...{ collection: name, node, shard, bytes },
        run: async () => {
          await waitForIdle(item, context, [node])
          // Again after the upload: a lost node that is back by then has points that are newer than the backup.
          const beforeRecovery = () => target.requireNoReplica(name, shard, node)
          await beforeRecovery()
          const delivery = { node, target: { collection: name, shard }, snapshot, checksum: sha256 }
          await deliverSnapshot(
            { ...delivery, beforeRecovery },
            { ...context, priority: 'snapshot' },
          )
        },
        isDone: () => target.isActiveOn(name, shard, node),
      },
      context,
    )
    target.recordRestored(node, bytes)
  }
  if (!checkpoint.shardsDone.includes(shard)) await progress.shardDone(snapshot)
  await target.waitUntilActive(name, shard, node)
  return comparePoints(name, { snapshot, node }, context)
}

/**
 * Clients may write as soon as the shard is Active, so another number is noted and not a failure. Nor is a shard that
 * the engine does not count: it is restored, and others may follow.
 */
async function comparePoints(
  name: string,
  { snapshot, node }: { snapshot: ShardSnapshot; node: number },
  context: RunContext,
): Promise<number | undefined> {
  const { shardId: shard, pointsCount: recorded } = snapshot
  const { tools, progress } = context
  const scope = { collection: name, shard }
  const counted = await retryTransient(context, () =>
    countPoints(engineForPod(context, node), scope, tools.signal),
  )
  if (!counted.isExact) {
    progress.note(`shard ${shard} of ${name} was not counted exactly: ${counted.reason}`)
    return counted.points
  }
  const { points: count } = counted
  if (recorded === undefined || count === recorded) return count
  if (count === 0) {
    throw new EngineError(
      `shard ${shard} of ${name} has no point on node ${node}, but the backup recorded ${recorded}`,
    )
  }
  progress.note(
    `shard ${shard} of ${name} has ${count} points, and the backup recorded ${recorded}: other clients may have written meanwhile`,
  )
  return count
}
