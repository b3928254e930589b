/**
 * What of a restore is done, and how it is told: in the annotation as much as it has room for, failures
 * first. The annotation is also what a pod that comes after a killed one goes on from.
 */
import type { ShardSnapshot } from '../../crds/contract/manifest.ts'
import type { RestoredCollection, RestoreResult } from '../../crds/contract/restore-job.ts'
import { formatBytes } from '../../crds/units.ts'
import type { Dependencies } from '../dependencies.ts'
import { BackgroundReporter, takeWithinBytes } from '../progress.ts'
import {
  checkpointFor,
  CollectionProgress,
  decodeStates,
  doneFields,
  encodeStates,
  formatDone,
  isSameRecovery,
  restoredBytes,
  stateOf,
  truncateShards,
  type Checkpoint,
  type CurrentCollection,
  type Recovery,
} from './checkpoint.ts'
import { snapshotBytes, type RestoreItem, type SourceSnapshot } from './restore-item.ts'

/** What a person must see first stands first. */
const REPORT_ORDER = ['Failed', 'Restoring', 'Completed', 'Pending'] as const
const MAX_ERROR = 512
const MAX_NOTES = 10
const MAX_NOTE = 256
const UNLISTED = 'failed in an earlier attempt: its log has the error'

type ProgressDependencies = Pick<Dependencies, 'time' | 'log' | 'reporter'>

interface Entry {
  reported: RestoredCollection
  /** Bytes of its snapshots. */
  bytes: number
}

export class Progress {
  readonly #tools: ProgressDependencies
  readonly #startedAt: string
  readonly #previous: RestoreResult | undefined
  readonly #entries = new Map<string, Entry>()
  readonly #background = new BackgroundReporter()
  readonly #notes: string[]
  #phase: RestoreResult['phase'] = 'Downloading'
  #current: CurrentCollection | undefined
  /** Where an earlier pod was, until this one begins a collection: a second kill must not forget it. */
  #carriedOver: CurrentCollection | undefined
  #firstError: string | undefined
  readonly #collectionProgress = new CollectionProgress()
  #saving: Promise<void> = Promise.resolve()

  /** `earlier` is what an attempt that was killed has told. */
  constructor(tools: ProgressDependencies, previous: RestoreResult | undefined) {
    this.#tools = tools
    this.#previous = previous
    this.#carriedOver = previous?.current
    this.#startedAt = previous?.startedAt ?? tools.time.now().toISOString()
    this.#notes = [...(previous?.notes ?? [])]
    this.#firstError = previous?.error
  }

  /** The manifest has been read and fits. */
  setItems(toRestore: RestoreItem[], nodes: number): void {
    this.#phase = 'Restoring'
    this.#collectionProgress.start(this.#now())
    for (const { source, name } of toRestore) {
      const originalName = source.name === name ? {} : { originalName: source.name }
      const reported: RestoredCollection = { name, ...originalName, status: 'Pending' }
      this.#entries.set(name, { reported, bytes: snapshotBytes(source) })
    }
    this.#applyPrevious(nodes)
  }

