/**
 * The states of the replicas as all nodes report them. A node may be behind the others or cut off from them, so none of
 * them alone knows the states.
 */
import { formatNames } from '../../crds/units.ts'

export interface ShardReplicas {
  collection: string
  shard: number
  key?: string | number
  /** State of each replica, by its peer; of several ones as `Active/Dead`, `-` for a node that does not list it. */
  copies: Record<string, string>
  /** Replicas on whose state the nodes do not agree, by peer: what each pod reports. */
  differences?: Record<string, Record<string, string>>
}

const MAX_LISTED_DIFFERENCES = 10
const MAX_LISTED_PODS = 5
const NOT_LISTED = '-'

/** The shards of one collection, as all pods report them. */
export function mergeShards(
  collection: string,
  reports: readonly { pod: string; shards: ShardReplicas[] }[],
): ShardReplicas[] {
  const byPod = reports.map(({ pod, shards }) => ({
    pod,
    shards: new Map(
      shards
        .filter((entry) => entry.collection === collection)
        .map((entry) => [entry.shard, entry]),
    ),
  }))
  const merged = new Map<number, ShardReplicas>()
  for (const { shards } of byPod) {
    for (const [shard, found] of shards) {
      const copies = { ...merged.get(shard)?.copies, ...found.copies }
      merged.set(shard, { ...found, copies })
    }
  }
  for (const entry of merged.values()) {
    for (const peer of Object.keys(entry.copies)) {
      const states = byPod.map(({ pod, shards }): [string, string] => [
        pod,
        shards.get(entry.shard)?.copies[peer] ?? NOT_LISTED,
      ])
      const distinct = new Set(states.map(([, state]) => state))
      entry.copies[peer] = [...distinct].join('/')
      if (distinct.size > 1) (entry.differences ??= {})[peer] = Object.fromEntries(states)
    }
  }
  return [...merged.values()].toSorted((left, right) => left.shard - right.shard)
}

export function describeDifferences(
  shards: ShardReplicas[],
  podByPeer: ReadonlyMap<string, string>,
): string[] {
  const lines = shards.flatMap(({ collection, shard, differences = {} }) =>
    Object.entries(differences).map(([peer, states]) => {
      const pod = podByPeer.get(peer) ?? `peer ${peer}`
      const byState = Map.groupBy(Object.entries(states), ([, state]) => state)
      const reports = [...byState].map(([state, reporting]) => {
        const pods = reporting.map(([name]) => name)
        const what = state === NOT_LISTED ? 'missing' : state
        return `${what} according to ${formatNames(pods, MAX_LISTED_PODS)}`
      })
      return `the nodes do not agree about ${collection}/${shard} on ${pod}: ${reports.join('; ')}`
    }),
  )
  const omitted = lines.length - MAX_LISTED_DIFFERENCES
  if (omitted <= 0) return lines
  return [
    ...lines.slice(0, MAX_LISTED_DIFFERENCES),
    `the nodes do not agree about ${omitted} more replicas`,
  ]
}
