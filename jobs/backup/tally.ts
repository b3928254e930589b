/**
 * What of a backup is done, and how it is told: in the annotation as much as it has room for, failures
 * first; in the log a line every few seconds, or a bar where a terminal watches.
 */
import type { BackedUpCollection, BackupResult } from '../../crds/command.ts'
import type { ManifestCollection, ManifestSnapshot, ShardSnapshot } from '../../crds/manifest.ts'
import { hashesOf } from '../../crds/rules/name-hashes.ts'
import { humanSize } from '../../crds/size.ts'
import { Teller, withRoom } from '../telling.ts'
import type { Tools } from '../tools.ts'
import { NodeCourse, type Course, type Current } from './course.ts'
import { estimatedBytes } from './estimate.ts'
import type { Owner } from './owner.ts'
import { ShardCourse } from './shards/course.ts'

/** What a person must see first stands first. */
const ORDER = ['Failed', 'InProgress', 'Completed', 'Pending'] as const
const MAX_ERROR = 512
const LINE_EVERY_MS = 5_000
/** A collection of hundreds of shards must not fill the report alone: manifest.json has them all. */
const MAX_SHARDS = 64

type TallyTools = Pick<Tools, 'time' | 'log' | 'reporter' | 'bar'>

export class Tally {
  readonly #tools: TallyTools
  /** Of the first attempt, once that is known. */
  #startedAt: string
  #clusterUid: string | undefined
  #collections = new Map<string, BackedUpCollection>()
  /** By collection, where the engine told. */
  #points = new Map<string, number>()
  /** The collection under way. */
  #current: Pick<Current, 'collection' | 'number'> | undefined
  #nodes: NodeCourse | undefined
  #shards: ShardCourse | undefined
  #firstError: string | undefined
  #toldAt = 0
  /** Why the bucket lets nothing pass until its credentials are renewed. */
  #refused: string | undefined
  readonly #teller = new Teller()

  constructor(tools: TallyTools) {
    this.#tools = tools
    this.#startedAt = tools.time.now().toISOString()
  }

  plans(
    { startedAt, collections }: Pick<Owner, 'startedAt' | 'collections'>,
    clusterUid?: string,
  ): void {
    this.#startedAt = startedAt
    this.#clusterUid = clusterUid
    this.#collections = new Map(collections.map((name) => [name, { name, status: 'Pending' }]))
  }

  /** What is to come, for an estimate of all bytes. */
  expect(points: Map<string, number>): void {
    this.#points = points
  }

