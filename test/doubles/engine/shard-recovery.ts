/** Snapshots of one shard: their content, and their recovery (docs/engine-notes.md#snapshots-of-a-shard). */
import { refuse } from './answers.ts'
import type { EngineCluster } from './cluster.ts'
import type { Shard } from './collection.ts'
import { checkedContent, contentOf, type Taking } from './recovery.ts'
import { replacePoints } from './shard-points.ts'

/** Time after which the replicas of a small shard are equal again. */
const SYNC_MS = 30

/** As of a node's snapshot, with the points of this shard alone. */
export function shardContentOf(
  cluster: EngineCluster,
  ordinal: number,
  { name, shard }: { name: string; shard: number },
): object {
  const content = contentOf(cluster, ordinal, name)
  return { ...content, shards: content.shards.filter(({ id }) => id === shard) }
}

/** The engine does not check the shard id of the content. A node without this shard becomes another holder. */
export function takeShardSnapshot(
  cluster: EngineCluster,
  { ordinal, name, bytes, checksum, shard: id }: Omit<Taking, 'priority'> & { shard: number },
): void {
  const collection =
    cluster.find(name) ?? refuse(404, `Not found: Collection \`${name}\` doesn't exist!`)
  const shard =
    collection.shards.find((one) => one.id === id) ??
    refuse(404, `Not found: shard ${id} not found`)
  const { shards } = checkedContent({ bytes, checksum })
  replacePoints(collection, shard, shards.find(({ points }) => points !== undefined)?.points ?? [])
  if (cluster.enabled) hold(cluster, shard, ordinal)
}

/** The replicas on other nodes are discarded and copied from this node again. */
function hold(cluster: EngineCluster, shard: Shard, ordinal: number): void {
  const { id: from } = cluster.peer(ordinal)
  const others = shard.peers.filter((peer) => peer !== from)
  shard.peers = [...others, from]
  const until = Date.now() + SYNC_MS
  shard.arriving = [
    ...(shard.arriving ?? []),
    ...others.map((to) => ({ from, to, until, state: 'Partial', sync: true })),
  ]
}
