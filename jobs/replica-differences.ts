/** Replicas of a shard with different numbers of points, as a manifest records them: a backup and a restore name them. */
import type { ManifestCollection } from '../crds/contract/manifest.ts'

type ReplicaCounts = NonNullable<ManifestCollection['shards'][number]['replicaPointsCounts']>

/** Names each shard whose replicas differed; `verb` says when. Empty if there are none. */
export function replicaDifferences(
  { name, shards }: Pick<ManifestCollection, 'name' | 'shards'>,
  verb: string,
): string[] {
  return shards.flatMap(({ shardId, replicaPointsCounts: counts }) =>
    counts === undefined
      ? []
      : [`the replicas of shard ${shardId} of ${name} ${verb}: ${formatCounts(counts)}`],
  )
}

function formatCounts(counts: ReplicaCounts): string {
  const [first, ...others] = counts.map(
    ({ nodeIndex, pointsCount }) => [pointsCount, `on node ${nodeIndex}`] as const,
  )
  const rest = others.map(([points, node]) => `, ${points} ${node}`)
  return `${first?.[0] ?? 0} points ${first?.[1] ?? ''}${rest.join('')}`
}
