/**
 * Progress of a restore and its report: the annotation contains as much as its size limit allows,
 * failures first. The pod that replaces a killed one continues from the annotation.
 */
import type { ShardSnapshot } from '../../crds/contract/manifest.ts'
import type { RestoredCollection, RestoreResult } from '../../crds/contract/restore-job.ts'
import { formatBytes } from '../../crds/units.ts'
import { UUID_DIGITS } from '../collection-uuid.ts'
import type { Dependencies } from '../dependencies.ts'
import { countStates, JobProgress } from '../progress.ts'
import {
  checkpointFor,
  CollectionProgress,
  decodeAbsent,
  decodeStates,
  doneFields,
  encodeAbsent,
  encodeStates,
  formatDone,
  isSameRecovery,
  restoredBytes,
  stateOf,
  truncateShards,
  type Checkpoint,
  type CurrentCollection,
  type LoweredFactor,
  type Recovery,
} from './checkpoint.ts'
import { snapshotBytes, type RestoreItem, type SourceSnapshot } from '../manifest-check.ts'

/** What a user must see first comes first. */
const REPORT_ORDER = ['Failed', 'Restoring', 'Completed', 'Pending'] as const
const MAX_NOTES = 10
const MAX_NOTE = 256
const UNLISTED = 'failed in an earlier attempt: its log has the error'

type ProgressDependencies = Pick<Dependencies, 'time' | 'log' | 'reporter'>

export class Progress {
  readonly #tools: ProgressDependencies
  readonly #startedAt: string
  readonly #previous: RestoreResult | undefined
  readonly #progress: JobProgress<RestoredCollection>
  /** Total size of the snapshots of each collection. */
  readonly #snapshotBytes = new Map<string, number>()
  readonly #notes: string[]
  /** Collections that did not exist at the target when this or an earlier pod checked them. */
  readonly #absent = new Set<string>()
  #phase: RestoreResult['phase'] = 'Downloading'
  #current: CurrentCollection | undefined
  /**
   * Checkpoint of an earlier pod, until this pod starts a collection: a second kill must not lose
   * it.
   */
  #carriedOver: CurrentCollection | undefined
  readonly #collectionProgress = new CollectionProgress()

