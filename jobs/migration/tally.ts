/**
 * What of a migration is done, and how it is told: in the annotation as much as it has room for,
 * failures first, and where a pod that comes after a killed one goes on; in the log a line every few
 * seconds.
 */
import type {
  MigratedCollection,
  MigrationPosition,
  MigrationResult,
} from '../../crds/migration-command.ts'
import { PROGRESS_EVERY_BATCHES } from '../../crds/limits.ts'
import { MAX_LIST_BYTES, Teller, withRoom } from '../telling.ts'
import type { Tools } from '../tools.ts'
import { FINGERPRINT_BYTES, fingerprints } from './finished.ts'

const MAX_ERROR = 512
const LINE_EVERY_MS = 5_000

type TallyTools = Pick<Tools, 'time' | 'log' | 'reporter'>
type State = MigratedCollection['status']

export class Tally {
  readonly #tools: TallyTools
  readonly #startedAt: string
  readonly #collections: Map<string, MigratedCollection>
  readonly #teller = new Teller()
  #position: MigrationPosition | undefined
  #firstError: string | undefined
  /** What this process has written, since when, and when it was last told. */
  readonly #moved = { points: 0, bytes: 0, batches: 0 }
  #toldBatches = 0
  readonly #since: number
  #toldAt = 0
  #asked: string | undefined
  /** What was read for the comparison of the collection at work, once its points are copied. */
  #compared: { points: number; bytes: number; since: number } | undefined

  /** `position` is where a pod before this one was. */
  constructor(
    tools: TallyTools,
    startedAt: string,
    collections: MigratedCollection[] = [],
    position?: MigrationPosition,
  ) {
    this.#tools = tools
    this.#position = position
    this.#startedAt = startedAt
    this.#since = this.#now()
    this.#collections = new Map(collections.map((collection) => [collection.name, collection]))
    this.#firstError = collections.find(({ error }) => error !== undefined)?.error
  }

  /** Of the collection at work. */
  get position(): MigrationPosition | undefined {
    return this.#position
  }

  /** The collection is at work, from this position on. */
  begin(position: MigrationPosition): void {
    this.#position = position
    this.#compared = undefined
    this.#set(position.collection, { status: 'Running', pointsCopied: position.copied })
  }

  /** A batch is written. */
  wrote(batch: { points: number; bytes: number }): void {
    this.#moved.points += batch.points
    this.#moved.bytes += batch.bytes
    this.#moved.batches += 1
  }