  /** By node: so many are to come, one after the other. */
  begin(collection: string, nodes?: number): void {
    this.#collections.set(collection, { name: collection, status: 'InProgress' })
    const number = [...this.#collections.keys()].indexOf(collection) + 1
    this.#current = { collection, number }
    this.#nodes = nodes === undefined ? undefined : new NodeCourse(nodes)
    this.#shards = undefined
  }

  completed({ name, snapshots }: ManifestCollection): void {
    this.#collections.set(name, {
      name,
      status: 'Completed',
      bytes: snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      ...(!isLong(snapshots) && { snapshots: snapshots.map(listed) }),
    })
  }

  failed(name: string, error: string): void {
    this.#firstError ??= error
    // It has no share in the backup any more.
    this.#points.delete(name)
    this.#collections.set(name, { name, status: 'Failed', error: error.slice(0, MAX_ERROR) })
  }

  /** A snapshot of one node begins to flow. */
  flows(node: number, bytesTotal: number): void {
    this.#toldAt = this.#now()
    this.#nodes?.flows(node, bytesTotal, this.#toldAt)
  }

  /** Throws when the report said that this pod must stop. */
  moved(bytes: number): void {
    this.#nodes?.moved(bytes)
    this.#flowed()
  }

  /** By shard: so many are to come, several at once. */
  follows(shards: number): void {
    this.#toldAt = this.#now()
    this.#shards = new ShardCourse(shards, this.#toldAt)
  }

  /** Throws when the report said that this pod must stop. */
  streamed(shardId: number, bytes: number): void {
    this.#shards?.moved(shardId, bytes)
    this.#flowed()
  }

  /** What came of that shard counts for nothing. */
  streamBroke(shardId: number): void {
    this.#shards?.broke(shardId)
  }

  streamEnded(snapshot: ShardSnapshot): void {
    this.#shards?.ended(snapshot)
  }

  /** Tells every few seconds, also while nothing moves: who waits for a store must not look dead. */
  still(): void {
    const isDue = this.#now() - this.#toldAt >= LINE_EVERY_MS
    if (this.#current === undefined || !isDue) return
    const { bar, log } = this.#tools
    this.#toldAt = this.#now()
    const line = this.#measured()
    if (bar === undefined) log.info({ ...this.#told(), ...this.#inAll() }, line)
    this.tell()
  }

  /** Credentials are being renewed, or were: somebody may have to do that. */
  waits(refused: Error | undefined): void {
    const isNews = refused !== undefined || this.#refused !== undefined
    this.#refused = refused?.message
    if (isNews) this.tell()
  }

  /** Reports in the background: bytes need not wait for the API. */
  tell(): void {
    this.#teller.tell(() => this.#tools.reporter.progress(this.line(), { backup: this.result() }))
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  told(): Promise<void> {
    return this.#teller.told()
  }

  line(): string {
    const waiting =
      this.#refused === undefined ? '' : `; waits for renewed credentials: ${this.#refused}`
    return this.#place() + waiting
  }

  /** How it ended, for the condition: `Backed up n/m collections`. */
  summary(): string {
    const { completed, total } = this.result()
    return `Backed up ${completed}/${total} collections`
  }

  finish(): void {
    this.#current = undefined
    this.#nodes = undefined
    this.#shards = undefined
  }

  result(): BackupResult {
    const all = [...this.#collections.values()]
    const listed = withRoom(all, ORDER)
    const count = (status: BackedUpCollection['status'], of: Iterable<BackedUpCollection>) =>
      [...of].filter((collection) => collection.status === status).length
    const rest = all.filter((collection) => !listed.has(collection))
    return {
      startedAt: this.#startedAt,
      total: all.length,
      completed: count('Completed', all),
      failed: count('Failed', all),
      bytes: all.reduce((sum, { bytes = 0 }) => sum + bytes, 0),
      ...(this.#clusterUid !== undefined && { clusterUid: this.#clusterUid }),
      ...hashesOfCompleted(all),
      ...(this.#firstError !== undefined && { error: this.#firstError.slice(0, MAX_ERROR) }),
      collections: all.filter((collection) => listed.has(collection)),
      unlisted: {
        completed: count('Completed', rest),
        failed: count('Failed', rest),
        pending: count('Pending', rest) + count('InProgress', rest),
      },
      ...(this.#current !== undefined && { current: this.#told() }),
    }
  }

  get #course(): Course | undefined {
    return this.#shards ?? this.#nodes
  }

  #told(): Current {
    const { collection = '', number = 0 } = this.#current ?? {}
    return { collection, number, bytes: 0, bytesTotal: 0, ...this.#course?.told() }
  }

  #flowed(): void {
    this.#teller.check()
    const course = this.#course
    if (course === undefined) return
    this.#tools.bar?.show(() => this.#measured(), course.share)
    this.still()
  }

  #place(): string {
    const total = this.#collections.size
    if (this.#current === undefined) return `${total} collections`
    const { collection, number } = this.#current
    const place = `collection ${number} of ${total} (${collection})`
    const line = this.#course?.line() ?? ''
    if (line === '') return place
    const { allBytes, allBytesTotal } = this.#inAll()
    const about = allBytesTotal === undefined ? '' : ` of about ${humanSize(allBytesTotal)}`
    return `${place}, ${line}; in all ${humanSize(allBytes)}${about}`
  }

  /** Bytes of all collections: moved so far, and about as many as there will be. */
  #inAll(): { allBytes: number; allBytesTotal?: number } {
    const known = new Map<string, number>()
    for (const { name, bytes, status } of this.#collections.values()) {
      if (status === 'Completed' && bytes !== undefined) known.set(name, bytes)
    }
    const done = [...known.values()].reduce((sum, bytes) => sum + bytes, 0)
    const { collection = '' } = this.#current ?? {}
    const { bytes = 0, expected } = this.#course ?? {}
    // Once it is completed its bytes are among those.
    const moving = known.has(collection) ? 0 : bytes
    if (expected !== undefined && !known.has(collection)) known.set(collection, expected)
    const total = estimatedBytes(this.#points, known)
    const allBytes = done + moving
    return { allBytes, ...(total !== undefined && { allBytesTotal: Math.max(total, allBytes) }) }
  }

  #measured(): string {
    this.#course?.measure(this.#now())
    return this.line()
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}

function hashesOfCompleted(all: BackedUpCollection[]): Pick<BackupResult, 'collectionHashes'> {
  const completed = all.filter(({ status }) => status === 'Completed')
  const collectionHashes = hashesOf(completed.map(({ name }) => name))
  return completed.length === 0 || collectionHashes === undefined ? {} : { collectionHashes }
}

function isLong(snapshots: readonly ManifestSnapshot[]): boolean {
  const [first] = snapshots
  return first !== undefined && 'shardId' in first && snapshots.length > MAX_SHARDS
}

function listed(snapshot: ManifestSnapshot): NonNullable<BackedUpCollection['snapshots']>[number] {
  const { nodeIndex: node, key } = snapshot
  if ('snapshotName' in snapshot) return { node, snapshotName: snapshot.snapshotName, key }
  const snapshotName = key.slice(key.lastIndexOf('/') + 1)
  return { node, shard: snapshot.shardId, snapshotName, key }
}
