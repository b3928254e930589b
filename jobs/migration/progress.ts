/**
 * Tracks and reports the progress of a migration. The annotation lists failures first and as many
 * collections as fit, and has the checkpoint from which the pod that replaces a killed one
 * continues. The log gets a line every few seconds.
 */
import { createHash } from 'node:crypto'
import { PROGRESS_EVERY_BATCHES } from '../../crds/contract/limits.ts'
import type {
  MigratedCollection,
  MigrationCheckpoint,
  MigrationResult,
} from '../../crds/contract/migration-job.ts'
import { UUID_DIGITS } from '../collection-uuid.ts'
import type { Dependencies } from '../dependencies.ts'
import { countStates, JobProgress, MAX_LIST_BYTES } from '../progress.ts'

/** What a user must see first comes first. */
const STATUS_ORDER = ['Failed', 'Running', 'Completed', 'Pending'] as const
const LOG_INTERVAL_MS = 5_000

const UNKNOWN_UUID = '-'.repeat(UUID_DIGITS)

type ProgressTools = Pick<Dependencies, 'time' | 'log' | 'reporter'>

export class Progress {
  readonly #tools: ProgressTools
  readonly #startedAt: string
  readonly #progress: JobProgress<MigratedCollection>
  #position: MigrationCheckpoint | undefined
  /** First digits of the uuid of each target collection that is completed, by the name at the source. */
  readonly #targetUuids: Map<string, string>
  /**
   * What this process has written; the next fields record since when, and what was last reported.
   */
  readonly #written = { points: 0, bytes: 0, batches: 0 }
  #reportedBatches = 0
  readonly #runStartedMs: number
  #loggedMs = 0
  #unreachedSource: string | undefined
  /** What was read to compare the current collection; set once its points are copied. */
  #comparison: { points: number; bytes: number; since: number } | undefined