  /** `previous` is the last report of a killed attempt. */
  constructor(tools: ProgressDependencies, previous: RestoreResult | undefined) {
    this.#tools = tools
    this.#progress = new JobProgress({
      reporter: tools.reporter,
      statusOrder: REPORT_ORDER,
      toReport: () => ({ message: this.statusLine(), fields: { restore: this.result() } }),
    })
    this.#previous = previous
    this.#carriedOver = previous?.current
    this.#startedAt = previous?.startedAt ?? tools.time.now().toISOString()
    this.#notes = [...(previous?.notes ?? [])]
    if (previous?.error !== undefined) this.#progress.recordError(previous.error)
  }

  /** Call this after the manifest has been read and fits the target. */
  setItems(toRestore: RestoreItem[], nodes: number): void {
    this.#phase = 'Restoring'
    this.#collectionProgress.start(this.#now())
    for (const { source, name } of toRestore) {
      const originalName = source.name === name ? {} : { originalName: source.name }
      this.#progress.collections.set(name, { name, ...originalName, status: 'Pending' })
      this.#snapshotBytes.set(name, snapshotBytes(source))
    }
    this.#applyPrevious(nodes)
  }

  /** How an earlier attempt finished this collection, or how far it got. */
  checkpoint(name: string): 'Completed' | 'Failed' | Checkpoint {
    const status = this.#progress.collections.get(name)?.status
    if (status === 'Completed' || status === 'Failed') return status
    return checkpointFor(this.#previous?.current, name)
  }

  /**
   * Original factor of the collection that an earlier pod was restoring, by the name of the
   * collection.
   */
  loweredFactors(): Map<string, LoweredFactor> {
    const { collection, factor, uuid } = this.#previous?.current ?? {}
    return collection === undefined || factor === undefined
      ? new Map<string, LoweredFactor>()
      : new Map([[collection, { factor, ...(uuid !== undefined && { uuid }) }]])
  }

  recordAbsent(name: string): void {
    this.#absent.add(name)
  }

  wasAbsent(name: string): boolean {
    return this.#absent.has(name)
  }

  /** Records what was found, before anything is changed: a client may create what was absent. */
  checksDone(): Promise<void> {
    return this.#progress.checkpoint()
  }

  startCollection(toRestore: RestoreItem, nodes: number, checkpoint: Checkpoint): void {
    const { name } = toRestore
    this.#carriedOver = undefined
    this.#progress.update(name, { status: 'Restoring' })
    const number = this.#progress.numberOf(name)
    const position = { collection: name, number, nodes, ...doneFields(toRestore, checkpoint) }
    const { isOurs, factor, running, uuid } = checkpoint
    this.#current = {
      ...position,
      isOurs,
      ...(factor !== undefined && { factor }),
      ...(uuid !== undefined && { uuid }),
      step: 'begins',
      ...(running !== 'unknown' && { running }),
    }
    this.#collectionProgress.startCollection(restoredBytes(toRestore, checkpoint))
  }

  /**
   * Records that the collection is about to be created: the pod that replaces a killed one may
   * delete it. One that an earlier attempt created is gone by now, and its uuid names no collection.
   */
  async recordCreation(): Promise<void> {
    if (this.#current !== undefined) {
      this.#current.isOurs = true
      delete this.#current.uuid
    }
    await this.#progress.checkpoint()
  }

  /** Records that another client created the collection: no pod of this restore may delete it. */
  async recordNotCreated(): Promise<void> {
    if (this.#current !== undefined) this.#current.isOurs = false
    await this.#progress.checkpoint()
  }

  /** Records which collection of this name is being restored. */
  async recordUuid(uuid: string): Promise<void> {
    if (this.#current !== undefined) this.#current.uuid = uuid
    await this.#progress.checkpoint()
  }

  /** uuid of the collection that is being restored, if the engine reports it. */
  get uuid(): string | undefined {
    return this.#current?.uuid
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
    await this.#progress.checkpoint()
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
    await this.#progress.checkpoint()
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
    this.#progress.throwIfFailed()
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
    await this.#progress.checkpoint()
  }

  completed(name: string, points: number | undefined): void {
    if (!this.#progress.collections.has(name)) return
    this.#progress.update(name, { status: 'Completed', ...this.#restoredFields(name, points) })
    this.#endCollection()
  }

  failed(name: string, error: string): void {
    const text = this.#progress.recordError(error)
    if (!this.#progress.collections.has(name)) return
    this.#progress.update(name, { status: 'Failed', error: text })
    this.#endCollection()
  }

  /** Every step was done, but something is missing in the collection. */
  incomplete(name: string, error: string, points: number | undefined): void {
    const fields = this.#restoredFields(name, points)
    this.failed(name, error)
    this.#progress.update(name, { isInPlace: true, ...fields })
  }

  /** Its points were restored and are gone: no alias may point to the collection of that name. */
  lost(name: string, error: string): void {
    const { isInPlace: _, ...reported } = this.#progress.collections.get(name) ?? { name }
    this.#progress.collections.set(name, { status: 'Failed', ...reported })
    this.failed(name, error)
  }

  /**
   * Whether a collection that was restored has this uuid; true if its own is unknown: the engine reported none, or the
   * report of an earlier pod did not list the collection.
   */
  isRestored(name: string, uuid: string): boolean {
    const { uuid: start = '' } = this.#progress.collections.get(name) ?? {}
    return uuid.startsWith(start)
  }

  /** Before the collection ends. */
  #restoredFields(name: string, points: number | undefined) {
    const { uuid } = this
    return {
      bytes: this.#snapshotBytes.get(name) ?? 0,
      ...(points !== undefined && { points }),
      ...(uuid !== undefined && { uuid: uuid.slice(0, UUID_DIGITS) }),
    }
  }

  /** Whether the points are restored, so that aliases may point to the collection. */
  isInPlace(name: string): boolean {
    const reported = this.#progress.collections.get(name)
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
    this.#progress.report()
  }

  /** Waits for the report in progress; throws if it said that this pod must stop. */
  reported(): Promise<void> {
    return this.#progress.flush()
  }

  statusLine(): string {
    const total = this.#progress.collections.size
    if (this.#phase === 'Downloading') return 'reading the manifest'
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
    if (this.#progress.collections.size === 0 && this.#previous !== undefined) return this.#previous
    const { collections, omitted } = this.#progress.listed()
    const all = [...this.#progress.collections.values()]
    const current = this.#current ?? this.#carriedOver
    return {
      startedAt: this.#startedAt,
      phase: this.#phase,
      ...this.#progress.counts(),
      bytes: this.#bytesDone(),
      bytesTotal: this.#bytesTotal(),
      ...this.#progress.errorField(),
      collections,
      states: encodeStates(all.map(stateOf)),
      absent: encodeAbsent([...this.#progress.collections.keys()], this.#absent),
      unlisted: countStates(omitted),
      ...(current !== undefined && { current: truncateShards(current) }),
      ...(this.#notes.length > 0 && { notes: [...this.#notes] }),
    }
  }

  /** Applies the results that an earlier attempt reported for these collections. */
  #applyPrevious(nodes: number): void {
    const { collections = [], unlisted, current, states, absent = '' } = this.#previous ?? {}
    const names = [...this.#progress.collections.keys()]
    for (const name of decodeAbsent(absent, names)) this.#absent.add(name)
    for (const reported of collections) {
      const isFinished = reported.status === 'Completed' || reported.status === 'Failed'
      if (isFinished) this.#progress.update(reported.name, reported)
    }
    if (states !== undefined && this.#applyPreviousStates(states)) return
    // Collections are restored in order. Without unlisted failures, an unlisted collection before
    // the current one is completed.
    if (current?.nodes !== nodes || (unlisted?.failed ?? 0) > 0) return
    for (const { name, status } of [...this.#progress.collections.values()]) {
      if (name === current.collection) return
      if (status === 'Pending') this.#progress.update(name, { status: 'Completed' })
    }
  }

  /** Of collections that did not fit into the list, only the final state is known. */
  #applyPreviousStates(text: string): boolean {
    const states = decodeStates(text, this.#progress.collections.size)
    if (states === undefined) return false
    for (const [index, { name, status }] of [...this.#progress.collections.values()].entries()) {
      const state = states[index] ?? 'pending'
      if (status !== 'Pending' || state === 'pending') continue
      this.#progress.update(name, {
        ...(state === 'completed'
          ? { status: 'Completed' }
          : { status: 'Failed', error: UNLISTED }),
        ...(state !== 'failed' && { bytes: this.#snapshotBytes.get(name) ?? 0 }),
        ...(state === 'back' && { isInPlace: true }),
      })
    }
    return true
  }

  #endCollection(): void {
    this.#current = undefined
    this.#collectionProgress.startCollection(0)
  }

  #bytesDone(): number {
    let bytes = this.#collectionProgress.bytes
    for (const { name, status } of this.#progress.collections.values()) {
      if (status === 'Completed') bytes += this.#snapshotBytes.get(name) ?? 0
    }
    return bytes
  }

  #bytesTotal(): number {
    return [...this.#snapshotBytes.values()].reduce((sum, bytes) => sum + bytes, 0)
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
    return this.#tools.time.monotonicMs()
  }
}
