/**
 * When a read may go unanswered: while every replica of its shard was on a node that was away, or whose engine was
 * blocked. Computed from what the watch saw of nodes and replicas; what it did not see excuses nothing.
 */
export interface Seen {
  /** Milliseconds since 1970. */
  at: number
  /** Nodes that were ready and answered. */
  nodes: readonly SeenNode[]
  /** Replicas that serve, as a node reports them that is not behind. */
  replicas: readonly SeenReplica[]
}

interface SeenNode {
  peer: number
  commit: number
  /** It has not applied all that is committed. */
  isBehind: boolean
}

export interface SeenReplica {
  collection: string
  shard: number
  key?: string
  peer: number
}

export interface Read {
  collection: string
  key?: string
  /** Where it is not known, no replica of the collection, or of the shard key, may have been reachable. */
  shard?: number
  /** Beginning of the first and end of the last attempt, in milliseconds since 1970. */
  from: number
  to: number
}

/** The time of one attempt: a longer time without a look at the nodes excuses nothing. */
export const MAX_GAP_MS = 8_000

/** Whether no node could answer at any moment of the read. */
export function isExcused(read: Read, seen: readonly Seen[]): boolean {
  const during = seen.filter(({ at }) => at >= read.from && at <= read.to)
  const moments = [read.from, ...during.map(({ at }) => at), read.to]
  const hasGap = moments.some((at, index) => at - (moments[index - 1] ?? at) > MAX_GAP_MS)
  if (hasGap) return false
  return during.every((now) => {
    const replicas = now.replicas.filter(
      ({ collection, key, shard }) =>
        collection === read.collection &&
        (read.key === undefined || key === read.key) &&
        (read.shard === undefined || shard === read.shard),
    )
    return replicas.length > 0 && replicas.every(({ peer }) => !serves(peer, now, seen))
  })
}

/** A node that applies nothing between two looks, although there is something, is blocked. */
function serves(peer: number, now: Seen, seen: readonly Seen[]): boolean {
  const node = nodeOf(peer, now)
  if (node === undefined) return false
  if (!node.isBehind) return true
  const index = seen.indexOf(now)
  const neighbours = [seen[index - 1], seen[index + 1]].map((one) => one && nodeOf(peer, one))
  return !neighbours.some((other) => other?.isBehind === true && other.commit === node.commit)
}

function nodeOf(peer: number, { nodes }: Seen): SeenNode | undefined {
  return nodes.find((node) => node.peer === peer)
}