  /** `position` is the checkpoint of an earlier pod. */
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
    this.#progress = new JobProgress({
      reporter: tools.reporter,
      statusOrder: STATUS_ORDER,
      toReport: () => ({ message: this.statusLine(), fields: { migration: this.toResult() } }),
    })
    this.#targetUuids = decodeUuids(tools.reporter.previous?.migration)
    this.add(collections)
    const { error: firstError } = tools.reporter.previous?.migration ?? {}
    if (firstError !== undefined) this.#progress.recordError(firstError)
    for (const { error } of collections) if (error !== undefined) this.#progress.recordError(error)
  }

  /** Checkpoint of the current collection. */
  get position(): MigrationCheckpoint | undefined {
    return this.#position
  }

  /** Makes this collection the current one, at this checkpoint. */
  setPosition(position: MigrationCheckpoint): void {
    this.#position = position
    this.#comparison = undefined
    this.#progress.update(position.collection, { status: 'Running', pointsCopied: position.copied })
  }

  /** Counts a batch that is written. */
  addWritten(written: { points: number; bytes: number }): void {
    this.#written.points += written.points
    this.#written.bytes += written.bytes
    this.#written.batches += 1
  }

  /**
   * Everything up to this checkpoint is written; throws if a report said that this pod must stop.
   */
  advance(position: MigrationCheckpoint): void {
    this.#progress.throwIfFailed()
    this.setPosition(position)
    if (this.#written.batches - this.#reportedBatches >= PROGRESS_EVERY_BATCHES) this.report()
    if (this.#now() - this.#loggedMs < LOG_INTERVAL_MS) return
    this.#loggedMs = this.#now()
    this.#tools.log.info({ ...position, ...this.#throughput() }, this.statusLine())
  }

  /** All points of a collection are written; `points` is their number. */
  setCopied(name: string, points: number): void {
    this.#progress.update(name, { pointsCopied: points })
    this.report()
  }

  /** Adds collections that were found after the start. */
  add(collections: readonly MigratedCollection[]): void {
    for (const collection of collections)
      this.#progress.collections.set(collection.name, collection)
  }

  has(name: string): boolean {
    return this.#progress.collections.has(name)
  }

  names(): string[] {
    return [...this.#progress.collections.keys()]
  }

  /**
   * Whether the target of a completed collection has this uuid; true if its own is unknown: the engine reported none, or
   * the report of an earlier pod did not list the collection.
   */
  isTarget(name: string, uuid: string): boolean {
    return uuid.startsWith(this.#targetUuids.get(name) ?? '')
  }

  completedCollections(): MigratedCollection[] {
    return [...this.#progress.collections.values()].filter(({ status }) => status === 'Completed')
  }

  /**
   * Records how much of a collection was read on both sides; throws if a report said that this pod
   * must stop.
   */
  setCompared({ points, bytes }: { points: number; bytes: number }): void {
    this.#progress.throwIfFailed()
    this.#comparison = { since: this.#comparison?.since ?? this.#now(), points, bytes }
    if (this.#now() - this.#loggedMs < LOG_INTERVAL_MS) return
    this.#loggedMs = this.#now()
    this.#tools.log.info({ points, bytes }, this.statusLine())
    this.report()
  }

  /** Reports why nothing is copied or compared for the moment. */
  reportWaiting(message: string): void {
    this.#progress.report(() => ({ message, fields: { migration: this.toResult() } }))
  }

  completed(name: string, proof: string): void {
    const { collection, targetUuid } = this.#position ?? {}
    if (collection === name && targetUuid !== undefined)
      this.#targetUuids.set(name, targetUuid.slice(0, UUID_DIGITS))
    this.#clearPosition()
    this.#progress.update(name, { status: 'Completed', proof })
  }

  failed(name: string, error: string): void {
    this.#clearPosition()
    this.#progress.update(name, { status: 'Failed', error: this.#progress.recordError(error) })
  }

  /** Sets the source that must list its collections before anything else can be reported. */
  setUnreachedSource(source: string | undefined): void {
    this.#unreachedSource = source
  }

  /** Reports why the source has not responded. The progress reported by an earlier pod remains. */
  reportUnreachable(reason: string): void {
    if (this.#unreachedSource === undefined) return
    const message = `waiting for the source ${this.#unreachedSource}: ${reason}`
    this.#progress.report(() => ({ message }))
  }

  /** Reports in the background; the reporter limits the rate. */
  report(): void {
    this.#reportedBatches = this.#written.batches
    this.#progress.report()
  }

  /** Waits for the report in progress; throws if it said that this pod must stop. */
  flush(): Promise<void> {
    return this.#progress.flush()
  }

  check(): void {
    this.#progress.throwIfFailed()
  }

  /** Reports and waits for the result: the next step depends on it. */
  checkpoint(): Promise<void> {
    return this.#progress.checkpoint()
  }

  statusLine(): string {
    const all = [...this.#progress.collections.values()]
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

  /** The result, for the condition. */
  summary(): string {
    const { completed, total } = this.#progress.counts()
    return `Copied ${completed}/${total}`
  }

  toResult(): MigrationResult {
    const all = [...this.#progress.collections.values()]
    const { collections, omitted } = this.#listed()
    const finished = fingerprintsOf(omitted, 'Completed')
    const failedFingerprints = fingerprintsOf(omitted, 'Failed')
    const uuids = encodeUuids(collections, this.#targetUuids)
    return {
      startedAt: this.#startedAt,
      ...this.#progress.counts(),
      pointsTotal: sum(all, 'pointsTotal'),
      pointsCopied: sum(all, 'pointsCopied'),
      ...this.#progress.errorField(),
      collections,
      unlisted: countStates(omitted),
      ...(finished !== '' && { finished }),
      ...(failedFingerprints !== '' && { failedFingerprints }),
      ...(uuids !== undefined && { uuids }),
      ...(this.#position !== undefined && { position: this.#position }),
    }
  }

  /** Leaves space for the fingerprints of the completed and failed collections that do not fit. */
  #listed() {
    const listed = this.#progress.listed()
    if (listed.omitted.length === 0) return listed
    const { completed, failed } = this.#progress.counts()
    return this.#progress.listed(MAX_LIST_BYTES - FINGERPRINT_BYTES * (completed + failed))
  }

  #clearPosition(): void {
    this.#position = undefined
    this.#comparison = undefined
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

function sum(all: readonly MigratedCollection[], field: 'pointsTotal' | 'pointsCopied'): number {
  return all.reduce((total, collection) => total + (collection[field] ?? 0), 0)
}

/** Two of 5,000 names share these six bytes in one of twenty million migrations. */
const HASH_BYTES = 6
const FINGERPRINT_LENGTH = 8

/** Size of a fingerprint in a report. */
export const FINGERPRINT_BYTES = FINGERPRINT_LENGTH

/** Concatenates the fingerprints of names. */
export function fingerprints(names: readonly string[]): string {
  return names.map(fingerprint).join('')
}

function fingerprintsOf(
  collections: readonly MigratedCollection[],
  status: MigratedCollection['status'],
): string {
  return fingerprints(
    collections.filter((collection) => collection.status === status).map(({ name }) => name),
  )
}

/** Whether the fingerprint of a name is in `finished`. */
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

/** Undefined if none is known. */
function encodeUuids(
  collections: readonly MigratedCollection[],
  uuids: ReadonlyMap<string, string>,
): string | undefined {
  const all = collections.map(({ name }) => uuids.get(name) ?? UNKNOWN_UUID)
  return all.every((digits) => digits === UNKNOWN_UUID) ? undefined : all.join('')
}

function decodeUuids({ collections = [], uuids = '' }: Partial<MigrationResult> = {}): Map<
  string,
  string
> {
  return new Map(
    collections.flatMap(({ name }, index): [string, string][] => {
      const digits = uuids.slice(index * UUID_DIGITS, (index + 1) * UUID_DIGITS)
      return digits === '' || digits === UNKNOWN_UUID ? [] : [[name, digits]]
    }),
  )
}
