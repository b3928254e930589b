/**
 * Progress of a restore and its report: the annotation contains as much as its size limit allows,
 * failures first. The pod that replaces a killed one continues from the annotation.
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

/** What a user must see first comes first. */
const REPORT_ORDER = ['Failed', 'Restoring', 'Completed', 'Pending'] as const
const MAX_ERROR = 512
const MAX_NOTES = 10
const MAX_NOTE = 256
const UNLISTED = 'failed in an earlier attempt: its log has the error'

type ProgressDependencies = Pick<Dependencies, 'time' | 'log' | 'reporter'>

interface Entry {
  reported: RestoredCollection
  /** Total size of its snapshots. */
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
  /**
   * Checkpoint of an earlier pod, until this pod starts a collection: a second kill must not lose
   * it.
   */
  #carriedOver: CurrentCollection | undefined
  #firstError: string | undefined
  readonly #collectionProgress = new CollectionProgress()
  #saving: Promise<void> = Promise.resolve()

  /** `previous` is the last report of a killed attempt. */
  constructor(tools: ProgressDependencies, previous: RestoreResult | undefined) {
    this.#tools = tools
    this.#previous = previous
    this.#carriedOver = previous?.current
    this.#startedAt = previous?.startedAt ?? tools.time.now().toISOString()
    this.#notes = [...(previous?.notes ?? [])]
    this.#firstError = previous?.error
  }

  /** Call this after the manifest has been read and fits the target. */
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

  /** How an earlier attempt finished this collection, or how far it got. */
  checkpoint(name: string): 'Completed' | 'Failed' | Checkpoint {
    const status = this.#entries.get(name)?.reported.status
    if (status === 'Completed' || status === 'Failed') return status
    return checkpointFor(this.#previous?.current, name)
  }

  /**
   * Original factor of the collection that an earlier pod was restoring, by the name of the
   * collection.
   */
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

  /**
   * Records that the collection is about to be created: the pod that replaces a killed one may
   * delete it.
   */
  async recordCreation(): Promise<void> {
    if (this.#current !== undefined) this.#current.isOurs = true
    await this.#saveCheckpoint()
  }

  /** Whether this restore created the collection and nothing in it is restored. */
  isCreatedAndEmpty(): boolean {
    const { isOurs = false, nodesDone = 0, shardsDone = [] } = this.#current ?? {}
    return isOurs && nodesDone === 0 && shardsDone.length === 0
  }

  /**
   * Records that the node may be running this recovery from now on, even if this pod is killed: the
   * next pod must know.
   */
  async recoveryStarted(recovery: Recovery): Promise<void> {
    if (this.#current === undefined) return
    this.recoveryEnded(recovery)
    this.#current.running = [...(this.#current.running ?? []), recovery]
    await this.#saveCheckpoint()
  }

  /** The node has responded, or was observed to have ended the recovery. */
  recoveryEnded(recovery: Recovery): void {
    if (this.#current === undefined) return
    const { running = [] } = this.#current
    this.#current.running = running.filter((other) => !isSameRecovery(other, recovery))
  }

  mayBeRunning(recovery: Recovery): boolean {
    return this.#current?.running?.some((other) => isSameRecovery(other, recovery)) ?? false
  }

  /**
   * Records that the replication factor is about to be lowered: the pod that replaces a killed one
   * must restore it.
   */
  async recordLoweredFactor(factor: number): Promise<void> {
    if (this.#current !== undefined) this.#current.factor = factor
    await this.#saveCheckpoint()
  }

  step(step: string): void {
    if (this.#current !== undefined) this.#current.step = step
    this.#tools.log.info({ collection: this.#current?.collection }, this.statusLine())
    this.report()
  }

  /** Counts a snapshot that the Job uploads to a node, from its first byte. */
  uploadStarted(key: string): void {
    this.#collectionProgress.startUpload(key)
  }

  /** Adds bytes of an upload; throws if a report said that this pod must stop. */
  readonly bytesSent = (key: string, bytes: number): void => {
    this.#background.throwIfFailed()
    this.#collectionProgress.addSent(key, bytes)
    this.report()
  }

  /**
   * Records that a node has its snapshot: the pod that replaces a killed one continues with the
   * next node.
   */
  async nodeDone(snapshot: SourceSnapshot): Promise<void> {
    if (this.#current !== undefined) this.#current.nodesDone += 1
    await this.#snapshotRestored(snapshot)
  }

  /** Records that a shard is restored: the pod that replaces a killed one skips it. */
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

  /** Every step was done, but something is missing in the collection. */
  incomplete(name: string, error: string, points: number | undefined): void {
    this.failed(name, error)
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    const pointFields = points === undefined ? {} : { points }
    entry.reported = { ...entry.reported, isInPlace: true, bytes: entry.bytes, ...pointFields }
  }

  /** Whether the points are restored, so that aliases may point to the collection. */
  isInPlace(name: string): boolean {
    const reported = this.#entries.get(name)?.reported
    return reported?.status === 'Completed' || reported?.isInPlace === true
  }

  /** Records what a user should know although nothing failed. */
  note(text: string): void {
    this.#tools.log.warn({ collection: this.#current?.collection }, text)
    const note = text.slice(0, MAX_NOTE)
    // A pod that continues may find the same again.
    if (this.#notes.length < MAX_NOTES && !this.#notes.includes(note)) this.#notes.push(note)
  }

  /** Reports in the background: the work does not wait for the API. */
  report(): void {
    this.#background.report(() =>
      this.#tools.reporter.progress(this.statusLine(), { restore: this.result() }),
    )
  }

  /** Waits for the report in progress; throws if it said that this pod must stop. */
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

  /** Outcome for the condition: `Restored n/m`, then the notes. */
  summary(): string {
    const { completed, total } = this.result()
    return [`Restored ${completed}/${total}`, ...this.#notes].join('; ')
  }

  finish(): void {
    this.#current = undefined
    this.#carriedOver = undefined
  }

  result(): RestoreResult {
    // Nothing is known yet except the report of an earlier pod.
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

  /** Writes one checkpoint at a time: an older report must not overwrite a newer one. */
  #saveCheckpoint(): Promise<void> {
    const note = async () => {
      await this.#background.flush()
      await this.#tools.reporter.checkpoint(this.statusLine(), { restore: this.result() })
    }
    this.#saving = this.#saving.then(note, note)
    return this.#saving
  }

  /** Applies the results that an earlier attempt reported for these collections. */
  #applyPrevious(nodes: number): void {
    const { collections = [], unlisted, current, states } = this.#previous ?? {}
    for (const reported of collections) {
      const entry = this.#entries.get(reported.name)
      const isFinished = reported.status === 'Completed' || reported.status === 'Failed'
      if (entry !== undefined && isFinished) entry.reported = reported
    }
    if (states !== undefined && this.#applyPreviousStates(states)) return
    // Collections are restored in order. Without unlisted failures, an unlisted collection before
    // the current one is completed.
    if (current?.nodes !== nodes || (unlisted?.failed ?? 0) > 0) return
    for (const [name, entry] of this.#entries) {
      if (name === current.collection) return
      if (entry.reported.status === 'Pending')
        entry.reported = { ...entry.reported, status: 'Completed' }
    }
  }

  /** Of collections that did not fit into the list, only the final state is known. */
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