  /** All is written up to here; throws when a report said that this pod must stop. */
  reached(position: MigrationPosition): void {
    this.#teller.check()
    this.begin(position)
    if (this.#moved.batches - this.#toldBatches >= PROGRESS_EVERY_BATCHES) this.tell()
    if (this.#now() - this.#toldAt < LINE_EVERY_MS) return
    this.#toldAt = this.#now()
    this.#tools.log.info({ ...position, ...this.#pace() }, this.line())
  }

  /** All points of a collection are written: so many. */
  copied(name: string, points: number): void {
    this.#set(name, { pointsCopied: points })
    this.tell()
  }

  /** Collections that were found after the start. */
  add(collections: readonly MigratedCollection[]): void {
    for (const collection of collections) this.#collections.set(collection.name, collection)
  }

  has(name: string): boolean {
    return this.#collections.has(name)
  }

  names(): string[] {
    return [...this.#collections.keys()]
  }

  /** So much of a collection was read on both sides; throws when a report said that this pod must stop. */
  compared({ points, bytes }: { points: number; bytes: number }): void {
    this.#teller.check()
    this.#compared = { since: this.#compared?.since ?? this.#now(), points, bytes }
    if (this.#now() - this.#toldAt < LINE_EVERY_MS) return
    this.#toldAt = this.#now()
    this.#tools.log.info({ points, bytes }, this.line())
    this.tell()
  }

  /** Why nothing is copied or compared for a while. */
  waiting(message: string): void {
    this.#teller.tell(() => this.#tools.reporter.progress(message, { migration: this.result() }))
  }

  completed(name: string, proof: string): void {
    this.#leave()
    this.#set(name, { status: 'Completed', proof })
  }

  failed(name: string, error: string): void {
    this.#leave()
    this.#firstError ??= error
    this.#set(name, { status: 'Failed', error: error.slice(0, MAX_ERROR) })
  }

  /** Nothing can be told before this one has said what there is to copy. */
  asks(source: string): void {
    this.#asked = source
  }

  /** Why it has not. What an earlier pod told of the work stands. */
  waits(reason: string): void {
    if (this.#asked === undefined) return
    const message = `waits for the source ${this.#asked}: ${reason}`
    this.#teller.tell(() => this.#tools.reporter.progress(message))
  }

  /** Reports in the background, and not more often than the reporter lets it. */
  tell(): void {
    this.#toldBatches = this.#moved.batches
    this.#teller.tell(() =>
      this.#tools.reporter.progress(this.line(), { migration: this.result() }),
    )
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  told(): Promise<void> {
    return this.#teller.told()
  }

  check(): void {
    this.#teller.check()
  }

  /** Reports now: what follows rests on it. */
  async noted(): Promise<void> {
    await this.told()
    await this.#tools.reporter.noted(this.line(), { migration: this.result() })
  }

  line(): string {
    const all = [...this.#collections.values()]
    const number = all.findIndex(({ name }) => name === this.#position?.collection)
    const at = all[number]
    if (at === undefined) return this.summary()
    const { pointsCopied = 0, pointsTotal = 0 } = at
    const named = `collection ${number + 1} of ${all.length} (${at.name})`
    const place = `${named}: ${pointsCopied} of ${pointsTotal} points`
    if (this.#compared !== undefined) return `${named}: ${this.#comparing(pointsTotal)}`
    const { pointsPerSecond, megabytesPerSecond, secondsLeft } = this.#pace()
    if (pointsPerSecond === 0) return place
    return `${place}, ${pointsPerSecond} points/s, ${megabytesPerSecond} MB/s, ${secondsLeft} s left`
  }

  #comparing(total: number): string {
    const { points, bytes, since } = this.#compared ?? { points: 0, bytes: 0, since: this.#now() }
    const seconds = Math.max(1, this.#now() - since) / 1000
    const speed = `${Math.round(points / seconds)} points/s, ${Math.round(bytes / seconds / 1e5) / 10} MB/s`
    return `${points} of ${total} points compared with the target, ${speed}`
  }

  /** How it ended, for the condition. */
  summary(): string {
    const all = [...this.#collections.values()]
    return `Copied ${count('Completed', all)}/${all.length}`
  }

  result(): MigrationResult {
    const all = [...this.#collections.values()]
    const listed = listedOf(all)
    const rest = all.filter((collection) => !listed.has(collection))
    const finished = rest.filter((collection) => collection.status === 'Completed')
    const error = this.#firstError?.slice(0, MAX_ERROR)
    return {
      startedAt: this.#startedAt,
      total: all.length,
      completed: count('Completed', all),
      failed: count('Failed', all),
      pointsTotal: sum(all, 'pointsTotal'),
      pointsCopied: sum(all, 'pointsCopied'),
      ...(error !== undefined && { error }),
      collections: all.filter((collection) => listed.has(collection)),
      unlisted: {
        completed: finished.length,
        failed: count('Failed', rest),
        pending: count('Pending', rest) + count('Running', rest),
      },
      ...(finished.length > 0 && { finished: fingerprints(finished.map(({ name }) => name)) }),
      ...(this.#position !== undefined && { position: this.#position }),
    }
  }

  #leave(): void {
    this.#position = undefined
    this.#compared = undefined
  }

  #set(name: string, change: Partial<MigratedCollection>): void {
    const known = this.#collections.get(name)
    if (known !== undefined) this.#collections.set(name, { ...known, ...change })
  }

  #pace() {
    const seconds = Math.max(1, this.#now() - this.#since) / 1000
    const { pointsTotal, pointsCopied } = this.result()
    const rate = this.#moved.points / seconds
    return {
      pointsPerSecond: Math.round(rate),
      megabytesPerSecond: Math.round(this.#moved.bytes / seconds / 1e5) / 10,
      secondsLeft: Math.ceil(Math.max(0, pointsTotal - pointsCopied) / Math.max(1, rate)),
    }
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}

/** Those that have room, beside the fingerprints of those that have not. */
function listedOf(all: readonly MigratedCollection[]): Set<MigratedCollection> {
  const order = ['Failed', 'Running', 'Completed', 'Pending'] as const
  const listed = withRoom(all, order)
  if (listed.size === all.length) return listed
  return withRoom(all, order, MAX_LIST_BYTES - FINGERPRINT_BYTES * count('Completed', all))
}

function count(status: State, all: readonly MigratedCollection[]): number {
  return all.filter((collection) => collection.status === status).length
}

function sum(all: readonly MigratedCollection[], field: 'pointsTotal' | 'pointsCopied'): number {
  return all.reduce((total, collection) => total + (collection[field] ?? 0), 0)
}
