/** /collections/{c}/snapshots: making and listing, for what a credential may do; nothing is stored. */
import { ok, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import { found } from './collections.ts'

export function snapshotRoutes(
  { method, path }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, name = '', part, ...rest] = path
  if (root !== 'collections' || part !== 'snapshots' || rest.length > 0) return undefined
  if (method !== 'GET' && method !== 'POST') return undefined
  found(cluster, name)
  if (method === 'GET') return ok([])
  const creation_time = new Date().toISOString().slice(0, 19)
  const second = creation_time.replaceAll(/[T:]/g, '-')
  const snapshot = `${name}-${cluster.peer(ordinal).id}-${second}.snapshot`
  return ok({ name: snapshot, creation_time, size: 0, checksum: '0'.repeat(64) })
}
