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
import { Teller, withRoom } from '../telling.ts'
import type { Tools } from '../tools.ts'

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

  constructor(tools: TallyTools, startedAt: string, collections: MigratedCollection[] = []) {
    this.#tools = tools
    this.#startedAt = startedAt
    this.#since = this.#now()
    this.#collections = new Map(collections.map((collection) => [collection.name, collection]))
    this.#firstError = collections.find(({ error }) => error !== undefined)?.error
  }

  /** The collection is at work, from this position on. */
  begin(position: MigrationPosition): void {
    this.#position = position
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

  completed(name: string, proof: string): void {
    this.#position = undefined
    this.#set(name, { status: 'Completed', proof })
  }

  failed(name: string, error: string): void {
    this.#position = undefined
    this.#firstError ??= error
    this.#set(name, { status: 'Failed', error: error.slice(0, MAX_ERROR) })
  }

  /** Bytes of a point, on the average of what was written; undefined before the first. */
  pointBytes(): number | undefined {
    const { points, bytes } = this.#moved
    return points === 0 ? undefined : bytes / points
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
    const place = `collection ${number + 1} of ${all.length} (${at.name}): ${pointsCopied} of ${pointsTotal} points`
    const { pointsPerSecond, megabytesPerSecond, secondsLeft } = this.#pace()
    if (pointsPerSecond === 0) return place
    return `${place}, ${pointsPerSecond} points/s, ${megabytesPerSecond} MB/s, ${secondsLeft} s left`
  }

  /** How it ended, for the condition. */
  summary(): string {
    const all = [...this.#collections.values()]
    return `Copied ${count('Completed', all)}/${all.length}`
  }

  result(): MigrationResult {
    const all = [...this.#collections.values()]
    const listed = withRoom(all, ['Failed', 'Running', 'Completed', 'Pending'])
    const rest = all.filter((collection) => !listed.has(collection))
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
        completed: count('Completed', rest),
        failed: count('Failed', rest),
        pending: count('Pending', rest) + count('Running', rest),
      },
      ...(this.#position !== undefined && { position: this.#position }),
    }
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

function count(status: State, all: readonly MigratedCollection[]): number {
  return all.filter((collection) => collection.status === status).length
}

function sum(all: readonly MigratedCollection[], field: 'pointsTotal' | 'pointsCopied'): number {
  return all.reduce((total, collection) => total + (collection[field] ?? 0), 0)
}
