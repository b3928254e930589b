/** GET /collections/{c}/shards/{id}/snapshot: a shard of this node as a stream; no file is written. */
import { text, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import { shardContentOf } from '../shard-recovery.ts'
import { snapshotBytes } from '../snapshots.ts'
import { tarOf } from '../tar.ts'

export function shardSnapshotRoutes(
  { method, path }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, alias = '', part, id = '', verb, ...rest] = path
  if (root !== 'collections' || part !== 'shards' || verb !== 'snapshot') return undefined
  if (method !== 'GET' || rest.length > 0) return undefined
  const name = cluster.collections.has(alias) ? alias : (cluster.aliases.get(alias) ?? alias)
  const collection = cluster.collections.get(name)
  if (collection === undefined) {
    return text(404, `Not found: Collection \`${name}\` doesn't exist!`)
  }
  const shard = collection.shards.find((one) => one.id === Number(id))
  if (shard === undefined) return text(404, `Not found: shard ${id} not found`)
  const { id: peer } = cluster.peer(ordinal)
  if (cluster.enabled && !shard.peers.includes(peer)) {
    return text(400, `Wrong input: Shard ${id} is not a local or queue proxy shard`)
  }
  const content = shardContentOf(cluster, ordinal, { name, shard: shard.id })
  return streamed(Buffer.from(`${JSON.stringify(content)}\n`), snapshotBytes(cluster))
}

/** Without a length; in base64, for answers travel as JSON where nodes are processes. */
function streamed(content: Buffer, atLeast: number): EngineAnswer {
  const filling = Buffer.alloc(Math.max(0, atLeast - content.length), 'shard ')
  const tar = tarOf({ 'content.json': content, 'segments/filling': filling })
  return {
    status: 200,
    headers: { 'content-type': 'application/octet-stream', 'transfer-encoding': 'chunked' },
    body: { base64: tar.toString('base64') },
  }
}
