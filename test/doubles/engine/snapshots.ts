/**
 * Snapshot files, by node: one of another is unknown there (facts 6.1). A file begins with a line that
 * tells what it holds, and is filled up to a size, so that it can be as large as a test wants.
 */
import { createHash } from 'node:crypto'
import type { EngineCluster } from './cluster.ts'
import { contentOf } from './recovery.ts'

export interface SnapshotFile {
  name: string
  creation_time: string
  size: number
  checksum: string
  content: Buffer
}

interface Shelf {
  /** Bytes of each file, at least. */
  bytes: number
  files: Map<string, SnapshotFile>
}

const shelves = new WeakMap<EngineCluster, Shelf>()

/** Every file of every node, by `<ordinal>/<collection>/<name>`; tests may change them. */
export function snapshotFiles(cluster: EngineCluster): Map<string, SnapshotFile> {
  return shelfOf(cluster).files
}

/** How large files are made from now on. */
export function setSnapshotBytes(cluster: EngineCluster, bytes: number): void {
  shelfOf(cluster).bytes = bytes
}

export function snapshotBytes(cluster: EngineCluster): number {
  return shelfOf(cluster).bytes
}

export function filesOf(
  cluster: EngineCluster,
  ordinal: number,
  collection: string,
): SnapshotFile[] {
  const folder = `${ordinal}/${collection}/`
  return [...snapshotFiles(cluster)]
    .filter(([path]) => path.startsWith(folder))
    .map(([, file]) => file)
}

/** Two of one second have one name, and are one file. */
export function makeSnapshot(
  cluster: EngineCluster,
  ordinal: number,
  collection: string,
): SnapshotFile {
  const peer = cluster.peer(ordinal).id
  const creation_time = cluster.now().toISOString().slice(0, 19)
  const name = `${collection}-${peer}-${creation_time.replaceAll(/[T:]/g, '-')}.snapshot`
  const head = Buffer.from(`${JSON.stringify(contentOf(cluster, ordinal, collection))}\n`)
  const content = Buffer.alloc(Math.max(head.length, shelfOf(cluster).bytes), `${ordinal} ${name}`)
  head.copy(content)
  const checksum = createHash('sha256').update(content).digest('hex')
  const file = { name, creation_time, size: content.length, checksum, content }
  snapshotFiles(cluster).set(`${ordinal}/${collection}/${name}`, file)
  return file
}

function shelfOf(cluster: EngineCluster): Shelf {
  const shelf = shelves.get(cluster) ?? { bytes: 0, files: new Map<string, SnapshotFile>() }
  shelves.set(cluster, shelf)
  return shelf
}
