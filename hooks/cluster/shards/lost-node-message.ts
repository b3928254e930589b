/** What a user reads about nodes that have lost their data: what can be done, and at what price. */
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { LostNode } from '../nodes.ts'
import type { ShardsSummary } from './summary.ts'

const MAX_LISTED = 5

export function lostNodeMessage(
  nodes: LostNode[],
  { onlyOn, backups }: Pick<ShardsSummary, 'onlyOn' | 'backups'>,
): string {
  return nodes
    .map((node) => {
      const { ordinal, peer, evidence } = node
      const shards = onlyOn.filter((entry) => entry.peer === peer).flatMap((entry) => entry.shards)
      const advice = shards.length === 0 ? safeAdvice(node) : unsafeAdvice(shards, backups)
      return `node ${ordinal} has lost its data (${evidence}): ${advice}`
    })
    .join('; ')
}

function safeAdvice({ ordinal, earlierPeer }: LostNode): string {
  const annotation = `${ANNOTATIONS.replace}="${ordinal}"`
  const step =
    earlierPeer === undefined
      ? `annotate the VecCluster with ${annotation}`
      : `remove the annotation ${ANNOTATIONS.replace}, which gave up the earlier peer ${earlierPeer}, and set ${annotation} again`
  return `every shard on it has an Active replica on another node, so it can be replaced: ${step}`
}

function unsafeAdvice(shards: string[], backups: string[]): string {
  const unlisted = shards.length - MAX_LISTED
  const names =
    shards.slice(0, MAX_LISTED).join(', ') + (unlisted > 0 ? ` and ${unlisted} more` : '')
  const source =
    backups.length === 0
      ? 'no Completed VecBackup of the cluster exists'
      : `the newest Completed backups: ${backups.join(', ')}`
  return `no other node has an Active replica of ${names}: restore them from a backup (a VecRestore with spec.shards), or delete their collections; ${source}`
}
