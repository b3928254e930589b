/** /collections/{c}/snapshots: each node makes, lists, serves and deletes its own files. */
import {
  failed,
  ok,
  text,
  UNKNOWN_ROUTE,
  type EngineAnswer,
  type EngineRequest,
} from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import { filesOf, makeSnapshot, snapshotFiles, type SnapshotFile } from '../snapshots.ts'
import { found } from './collections.ts'

export function snapshotRoutes(
  { method, path }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, alias = '', part, file, ...rest] = path
  if (root !== 'collections' || part !== 'snapshots' || rest.length > 0) return undefined
  const name = cluster.collections.has(alias) ? alias : (cluster.aliases.get(alias) ?? alias)
  found(cluster, name)
  const key = `${ordinal}/${name}/${file ?? ''}`
  switch (`${method} ${file === undefined ? 'all' : 'one'}`) {
    case 'GET all':
      return ok(filesOf(cluster, ordinal, name).map(described))
    case 'POST all':
      return ok(described(makeSnapshot(cluster, ordinal, name)))
    case 'GET one':
      return download(snapshotFiles(cluster).get(key), file ?? '')
    case 'DELETE one':
      return snapshotFiles(cluster).delete(key) ? ok(true) : missing(file ?? '')
    default:
      return UNKNOWN_ROUTE
  }
}

function described({ name, creation_time, size, checksum }: SnapshotFile): object {
  return { name, creation_time, size, checksum }
}

/** In base64, for answers travel as JSON where nodes are processes. */
function download(file: SnapshotFile | undefined, name: string): EngineAnswer {
  if (file === undefined) return text(404, `Not found: Snapshot ${name} not found`)
  return {
    status: 200,
    headers: {
      'content-type': 'application/octet-stream',
      'content-length': String(file.content.length),
    },
    body: { base64: file.content.toString('base64') },
  }
}

function missing(name: string): EngineAnswer {
  return failed(404, `Not found: Snapshot ${name} not found`)
}
