/**
 * What of a migration is done, and how it is told: in the annotation as much as it has room for,
 * failures first, and where a pod that comes after a killed one goes on; in the log a line every few
 * seconds.
 */
import { createHash } from 'node:crypto'
import { PROGRESS_EVERY_BATCHES } from '../../crds/contract/limits.ts'
import type {
  MigratedCollection,
  MigrationCheckpoint,
  MigrationResult,
} from '../../crds/contract/migration-job.ts'
import type { Dependencies } from '../dependencies.ts'
import { BackgroundReporter, MAX_LIST_BYTES, takeWithinBytes } from '../progress.ts'

const MAX_ERROR_LENGTH = 512
const LOG_INTERVAL_MS = 5_000

type ProgressTools = Pick<Dependencies, 'time' | 'log' | 'reporter'>
type State = MigratedCollection['status']

export class Progress {
  readonly #tools: ProgressTools
  readonly #startedAt: string
  readonly #collections: Map<string, MigratedCollection>
  readonly #background = new BackgroundReporter()
  #position: MigrationCheckpoint | undefined
  #firstError: string | undefined
  /** What this process has written, since when, and when it was last told. */
  readonly #written = { points: 0, bytes: 0, batches: 0 }
  #reportedBatches = 0
  readonly #runStartedMs: number
  #loggedMs = 0
  #unreachedSource: string | undefined
  /** What was read for the comparison of the collection at work, once its points are copied. */
  #comparison: { points: number; bytes: number; since: number } | undefined

  /** `position` is where a pod before this one was. */
  constructor(
    tools: ProgressTools,
    startedAt: string,
    collections: MigratedCollection[] = [],
    position?: MigrationCheckpoint,
  ) {
    this.#tools = tools
    this.#position = position
    this.#startedAt = startedAt
    this.#runStartedMs = this.#now()
    this.#collections = new Map(collections.map((collection) => [collection.name, collection]))
    this.#firstError = collections.find(({ error }) => error !== undefined)?.error
  }

  /** Of the collection at work. */
  get position(): MigrationCheckpoint | undefined {
    return this.#position
  }

  /** The collection is at work, from this position on. */
  setPosition(position: MigrationCheckpoint): void {
    this.#position = position
    this.#comparison = undefined
    this.#update(position.collection, { status: 'Running', pointsCopied: position.copied })
  }

  /** A batch is written. */
  addWritten(written: { points: number; bytes: number }): void {
    this.#written.points += written.points
    this.#written.bytes += written.bytes
    this.#written.batches += 1
  }

