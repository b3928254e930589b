/** Replicas on peers that no node lists. */
import { activeHolders, holds, shardsOf } from './queries.ts'
import { planned, type Plan } from './step.ts'
import type { ClusterView } from './view.ts'

/**
 * A collection that is created while a peer is removed can get replicas on that peer (docs/engine-notes.md). The engine
 * rejects a request to drop them, and deletes them if the peer is removed again by force. A peer stays if one of its
 * replicas is Active or copied, or if a shard has no Active replica on a node that answers.
 */
export function removeUnlistedPeer(view: ClusterView): Plan | undefined {
  const listed = new Set(view.peers.map(({ id }) => id))
  const shards = shardsOf(view)
  const unlisted = new Set(
    shards
      .flatMap(({ replicas }) => replicas.map(({ peer }) => peer))
      .filter((id) => !listed.has(id)),
  )
  for (const peer of unlisted) {
    const holding = shards.filter((shard) => holds(shard, peer))
    const isCopied = view.transfers.some(({ from, to }) => from === peer || to === peer)
    const isActive = holding.some(({ replicas }) =>
      replicas.some((replica) => replica.peer === peer && replica.state === 'Active'),
    )
    const isAlone = holding.some((shard) => activeHolders(view, shard).length === 0)
    if (isCopied || isActive || isAlone) continue
    return planned('repair', { do: 'removePeer', peer, isUnlisted: true })
  }
  return undefined
}
