/**
 * Progress of a backup and how it is reported: in the annotation as far as its size limit allows,
 * failures first; in the log a line every few seconds, or a progress bar on a terminal.
 */
import type { BackedUpCollection, BackupResult } from '../../crds/contract/job.ts'
import type {
  ManifestCollection,
  ManifestSnapshot,
  ShardSnapshot,
} from '../../crds/contract/manifest.ts'
import { hashNames, MAX_HASHED_NAMES } from '../../crds/contract/names.ts'
import { formatBytes } from '../../crds/units.ts'
import type { Dependencies } from '../dependencies.ts'
import { countStates, JobProgress } from '../progress.ts'
import {
  estimateTotalBytes,
  NodeProgress,
  ShardProgress,
  type CollectionProgress,
  type CurrentCollection,
} from './collection-progress.ts'
import type { Owner } from './owner.ts'

/** What users must see first comes first. */
const STATUS_ORDER = ['Failed', 'InProgress', 'Completed', 'Pending'] as const
const LOG_INTERVAL_MS = 5_000
/**
 * A collection with hundreds of shards must not fill the report alone: manifest.json lists them
 * all.
 */
const MAX_LISTED_SHARDS = 64

type ProgressDependencies = Pick<Dependencies, 'time' | 'log' | 'reporter' | 'progressBar'>

export class BackupProgress {
  readonly #tools: ProgressDependencies
  /** Start of the first attempt, once that is known. */
  #startedAt: string
  #clusterUid: string | undefined
  /** By collection, if the engine reported them. */
  #points = new Map<string, number>()
  /** The collection in progress. */
  #current: Pick<CurrentCollection, 'collection' | 'number'> | undefined
  #nodeProgress: NodeProgress | undefined
  #shardProgress: ShardProgress | undefined
  #loggedAt = 0
  /** Why the bucket rejects all calls until its credentials are renewed. */
  #credentialsError: string | undefined
  readonly #progress: JobProgress<BackedUpCollection>

