/**
 * Snapshot files, by node: no node knows those of another (docs/engine-notes.md#snapshots-of-a-node). Each is a tar that is filled up,
 * so that it can be as large as a test wants.
 */
import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { archiveOf } from './archive.ts'
import type { EngineCluster } from './cluster.ts'

export interface SnapshotFile {
  name: string
  creation_time: string
  size: number
  checksum: string | null
  content: Buffer
}

/** How nodes create snapshots: for how long, and with what result. Only a call that waits gets the error. */
export interface Making {
  /** The engine leaves out the checksum, which is optional. */
  hasNoChecksum?: boolean
  /** What an accepted request waits for before it is counted; default: nothing. */
  starts?: (ordinal: number, collection: string) => Promise<unknown>
  /** Default: immediately. */
  until?: (ordinal: number, collection: string) => Promise<unknown> | undefined
  /** The vector size in telemetry, if it differs from the size of the files. */
  vectorBytes?: number
  /** Message of the engine if no file results. */
  failure?: (ordinal: number, collection: string) => string | undefined
}

interface Creations {
  running_snapshots: number
  total_snapshot_creations: number
}

interface Shelf {
  /** Bytes of each file, at least. */
  bytes: number
  making: Making
  /** By `<ordinal>/<collection>`. */
  creations: Map<string, Creations>
  /** How often each node was started again. */
  starts: Map<number, number>
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

export function vectorBytes(cluster: EngineCluster): number {
  const { making, bytes } = shelfOf(cluster)
  return making.vectorBytes ?? bytes
}

export function setMaking(cluster: EngineCluster, making: Making): void {
  shelfOf(cluster).making = making
}

/** As telemetry counts them; the count of a restarted node starts at zero. */
export function creationsOf(
  cluster: EngineCluster,
  ordinal: number,
  collection: string,
): Creations {
  const { creations } = shelfOf(cluster)
  const path = `${ordinal}/${collection}`
  const found = creations.get(path) ?? { running_snapshots: 0, total_snapshot_creations: 0 }
  creations.set(path, found)
  return found
}

/** As for a killed node: unfinished snapshots are discarded, and the count starts at 0. */
export function restartCreations(cluster: EngineCluster, ordinal: number): void {
  const { creations, starts } = shelfOf(cluster)
  for (const path of creations.keys()) if (path.startsWith(`${ordinal}/`)) creations.delete(path)
  starts.set(ordinal, (starts.get(ordinal) ?? 0) + 1)
}

/** Another time after each start. */
export function startOf(cluster: EngineCluster, ordinal: number): string {
  return new Date((shelfOf(cluster).starts.get(ordinal) ?? 0) * 1000).toISOString()
}

/** Continues whether or not a client waits. */
export async function beginSnapshot(
  cluster: EngineCluster,
  ordinal: number,
  collection: string,
): Promise<SnapshotFile | { failure: string }> {
  const { making, creations } = shelfOf(cluster)
  if (making.starts !== undefined) await making.starts(ordinal, collection)
  const counts = creationsOf(cluster, ordinal, collection)
  counts.running_snapshots += 1
  counts.total_snapshot_creations += 1
  const file = describedNow(cluster, ordinal, collection)
  // A call that does not wait is answered before the file exists.
  await (making.until?.(ordinal, collection) ?? setTimeout(0, undefined, { ref: false }))
  counts.running_snapshots -= 1
  if (creations.get(`${ordinal}/${collection}`) !== counts) return { failure: 'restarted' }
  const failure = making.failure?.(ordinal, collection)
  if (failure !== undefined) return { failure }
  snapshotFiles(cluster).set(`${ordinal}/${collection}/${file.name}`, file)
  return file
}

/** Two of one second have one name, and are one file. */
export function makeSnapshot(
  cluster: EngineCluster,
  ordinal: number,
  collection: string,
): SnapshotFile {
  const file = describedNow(cluster, ordinal, collection)
  snapshotFiles(cluster).set(`${ordinal}/${collection}/${file.name}`, file)
  return file
}

/** With the content of this moment. */
function describedNow(cluster: EngineCluster, ordinal: number, collection: string): SnapshotFile {
  const peer = cluster.peer(ordinal).id
  const creation_time = cluster.now().toISOString().slice(0, 19)
  const name = `${collection}-${peer}-${creation_time.replaceAll(/[T:]/g, '-')}.snapshot`
  const { bytes, making } = shelfOf(cluster)
  const content = archiveOf(cluster, { ordinal, collection, bytes, filler: `${ordinal} ${name}` })
  const digest = createHash('sha256').update(content).digest('hex')
  const checksum = making.hasNoChecksum === true ? null : digest
  return { name, creation_time, size: content.length, checksum, content }
}

function shelfOf(cluster: EngineCluster): Shelf {
  const shelf: Shelf = shelves.get(cluster) ?? {
    bytes: 0,
    making: {},
    creations: new Map(),
    starts: new Map(),
    files: new Map(),
  }
  shelves.set(cluster, shelf)
  return shelf
}
