/** What a credential allows, by route, with the engine's messages (docs/engine-notes.md#authentication). */
import { bare, refuse, EngineFailure, type EngineRequest } from './answers.ts'
import type { EngineCluster } from './cluster.ts'
import { matches } from './points.ts'

export type Level = 'r' | 'rw' | 'prw'

export interface Access {
  /** On everything. */
  global?: 'r' | 'm'
  /** Or collection by collection. */
  collections?: { collection: string; access: Level }[]
  valueExists?: { collection: string; matches: { key: string; value: unknown }[] }
}

export const MANAGE: Access = { global: 'm' }
export const READ: Access = { global: 'r' }

/** What a call needs: on the collection in its path, or on the whole engine. */
type Need =
  'nothing' | 'global read' | 'global manage' | 'points read' | 'points write' | 'read' | 'write'

/** Throws a refusal unless the credential allows the call. */
export function checkAccess(request: EngineRequest, cluster: EngineCluster): void {
  const { access, path } = request
  if (access === undefined) return
  if (access.valueExists !== undefined) checkValueExists(access.valueExists, cluster)
  const need = needOf(request)
  if (need === 'nothing') return
  if (access.global === 'm') return
  if (access.global === 'r') {
    if (!['global read', 'points read', 'read'].includes(need)) {
      refuse(403, 'Forbidden: Global manage access is required')
    }
    return
  }
  if (need.startsWith('global')) refuse(403, 'Forbidden: Global access is required')
  checkCollection(access, path[1] ?? '', need)
}

/** Which of the names the credential may see. */
export function visible(access: Access | undefined, collection: string): boolean {
  if (access === undefined || access.global !== undefined) return true
  return access.collections?.some((entry) => entry.collection === collection) ?? false
}

function checkCollection({ collections = [] }: Access, name: string, need: Need): void {
  const level = collections.find(({ collection }) => collection === name)?.access
  if (level === undefined) refuse(403, `Forbidden: Access to collection ${name} is required`)
  if (level === 'rw' || need === 'points read') return
  if (level === 'prw') {
    if (need === 'points write') return
    refuse(403, `Forbidden: Only points access is allowed for collection ${name}`)
  }
  if (need !== 'read') refuse(403, `Forbidden: Write access to collection ${name} is required`)
}

function needOf({ method, path }: EngineRequest): Need {
  const [root, , part, ...rest] = path
  if (root === 'cluster' || root === 'metrics') return 'global read'
  if (root !== 'collections' || path.length === 1) return 'nothing'
  if (path.length === 2) {
    if (method === 'GET') return 'points read'
    return 'global manage'
  }
  switch (part ?? '') {
    case 'points':
      return isRead(method, rest) ? 'points read' : 'points write'
    case 'index':
      return 'write'
    case 'cluster':
      return method === 'GET' ? 'read' : 'global manage'
    case 'snapshots':
      if (method === 'GET') return 'read'
      return rest.length === 0 ? 'write' : 'global manage'
    case 'shards':
      return method === 'GET' ? 'points read' : 'global manage'
    default:
      return 'points read'
  }
}

function isRead(method: string, rest: string[]): boolean {
  const [verb] = rest
  if (method === 'POST' && verb === undefined) return true
  return method === 'GET' || ['scroll', 'count', 'query'].includes(verb ?? '')
}

const GONE = 'Invalid JWT, stateful validation failed'

/** One point that carries every pair must exist, at each call. */
function checkValueExists(
  required: NonNullable<Access['valueExists']>,
  cluster: EngineCluster,
): void {
  const collection = cluster.find(required.collection)
  if (collection === undefined) throw new EngineFailure(bare(403, GONE))
  const filter = { must: required.matches.map(({ key, value }) => ({ key, match: { value } })) }
  if (collection.points.some((point) => matches(point, filter))) return
  throw new EngineFailure(bare(401, GONE))
}