  constructor(tools: ProgressDependencies) {
    this.#tools = tools
    this.#progress = new JobProgress({
      reporter: tools.reporter,
      statusOrder: STATUS_ORDER,
      toReport: () => ({ message: this.statusLine(), fields: { backup: this.result() } }),
    })
    this.#startedAt = tools.time.now().toISOString()
  }

  start(
    { startedAt, collections }: Pick<Owner, 'startedAt' | 'collections'>,
    clusterUid?: string,
  ): void {
    this.#startedAt = startedAt
    this.#clusterUid = clusterUid
    for (const name of collections) {
      this.#progress.collections.set(name, { name, status: 'Pending' })
    }
  }

  /** Point counts of the remaining collections, used to estimate the total bytes. */
  setPointCounts(points: Map<string, number>): void {
    this.#points = points
  }

  /** Method Node: the number of nodes to process, one after the other. */
  startCollection(collection: string, nodes?: number): void {
    this.#progress.collections.set(collection, { name: collection, status: 'InProgress' })
    this.#current = { collection, number: this.#progress.numberOf(collection) }
    this.#nodeProgress = nodes === undefined ? undefined : new NodeProgress(nodes)
    this.#shardProgress = undefined
  }

  completed(collection: ManifestCollection): void {
    const { name, snapshots } = collection
    this.#progress.collections.set(name, {
      name,
      status: 'Completed',
      ...(isEmpty(collection) && { isEmpty: true }),
      bytes: snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      ...(!hasTooManyShards(snapshots) && { snapshots: snapshots.map(summarizeSnapshot) }),
    })
  }

  failed(name: string, error: string): void {
    // It no longer counts toward the total of the backup.
    this.#points.delete(name)
    // The first error is shown without the list of collections.
    const named = error.includes(name) ? error : `collection ${name}: ${error}`
    this.#progress.collections.set(name, {
      name,
      status: 'Failed',
      error: this.#progress.recordError(named),
    })
  }

  /** A collection that was deleted is not part of the backup. */
  leftOut(name: string): void {
    this.#points.delete(name)
    this.#progress.collections.delete(name)
  }

  /** The transfer of a node's snapshot starts. */
  startNode(node: number, bytesTotal: number): void {
    this.#loggedAt = this.#now()
    this.#nodeProgress?.startNode(node, bytesTotal, this.#loggedAt)
  }

  /** Throws if the report said that this pod must stop. */
  transferred(bytes: number): void {
    this.#nodeProgress?.transferred(bytes)
    this.#onBytes()
  }

  /** Method Shard: the number of shards to stream, several at once. */
  startShards(shards: number): void {
    this.#loggedAt = this.#now()
    this.#shardProgress = new ShardProgress(shards, this.#loggedAt)
  }

  /** Throws if the report said that this pod must stop. */
  shardTransferred(shardId: number, bytes: number): void {
    this.#shardProgress?.transferred(shardId, bytes)
    this.#onBytes()
  }

  /** Discards what was received of that shard. */
  shardFailed(shardId: number): void {
    this.#shardProgress?.shardFailed(shardId)
  }

  shardCompleted(snapshot: ShardSnapshot): void {
    this.#shardProgress?.shardCompleted(snapshot)
  }

  /**
   * Reports every few seconds, also while nothing moves: a Job that waits for a store must not look
   * dead.
   */
  heartbeat(): void {
    const isDue = this.#now() - this.#loggedAt >= LOG_INTERVAL_MS
    if (this.#current === undefined || !isDue) return
    const { progressBar: bar, log } = this.#tools
    this.#loggedAt = this.#now()
    const statusLine = this.#updatedStatusLine()
    if (bar === undefined) log.info({ ...this.#currentReport(), ...this.#totals() }, statusLine)
    this.report()
  }

  /** Credentials are being renewed, or were; an administrator may have to do that. */
  reportCredentials(error: Error | undefined): void {
    const isChanged = error !== undefined || this.#credentialsError !== undefined
    this.#credentialsError = error?.message
    if (isChanged) this.report()
  }

  /** Reports in the background: transfers need not wait for the API. */
  report(): void {
    this.#progress.report()
  }

  /** Waits for the report in progress; throws if it said that this pod must stop. */
  flush(): Promise<void> {
    return this.#progress.flush()
  }

  statusLine(): string {
    const credentialsNote =
      this.#credentialsError === undefined
        ? ''
        : `; waiting for renewed credentials: ${this.#credentialsError}`
    return this.#position() + credentialsNote
  }

  /** The outcome, for the condition: `Backed up n/m collections`. */
  summary(): string {
    const { completed, total } = this.#progress.counts()
    return `Backed up ${completed}/${total} collections`
  }

  finish(): void {
    this.#current = undefined
    this.#nodeProgress = undefined
    this.#shardProgress = undefined
  }

  result(): BackupResult {
    const all = [...this.#progress.collections.values()]
    const { collections, omitted } = this.#progress.listed()
    return {
      startedAt: this.#startedAt,
      ...this.#progress.counts(),
      bytes: all.reduce((sum, { bytes = 0 }) => sum + bytes, 0),
      ...(this.#clusterUid !== undefined && { clusterUid: this.#clusterUid }),
      ...completedHashes(all),
      ...this.#progress.errorField(),
      collections,
      unlisted: countStates(omitted),
      ...(this.#current !== undefined && { current: this.#currentReport() }),
    }
  }

  get #collectionProgress(): CollectionProgress | undefined {
    return this.#shardProgress ?? this.#nodeProgress
  }

  #currentReport(): CurrentCollection {
    const { collection = '', number = 0 } = this.#current ?? {}
    return { collection, number, bytes: 0, bytesTotal: 0, ...this.#collectionProgress?.toReport() }
  }

  #onBytes(): void {
    this.#progress.throwIfFailed()
    const collectionProgress = this.#collectionProgress
    if (collectionProgress === undefined) return
    this.#tools.progressBar?.show(() => this.#updatedStatusLine(), collectionProgress.fraction)
    this.heartbeat()
  }

  #position(): string {
    const total = this.#progress.collections.size
    if (this.#current === undefined) return `${total} collections`
    const { collection, number } = this.#current
    const position = `collection ${number} of ${total} (${collection})`
    const statusLine = this.#collectionProgress?.statusLine() ?? ''
    if (statusLine === '') return position
    const { allBytes, allBytesTotal } = this.#totals()
    const about = allBytesTotal === undefined ? '' : ` of about ${formatBytes(allBytesTotal)}`
    return `${position}, ${statusLine}; in total ${formatBytes(allBytes)}${about}`
  }

  /** Bytes of all collections: transferred so far, and the estimated total. */
  #totals(): { allBytes: number; allBytesTotal?: number } {
    const bytesByCollection = new Map<string, number>()
    for (const { name, bytes, status } of this.#progress.collections.values()) {
      if (status === 'Completed' && bytes !== undefined) bytesByCollection.set(name, bytes)
    }
    const completedBytes = [...bytesByCollection.values()].reduce((sum, bytes) => sum + bytes, 0)
    const { collection = '' } = this.#current ?? {}
    const { bytes = 0, expected } = this.#collectionProgress ?? {}
    // Once the collection is completed, its bytes are already included.
    const currentBytes = bytesByCollection.has(collection) ? 0 : bytes
    if (expected !== undefined && !bytesByCollection.has(collection))
      bytesByCollection.set(collection, expected)
    const total = estimateTotalBytes(this.#points, bytesByCollection)
    const allBytes = completedBytes + currentBytes
    return { allBytes, ...(total !== undefined && { allBytesTotal: Math.max(total, allBytes) }) }
  }

  #updatedStatusLine(): string {
    this.#collectionProgress?.measure(this.#now())
    return this.statusLine()
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}

function completedHashes(
  all: BackedUpCollection[],
): Pick<BackupResult, 'collectionHashes' | 'emptyCollectionHashes'> {
  const completed = all.filter(({ status }) => status === 'Completed')
  const collectionHashes = hashNames(completed.map(({ name }) => name))
  const empty = completed.flatMap((one) => (one.isEmpty === true ? one.name : []))
  // The first ones are those that the status lists: without their hashes they would count as collections with points.
  const emptyHashes = hashNames(empty.slice(0, MAX_HASHED_NAMES))
  return {
    ...(completed.length > 0 && collectionHashes !== undefined && { collectionHashes }),
    ...(emptyHashes !== undefined && emptyHashes !== '' && { emptyCollectionHashes: emptyHashes }),
  }
}

/** By the exact count, or else by what the engine reported before the first snapshot. */
function isEmpty({ exactPointsCount, pointsCount }: ManifestCollection): boolean {
  return (exactPointsCount ?? pointsCount) === 0
}

function hasTooManyShards(snapshots: readonly ManifestSnapshot[]): boolean {
  const [first] = snapshots
  return first !== undefined && 'shardId' in first && snapshots.length > MAX_LISTED_SHARDS
}

function summarizeSnapshot(
  snapshot: ManifestSnapshot,
): NonNullable<BackedUpCollection['snapshots']>[number] {
  const { nodeIndex: node, key } = snapshot
  if ('snapshotName' in snapshot) return { node, snapshotName: snapshot.snapshotName, key }
  const snapshotName = key.slice(key.lastIndexOf('/') + 1)
  return { node, shard: snapshot.shardId, snapshotName, key }
}