  /** All is written up to here; throws when a report said that this pod must stop. */
  advance(position: MigrationCheckpoint): void {
    this.#background.throwIfFailed()
    this.setPosition(position)
    if (this.#written.batches - this.#reportedBatches >= PROGRESS_EVERY_BATCHES) this.report()
    if (this.#now() - this.#loggedMs < LOG_INTERVAL_MS) return
    this.#loggedMs = this.#now()
    this.#tools.log.info({ ...position, ...this.#throughput() }, this.statusLine())
  }

  /** All points of a collection are written: so many. */
  setCopied(name: string, points: number): void {
    this.#update(name, { pointsCopied: points })
    this.report()
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
  setCompared({ points, bytes }: { points: number; bytes: number }): void {
    this.#background.throwIfFailed()
    this.#comparison = { since: this.#comparison?.since ?? this.#now(), points, bytes }
    if (this.#now() - this.#loggedMs < LOG_INTERVAL_MS) return
    this.#loggedMs = this.#now()
    this.#tools.log.info({ points, bytes }, this.statusLine())
    this.report()
  }

  /** Why nothing is copied or compared for a while. */
  reportWaiting(message: string): void {
    this.#background.report(() =>
      this.#tools.reporter.progress(message, { migration: this.toResult() }),
    )
  }

  completed(name: string, proof: string): void {
    this.#clearPosition()
    this.#update(name, { status: 'Completed', proof })
  }

  failed(name: string, error: string): void {
    this.#clearPosition()
    this.#firstError ??= error
    this.#update(name, { status: 'Failed', error: error.slice(0, MAX_ERROR_LENGTH) })
  }

  /** Nothing can be told before this one has said what there is to copy. */
  setUnreachedSource(source: string): void {
    this.#unreachedSource = source
  }

  /** Why it has not. What an earlier pod told of the work stands. */
  reportUnreachable(reason: string): void {
    if (this.#unreachedSource === undefined) return
    const message = `waits for the source ${this.#unreachedSource}: ${reason}`
    this.#background.report(() => this.#tools.reporter.progress(message))
  }

  /** Reports in the background, and not more often than the reporter lets it. */
  report(): void {
    this.#reportedBatches = this.#written.batches
    this.#background.report(() =>
      this.#tools.reporter.progress(this.statusLine(), { migration: this.toResult() }),
    )
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  flush(): Promise<void> {
    return this.#background.flush()
  }

  check(): void {
    this.#background.throwIfFailed()
  }

  /** Reports now: what follows rests on it. */
  async checkpoint(): Promise<void> {
    await this.flush()
    await this.#tools.reporter.checkpoint(this.statusLine(), { migration: this.toResult() })
  }

  statusLine(): string {
    const all = [...this.#collections.values()]
    const number = all.findIndex(({ name }) => name === this.#position?.collection)
    const current = all[number]
    if (current === undefined) return this.summary()
    const { pointsCopied = 0, pointsTotal = 0 } = current
    const label = `collection ${number + 1} of ${all.length} (${current.name})`
    const copyText = `${label}: ${pointsCopied} of ${pointsTotal} points`
    if (this.#comparison !== undefined) return `${label}: ${this.#comparisonText(pointsTotal)}`
    const { pointsPerSecond, megabytesPerSecond, secondsLeft } = this.#throughput()
    if (pointsPerSecond === 0) return copyText
    return `${copyText}, ${pointsPerSecond} points/s, ${megabytesPerSecond} MB/s, ${secondsLeft} s left`
  }

  #comparisonText(total: number): string {
    const { points, bytes, since } = this.#comparison ?? { points: 0, bytes: 0, since: this.#now() }
    const seconds = Math.max(1, this.#now() - since) / 1000
    const speed = `${Math.round(points / seconds)} points/s, ${Math.round(bytes / seconds / 1e5) / 10} MB/s`
    return `${points} of ${total} points compared with the target, ${speed}`
  }

  /** How it ended, for the condition. */
  summary(): string {
    const all = [...this.#collections.values()]
    return `Copied ${count('Completed', all)}/${all.length}`
  }

  toResult(): MigrationResult {
    const all = [...this.#collections.values()]
    const listed = selectListed(all)
    const unlisted = all.filter((collection) => !listed.has(collection))
    const finished = unlisted.filter((collection) => collection.status === 'Completed')
    const error = this.#firstError?.slice(0, MAX_ERROR_LENGTH)
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
        failed: count('Failed', unlisted),
        pending: count('Pending', unlisted) + count('Running', unlisted),
      },
      ...(finished.length > 0 && { finished: fingerprints(finished.map(({ name }) => name)) }),
      ...(this.#position !== undefined && { position: this.#position }),
    }
  }

  #clearPosition(): void {
    this.#position = undefined
    this.#comparison = undefined
  }

  #update(name: string, change: Partial<MigratedCollection>): void {
    const existing = this.#collections.get(name)
    if (existing !== undefined) this.#collections.set(name, { ...existing, ...change })
  }

  #throughput() {
    const seconds = Math.max(1, this.#now() - this.#runStartedMs) / 1000
    const { pointsTotal, pointsCopied } = this.toResult()
    const rate = this.#written.points / seconds
    return {
      pointsPerSecond: Math.round(rate),
      megabytesPerSecond: Math.round(this.#written.bytes / seconds / 1e5) / 10,
      secondsLeft: Math.ceil(Math.max(0, pointsTotal - pointsCopied) / Math.max(1, rate)),
    }
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}

/** Those that have room, beside the fingerprints of those that have not. */
function selectListed(all: readonly MigratedCollection[]): Set<MigratedCollection> {
  const statusOrder = ['Failed', 'Running', 'Completed', 'Pending'] as const
  const listed = takeWithinBytes(all, statusOrder)
  if (listed.size === all.length) return listed
  return takeWithinBytes(
    all,
    statusOrder,
    MAX_LIST_BYTES - FINGERPRINT_BYTES * count('Completed', all),
  )
}

function count(status: State, all: readonly MigratedCollection[]): number {
  return all.filter((collection) => collection.status === status).length
}

function sum(all: readonly MigratedCollection[], field: 'pointsTotal' | 'pointsCopied'): number {
  return all.reduce((total, collection) => total + (collection[field] ?? 0), 0)
}

/** Two of 5,000 names have the same six bytes once in twenty million migrations. */
const HASH_BYTES = 6
const FINGERPRINT_LENGTH = 8

/** What each takes in a report. */
export const FINGERPRINT_BYTES = FINGERPRINT_LENGTH

/** Of names, one after the other. */
export function fingerprints(names: readonly string[]): string {
  return names.map(fingerprint).join('')
}

/** Whether a name is among them. */
export function includesFingerprint(name: string, finished = ''): boolean {
  const expected = fingerprint(name)
  for (
    let index = finished.indexOf(expected);
    index !== -1;
    index = finished.indexOf(expected, index + 1)
  ) {
    if (index % FINGERPRINT_LENGTH === 0) return true
  }
  return false
}

function fingerprint(name: string): string {
  return createHash('sha256').update(name).digest().subarray(0, HASH_BYTES).toString('base64url')
}
