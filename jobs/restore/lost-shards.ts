/**
 * Restores single shards whose replicas are all lost (`spec.shards`) into a collection that exists.
 * Nodes that do not answer are left out. Nothing is overwritten: a node takes only a shard of which
 * it has no replica. The engine then calls the replicas on the lost nodes Dead, so that the nodes
 * can be replaced (docs/engine-notes.md, "Snapshots of a shard").
 */
import { isDeepStrictEqual } from 'node:util'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { LONG_CALL_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { isShardManifest, type ShardSnapshot } from '../../crds/contract/manifest.ts'
import type { RestoreSpec } from '../../crds/restore.ts'
import { EngineShards } from '../clients/engine/shards.ts'
import {
  newObservationMemory,
  observeShards,
  type ObservationMemory,
} from '../cluster/shards/observe.ts'
import { activeHolders, bytesByPeer, hasTransfer, peerName } from '../cluster/shards/queries.ts'
import type { ClusterView, CollectionView, PeerView, ShardView } from '../cluster/shards/view.ts'
import type { ShardItem, SourceManifest } from '../manifest-check.ts'
import { poll, retryTransient } from '../retry.ts'
import type { Checkpoint } from './checkpoint.ts'
import { checkObjects, checkSameSchema } from './collection-checks.ts'
import { attemptCollection, engineOn, type RunContext } from './context.ts'
import { deliverSnapshot } from './deliver-snapshot.ts'
import { readManifest } from './manifest.ts'
import { retryRecovery, waitForEarlierRecoveries, waitForIdle } from './retry-recovery.ts'
import { recordedVersions, requireCompatibleVersion } from './target-checks.ts'

type LostShards = NonNullable<RestoreSpec['shards']>

/** Nodes usually agree within seconds; one that restarts needs longer. */
const SETTLE_MS = 120_000
const SETTLE_POLL_MS = 1_000

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
  let points = 0
  const isRestored = await attemptCollection(
    name,
    async () => {
      await checkObjects(item.source, context)
      await waitForEarlierRecoveries(item, checkpoint, context, target.nodesOf(checkpoint))
      await target.requireSameCollection(name, recorded)
      for (const snapshot of item.source.snapshots) {
        points += await restoreShard(item, { snapshot, checkpoint }, target, context)
      }
    },
    context,
  )
  if (isRestored) {
    progress.completed(name, points)
    const shards = item.source.snapshots.map(({ shardId }) => shardId)
    tools.log.info({ collection: name, shards }, `shards of ${name} restored`)
  }
  progress.report()
  await progress.reported()
}

interface ShardRequest {
  snapshot: ShardSnapshot
  checkpoint: Checkpoint
}

/** Returns the number of points of the shard. */
async function restoreShard(
  item: ShardItem,
  { snapshot, checkpoint }: ShardRequest,
  target: LostTarget,
  context: RunContext,
): Promise<number> {
  const { progress } = context
  const { name } = item
  const { shardId: shard, sizeBytes: bytes, sha256 } = snapshot
  const found = await target.findNode(name, shard, checkpoint)
  const { ordinal: node } = found
  if (!found.isDone) {
    progress.step(`node ${node}: takes shard ${shard}`)
    await retryRecovery(
      {
        ...{ collection: name, node, shard, bytes },
        run: async () => {
          await waitForIdle(item, context, [node])
          await target.requireNoReplica(name, shard, node)
          const delivery = { node, target: { collection: name, shard }, snapshot, checksum: sha256 }
          await deliverSnapshot(delivery, { ...context, priority: 'snapshot' })
        },
        isDone: () => target.isActiveOn(name, shard, node),
      },
      context,
    )
    target.recordRestored(node, bytes)
  }
  if (!checkpoint.shardsDone.includes(shard)) await progress.shardDone(snapshot)
  await target.waitUntilActive(name, shard, node)
  return countPoints(name, { snapshot, node }, context)
}

/** A count reads the whole shard. */
const COUNT_MS = LONG_CALL_TIMEOUT_SECONDS * 1000