  /** How an earlier attempt ended this collection, or where it was in it. */
  checkpoint(name: string): 'Completed' | 'Failed' | Checkpoint {
    const status = this.#entries.get(name)?.reported.status
    if (status === 'Completed' || status === 'Failed') return status
    return checkpointFor(this.#previous?.current, name)
  }

  /** Of the collection that an earlier pod was in: by its name. */
  loweredFactors(): Map<string, number> {
    const { collection, factor } = this.#previous?.current ?? {}
    return collection === undefined || factor === undefined
      ? new Map<string, number>()
      : new Map([[collection, factor]])
  }

  startCollection(toRestore: RestoreItem, nodes: number, checkpoint: Checkpoint): void {
    const { name } = toRestore
    this.#carriedOver = undefined
    const entry = this.#entries.get(name)
    if (entry !== undefined) entry.reported = { ...entry.reported, status: 'Restoring' }
    const number = [...this.#entries.keys()].indexOf(name) + 1
    const position = { collection: name, number, nodes, ...doneFields(toRestore, checkpoint) }
    const { isOurs, factor, running } = checkpoint
    this.#current = {
      ...position,
      isOurs,
      ...(factor !== undefined && { factor }),
      step: 'begins',
      ...(running !== 'unknown' && { running }),
    }
    this.#collectionProgress.startCollection(restoredBytes(toRestore, checkpoint))
  }

  /** The collection is about to be made: whoever comes after a kill may delete it. */
  async recordCreation(): Promise<void> {
    if (this.#current !== undefined) this.#current.isOurs = true
    await this.#saveCheckpoint()
  }

  /** This restore has made the collection, and nothing of it is back. */
  isCreatedAndEmpty(): boolean {
    const { isOurs = false, nodesDone = 0, shardsDone = [] } = this.#current ?? {}
    return isOurs && nodesDone === 0 && shardsDone.length === 0
  }

  /** From now on the node may be at it, whatever becomes of us: a pod that comes after a kill must know. */
  async recoveryStarted(recovery: Recovery): Promise<void> {
    if (this.#current === undefined) return
    this.recoveryEnded(recovery)
    this.#current.running = [...(this.#current.running ?? []), recovery]
    await this.#saveCheckpoint()
  }

  /** The node has answered, or was seen to have ended it. */
  recoveryEnded(recovery: Recovery): void {
    if (this.#current === undefined) return
    const { running = [] } = this.#current
    this.#current.running = running.filter((other) => !isSameRecovery(other, recovery))
  }

  mayBeRunning(recovery: Recovery): boolean {
    return this.#current?.running?.some((other) => isSameRecovery(other, recovery)) ?? false
  }

  /** Its replication factor is about to be lowered: a pod that comes after a kill must put it back. */
  async recordLoweredFactor(factor: number): Promise<void> {
    if (this.#current !== undefined) this.#current.factor = factor
    await this.#saveCheckpoint()
  }

  step(step: string): void {
    if (this.#current !== undefined) this.#current.step = step
    this.#tools.log.info({ collection: this.#current?.collection }, this.statusLine())
    this.report()
  }

  /** A snapshot passes through us to a node, from its first byte on. */
  uploadStarted(key: string): void {
    this.#collectionProgress.startUpload(key)
  }

  /** More of its bytes. */
  readonly bytesSent = (key: string, bytes: number): void => {
    this.#background.throwIfFailed()
    this.#collectionProgress.addSent(key, bytes)
    this.report()
  }

  /** A node has its snapshot: whoever comes after a kill goes on with the next one. */
  async nodeDone(snapshot: SourceSnapshot): Promise<void> {
    if (this.#current !== undefined) this.#current.nodesDone += 1
    await this.#snapshotRestored(snapshot)
  }

  /** A shard is back: whoever comes after a kill leaves it. */
  async shardDone(snapshot: ShardSnapshot): Promise<void> {
    if (this.#current !== undefined) {
      this.#current.shardsDone = [...(this.#current.shardsDone ?? []), snapshot.shardId]
    }
    await this.#snapshotRestored(snapshot)
  }

  async #snapshotRestored({ key, sizeBytes }: SourceSnapshot): Promise<void> {
    this.#collectionProgress.snapshotRestored(key, sizeBytes)
    this.#measure()
    await this.#saveCheckpoint()
  }

  completed(name: string, points: number | undefined): void {
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    const pointFields = points === undefined ? {} : { points }
    entry.reported = { ...entry.reported, status: 'Completed', bytes: entry.bytes, ...pointFields }
    this.#endCollection()
  }

  failed(name: string, error: string): void {
    this.#firstError ??= error
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    entry.reported = { ...entry.reported, status: 'Failed', error: error.slice(0, MAX_ERROR) }
    this.#endCollection()
  }

  /** Everything was done, and yet something is missing in it. */
  incomplete(name: string, error: string, points: number | undefined): void {
    this.failed(name, error)
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    const pointFields = points === undefined ? {} : { points }
    entry.reported = { ...entry.reported, isInPlace: true, bytes: entry.bytes, ...pointFields }
  }

  /** Whether its points are back, so that its aliases may point to it. */
  isInPlace(name: string): boolean {
    const reported = this.#entries.get(name)?.reported
    return reported?.status === 'Completed' || reported?.isInPlace === true
  }

  /** What a person should know although nothing failed. */
  note(text: string): void {
    this.#tools.log.warn({ collection: this.#current?.collection }, text)
    const note = text.slice(0, MAX_NOTE)
    // A pod that goes on may come upon the same once more.
    if (this.#notes.length < MAX_NOTES && !this.#notes.includes(note)) this.#notes.push(note)
  }

  /** Reports in the background: the work need not wait for the API. */
  report(): void {
    this.#background.report(() =>
      this.#tools.reporter.progress(this.statusLine(), { restore: this.result() }),
    )
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  reported(): Promise<void> {
    return this.#background.flush()
  }

  statusLine(): string {
    const total = this.#entries.size
    if (this.#phase === 'Downloading') return 'reads the manifest'
    if (this.#current === undefined) return `${total} collections`
    const { collection, number, step, secondsLeft } = this.#current
    const amount = `${formatBytes(this.#bytesDone())} of ${formatBytes(this.#bytesTotal())}`
    const checkpoint = secondsLeft === undefined ? '' : `, ${secondsLeft} s left`
    const position = `collection ${number} of ${total} (${collection}), ${formatDone(this.#current)}`
    return `${position}: ${step}; ${amount}${checkpoint}`
  }

  /** How it ended, for the condition: `Restored n/m`. */
  summary(): string {
    const { completed, total } = this.result()
    return [`Restored ${completed}/${total}`, ...this.#notes].join('; ')
  }

  finish(): void {
    this.#current = undefined
    this.#carriedOver = undefined
  }

  result(): RestoreResult {
    // Nothing is known yet but what an earlier pod reported.
    if (this.#entries.size === 0 && this.#previous !== undefined) return this.#previous
    const all = [...this.#entries.values()].map(({ reported }) => reported)
    const listed = takeWithinBytes(all, REPORT_ORDER)
    const count = (status: RestoredCollection['status'], of: RestoredCollection[]) =>
      of.filter((collection) => collection.status === status).length
    const omitted = all.filter((collection) => !listed.has(collection))
    const current = this.#current ?? this.#carriedOver
    return {
      startedAt: this.#startedAt,
      phase: this.#phase,
      total: all.length,
      completed: count('Completed', all),
      failed: count('Failed', all),
      bytes: this.#bytesDone(),
      bytesTotal: this.#bytesTotal(),
      ...(this.#firstError !== undefined && { error: this.#firstError.slice(0, MAX_ERROR) }),
      collections: all.filter((collection) => listed.has(collection)),
      states: encodeStates(all.map(stateOf)),
      unlisted: {
        completed: count('Completed', omitted),
        failed: count('Failed', omitted),
        pending: count('Pending', omitted) + count('Restoring', omitted),
      },
      ...(current !== undefined && { current: truncateShards(current) }),
      ...(this.#notes.length > 0 && { notes: [...this.#notes] }),
    }
  }

  /** One after the other: an older report must not come to stand over a newer one. */
  #saveCheckpoint(): Promise<void> {
    const note = async () => {
      await this.#background.flush()
      await this.#tools.reporter.checkpoint(this.statusLine(), { restore: this.result() })
    }
    this.#saving = this.#saving.then(note, note)
    return this.#saving
  }

  /** What an earlier attempt told of these collections stands. */
  #applyPrevious(nodes: number): void {
    const { collections = [], unlisted, current, states } = this.#previous ?? {}
    for (const reported of collections) {
      const entry = this.#entries.get(reported.name)
      const isFinished = reported.status === 'Completed' || reported.status === 'Failed'
      if (entry !== undefined && isFinished) entry.reported = reported
    }
    if (states !== undefined && this.#applyPreviousStates(states)) return
    // They are done in their order: what had no room in the list and stands before the present one.
    if (current?.nodes !== nodes || (unlisted?.failed ?? 0) > 0) return
    for (const [name, entry] of this.#entries) {
      if (name === current.collection) return
      if (entry.reported.status === 'Pending')
        entry.reported = { ...entry.reported, status: 'Completed' }
    }
  }

  /** Of those that had no room in the list, only how they ended is known. */
  #applyPreviousStates(text: string): boolean {
    const states = decodeStates(text, this.#entries.size)
    if (states === undefined) return false
    for (const [index, entry] of [...this.#entries.values()].entries()) {
      const state = states[index] ?? 'pending'
      if (entry.reported.status !== 'Pending' || state === 'pending') continue
      const status = state === 'completed' ? 'Completed' : 'Failed'
      entry.reported = {
        ...entry.reported,
        status,
        ...(status === 'Failed' && { error: UNLISTED }),
      }
      if (state !== 'failed') entry.reported.bytes = entry.bytes
      if (state === 'back') entry.reported.isInPlace = true
    }
    return true
  }

  #endCollection(): void {
    this.#current = undefined
    this.#collectionProgress.startCollection(0)
  }

  #bytesDone(): number {
    const finished = [...this.#entries.values()].filter(
      ({ reported }) => reported.status === 'Completed',
    )
    return finished.reduce((sum, { bytes }) => sum + bytes, this.#collectionProgress.bytes)
  }

  #bytesTotal(): number {
    return [...this.#entries.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  #measure(): void {
    if (this.#current === undefined) return
    const bytesPerSecond = this.#collectionProgress.bytesPerSecond(this.#now())
    this.#current.bytesPerSecond = Math.round(bytesPerSecond)
    this.#current.secondsLeft = Math.ceil(
      (this.#bytesTotal() - this.#bytesDone()) / Math.max(1, bytesPerSecond),
    )
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}
