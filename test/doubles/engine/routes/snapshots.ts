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
import { beginSnapshot, filesOf, snapshotFiles, type SnapshotFile } from '../snapshots.ts'
import { found } from './collections.ts'

export async function snapshotRoutes(
  { method, path, query }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): Promise<EngineAnswer | undefined> {
  const [root, alias = '', part, file, ...rest] = path
  if (root !== 'collections' || part !== 'snapshots' || rest.length > 0) return undefined
  const name = cluster.collections.has(alias) ? alias : (cluster.aliases.get(alias) ?? alias)
  found(cluster, name)
  const key = `${ordinal}/${name}/${file ?? ''}`
  switch (`${method} ${file === undefined ? 'all' : 'one'}`) {
    case 'GET all':
      return ok(filesOf(cluster, ordinal, name).map(described))
    case 'POST all':
      return make(cluster, ordinal, { name, isAwaited: query['wait'] !== 'false' })
    case 'GET one':
      return download(snapshotFiles(cluster).get(key), file ?? '')
    case 'DELETE one':
      return snapshotFiles(cluster).delete(key) ? ok(true) : missing(file ?? '')
    default:
      return UNKNOWN_ROUTE
  }
}

/** A call without `wait` is answered as accepted; the node continues in either case, also after a disconnect. */
async function make(
  cluster: EngineCluster,
  ordinal: number,
  { name, isAwaited }: { name: string; isAwaited: boolean },
): Promise<EngineAnswer> {
  const making = beginSnapshot(cluster, ordinal, name)
  if (isAwaited) {
    const made = await making
    return 'failure' in made ? failed(500, made.failure) : ok(described(made))
  }
  return { status: 202, body: { status: 'accepted', time: 0.000012 } }
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