/** Clients may write as soon as the shard is Active, so another number is noted and not a failure. */
async function countPoints(
  name: string,
  { snapshot, node }: { snapshot: ShardSnapshot; node: number },
  context: RunContext,
): Promise<number> {
  const { shardId: shard, pointsCount: recorded } = snapshot
  const engine = new EngineShards(engineOn(context, node))
  const options = { signal: context.tools.signal, timeoutMs: COUNT_MS }
  const count = await retryTransient(context, () => engine.countPoints(name, shard, options))
  if (recorded === undefined || count === recorded) return count
  if (count === 0) {
    throw new EngineError(
      `shard ${shard} of ${name} has no point on node ${node}, but the backup recorded ${recorded}`,
    )
  }
  context.progress.note(
    `shard ${shard} of ${name} has ${count} points, and the backup recorded ${recorded}: other clients may have written meanwhile`,
  )
  return count
}

/** The nodes of the target that answer, and what they hold. */
class LostTarget {
  readonly #context: RunContext
  readonly #memory: ObservationMemory = newObservationMemory()
  /** Bytes that this Job has given to each node, by ordinal: the sizes that nodes report are older. */
  readonly #restored = new Map<number, number>()

  constructor(context: RunContext) {
    this.#context = context
  }

  /** Throws unless every node that answers reads snapshots of these versions. */
  async requireVersion(recorded: string[]): Promise<void> {
    const view = await this.#view()
    const { signal } = this.#context.tools
    for (const { ordinal } of members(view)) {
      const version = await retryTransient(this.#context, () =>
        engineOn(this.#context, ordinal).version(signal),
      )
      for (const engineVersion of recorded) requireCompatibleVersion(version, engineVersion)
    }
  }

  /** Nodes on which an earlier attempt may have left a recovery. */
  nodesOf({ running }: Checkpoint): number[] {
    return running === 'unknown' ? [] : [...new Set(running.map(({ node }) => node))]
  }

  /** Throws `Rejected` unless the collection has the schema and the shards of the backup. */
  async requireSameCollection(name: string, recorded: ShardItem['source']): Promise<void> {
    const view = await this.#view()
    const live = collectionIn(view, name)
    const ids = (shards: [number, string | number | undefined][]) =>
      shards.toSorted(([a], [b]) => a - b)
    const expected = ids(recorded.shards.map(({ shardId, shardKey }) => [shardId, shardKey]))
    const actual = ids(live.shards.map(({ id, key }) => [id, key]))
    if (!isDeepStrictEqual(expected, actual)) {
      throw new Rejected(
        `collection ${name} is at the target with other shards or shard keys than in the backup`,
      )
    }
    const facts = [...this.#memory.facts.values()].map((byName) => byName.get(name))
    const params = facts.find((one) => one?.params !== undefined)?.params
    if (params === undefined) {
      throw new EngineError(`no node reports the configuration of collection ${name}`)
    }
    checkSameSchema(name, recorded, params)
  }

  /** The node that takes the shard, or that an earlier attempt has given it to. */
  async findNode(
    name: string,
    id: number,
    checkpoint: Checkpoint,
  ): Promise<{ ordinal: number; isDone: boolean }> {
    const view = await this.#view()
    const shard = shardIn(view, name, id)
    const [holder] = activeHolders(view, shard)
    if (holder !== undefined) {
      const ordinal = members(view).find((peer) => peer.id === holder)?.ordinal
      const isDone =
        checkpoint.shardsDone.includes(id) ||
        (checkpoint.running !== 'unknown' &&
          checkpoint.running.some((recovery) => recovery.shard === id && recovery.node === ordinal))
      if (isDone && ordinal !== undefined) return { ordinal, isDone }
      throw new Rejected(
        `shard ${id} of ${name} has an Active replica on ${peerName(view, holder)}: there is nothing to restore`,
      )
    }
    if (hasTransfer(view, { ...shard, collection: name })) {
      throw new Rejected(`shard ${id} of ${name} is being transferred`)
    }
    const ordinal = freeNode(view, { name, shard, restored: this.#restored })
    return { ordinal, isDone: false }
  }

  recordRestored(ordinal: number, bytes: number): void {
    this.#restored.set(ordinal, (this.#restored.get(ordinal) ?? 0) + bytes)
  }

  /** Runs directly before a recovery, which replaces the replica of the node. */
  async requireNoReplica(name: string, id: number, ordinal: number): Promise<void> {
    const view = await this.#view()
    const shard = shardIn(view, name, id)
    const peer = members(view).find((member) => member.ordinal === ordinal)
    const isHeld = shard.replicas.some((replica) => replica.peer === peer?.id)
    if (peer !== undefined && !isHeld && activeHolders(view, shard).length === 0) return
    throw new EngineError(
      `shard ${id} of ${name} has another replica than before: create the VecRestore again`,
      { status: 409 },
    )
  }

  async isActiveOn(name: string, id: number, ordinal: number): Promise<boolean> {
    const view = await this.#view()
    const peer = members(view).find((member) => member.ordinal === ordinal)
    return peer !== undefined && activeHolders(view, shardIn(view, name, id)).includes(peer.id)
  }

  /** Until every node that answers calls the replica Active. */
  async waitUntilActive(name: string, id: number, ordinal: number): Promise<void> {
    const { time, signal, progress } = { ...this.#context.tools, progress: this.#context.progress }
    const afterPause = () => progress.reported()
    await poll({ time, signal, pauseMs: SETTLE_POLL_MS, afterPause }, async ({ waitedMs }) => {
      if (await this.isActiveOn(name, id, ordinal)) return true
      if (waitedMs < SETTLE_MS) return undefined
      throw new EngineError(
        `shard ${id} of ${name} was restored on node ${ordinal}, but not every node calls it Active`,
      )
    })
  }

  /** What the nodes agree on. */
  async #view(): Promise<ClusterView> {
    const { plan, tools, progress } = this.#context
    const { time, signal } = tools
    const options = { nodes: plan.cluster.replicas, memory: this.#memory }
    const engineForPod = (ordinal: number) => engineOn(this.#context, ordinal)
    const afterPause = () => progress.reported()
    return poll({ time, signal, pauseMs: SETTLE_POLL_MS, afterPause }, async ({ waitedMs }) => {
      const view = await observeShards(options, engineForPod, signal)
      const reason = view.broken?.message ?? view.unsettled
      if (reason === undefined) return view
      if (waitedMs >= SETTLE_MS) throw new EngineError(reason)
      return undefined
    })
  }
}

type Member = PeerView & { ordinal: number }

function members(view: ClusterView): Member[] {
  return view.peers.filter((peer): peer is Member => peer.isMember && peer.ordinal !== undefined)
}

function collectionIn({ collections }: ClusterView, name: string): CollectionView {
  const collection = collections.find((one) => one.name === name)
  if (collection !== undefined) return collection
  throw new Rejected(
    `collection ${name} does not exist: restore it as a whole, without spec.shards`,
  )
}

function shardIn(view: ClusterView, name: string, id: number): ShardView {
  const shard = collectionIn(view, name).shards.find((one) => one.id === id)
  if (shard === undefined) throw new Rejected(`collection ${name} has no shard ${id}`)
  return shard
}

/** The node with the least data among those that answer and have no replica of the shard. */
function freeNode(
  view: ClusterView,
  { name, shard, restored }: { name: string; shard: ShardView; restored: Map<number, number> },
): number {
  const bytes = bytesByPeer(view, { moves: [] })
  const load = ({ id, ordinal }: Member) => (bytes.get(id) ?? 0) + (restored.get(ordinal) ?? 0)
  const [free] = members(view)
    .filter(({ id }) => !shard.replicas.some(({ peer }) => peer === id))
    .toSorted((a, b) => load(a) - load(b) || a.ordinal - b.ordinal)
  if (free !== undefined) return free.ordinal
  throw new Rejected(
    `every node that answers has a replica of shard ${shard.id} of ${name} that is not Active, and a restore would overwrite it: add a node`,
  )
}
