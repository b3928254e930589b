/**
 * What of a restore is done, and how it is told: in the annotation as much as it has room for, failures
 * first. The annotation is also what a pod that comes after a killed one goes on from.
 */
import type { ShardSnapshot } from '../../crds/manifest.ts'
import type { RestoredCollection, RestoreResult } from '../../crds/restore-command.ts'
import { humanSize } from '../../crds/size.ts'
import { Teller, withRoom } from '../telling.ts'
import type { Tools } from '../tools.ts'
import {
  bounded,
  bytesBack,
  doneIn,
  doneOf,
  isSame,
  leftIn,
  type Current,
  type Left,
  type Recovery,
} from './current.ts'
import { Flow } from './flow.ts'
import { decodeStates, encodeStates, stateOf } from './states.ts'
import { bytesOf, type SourceSnapshot, type Wanted } from './wanted.ts'

/** What a person must see first stands first. */
const ORDER = ['Failed', 'Restoring', 'Completed', 'Pending'] as const
const MAX_ERROR = 512
const MAX_NOTES = 10
const MAX_NOTE = 256
const UNLISTED = 'failed in an earlier attempt: its log has the error'

type TallyTools = Pick<Tools, 'time' | 'log' | 'reporter'>

interface Entry {
  told: RestoredCollection
  /** Bytes of its snapshots. */
  bytes: number
}

export class Tally {
  readonly #tools: TallyTools
  readonly #startedAt: string
  readonly #earlier: RestoreResult | undefined
  readonly #entries = new Map<string, Entry>()
  readonly #teller = new Teller()
  readonly #notes: string[]
  #phase: RestoreResult['phase'] = 'Downloading'
  #current: Current | undefined
  /** Where an earlier pod was, until this one begins a collection: a second kill must not forget it. */
  #carried: Current | undefined
  #firstError: string | undefined
  readonly #flow = new Flow()
  #noting: Promise<void> = Promise.resolve()

  /** `earlier` is what an attempt that was killed has told. */
  constructor(tools: TallyTools, earlier: RestoreResult | undefined) {
    this.#tools = tools
    this.#earlier = earlier
    this.#carried = earlier?.current
    this.#startedAt = earlier?.startedAt ?? tools.time.now().toISOString()
    this.#notes = [...(earlier?.notes ?? [])]
    this.#firstError = earlier?.error
  }

  /** The manifest has been read and fits. */
  chosen(wanted: Wanted[], nodes: number): void {
    this.#phase = 'Restoring'
    this.#flow.start(this.#now())
    for (const { source, name } of wanted) {
      const originalName = source.name === name ? {} : { originalName: source.name }
      const told: RestoredCollection = { name, ...originalName, status: 'Pending' }
      this.#entries.set(name, { told, bytes: bytesOf(source) })
    }
    this.#recall(nodes)
  }

  /** How an earlier attempt ended this collection, or where it was in it. */
  left(name: string): 'Completed' | 'Failed' | Left {
    const status = this.#entries.get(name)?.told.status
    if (status === 'Completed' || status === 'Failed') return status
    return leftIn(this.#earlier?.current, name)
  }

  /** Of the collection that an earlier pod was in: by its name. */
  loweredFactors(): Map<string, number> {
    const { collection, factor } = this.#earlier?.current ?? {}
    return collection === undefined || factor === undefined
      ? new Map<string, number>()
      : new Map([[collection, factor]])
  }

  begin(wanted: Wanted, nodes: number, left: Left): void {
    const { name } = wanted
    this.#carried = undefined
    const entry = this.#entries.get(name)
    if (entry !== undefined) entry.told = { ...entry.told, status: 'Restoring' }
    const number = [...this.#entries.keys()].indexOf(name) + 1
    const place = { collection: name, number, nodes, ...doneIn(wanted, left) }
    const { isOurs, factor, running } = left
    this.#current = {
      ...place,
      isOurs,
      ...(factor !== undefined && { factor }),
      step: 'begins',
      ...(running !== 'unknown' && { running }),
    }
    this.#flow.begin(bytesBack(wanted, left))
  }

  /** The collection is about to be made: whoever comes after a kill may delete it. */
  async begun(): Promise<void> {
    if (this.#current !== undefined) this.#current.isOurs = true
    await this.#noted()
  }

  /** This restore has made the collection, and nothing of it is back. */
  hasOnlyBegun(): boolean {
    const { isOurs = false, nodesDone = 0, shardsDone = [] } = this.#current ?? {}
    return isOurs && nodesDone === 0 && shardsDone.length === 0
  }

  /** From now on the node may be at it, whatever becomes of us: a pod that comes after a kill must know. */
  async recoveryBegins(recovery: Recovery): Promise<void> {
    if (this.#current === undefined) return
    this.recoveryIsOver(recovery)
    this.#current.running = [...(this.#current.running ?? []), recovery]
    await this.#noted()
  }

  /** The node has answered, or was seen to have ended it. */
  recoveryIsOver(recovery: Recovery): void {
    if (this.#current === undefined) return
    const { running = [] } = this.#current
    this.#current.running = running.filter((one) => !isSame(one, recovery))
  }

  mayBeRunning(recovery: Recovery): boolean {
    return this.#current?.running?.some((one) => isSame(one, recovery)) ?? false
  }

  /** Its replication factor is about to be lowered: a pod that comes after a kill must put it back. */
  async lowers(factor: number): Promise<void> {
    if (this.#current !== undefined) this.#current.factor = factor
    await this.#noted()
  }

  step(step: string): void {
    if (this.#current !== undefined) this.#current.step = step
    this.#tools.log.info({ collection: this.#current?.collection }, this.line())
    this.tell()
  }

  /** A snapshot passes through us to a node, from its first byte on. */
  starts(key: string): void {
    this.#flow.sends(key)
  }

  /** More of its bytes. */
  readonly flows = (key: string, bytes: number): void => {
    this.#teller.check()
    this.#flow.sent(key, bytes)
    this.tell()
  }

  /** A node has its snapshot: whoever comes after a kill goes on with the next one. */
  async nodeDone(snapshot: SourceSnapshot): Promise<void> {
    if (this.#current !== undefined) this.#current.nodesDone += 1
    await this.#isBack(snapshot)
  }

  /** A shard is back: whoever comes after a kill leaves it. */
  async shardDone(snapshot: ShardSnapshot): Promise<void> {
    if (this.#current !== undefined) {
      this.#current.shardsDone = [...(this.#current.shardsDone ?? []), snapshot.shardId]
    }
    await this.#isBack(snapshot)
  }

  async #isBack({ key, sizeBytes }: SourceSnapshot): Promise<void> {
    this.#flow.isBack(key, sizeBytes)
    this.#measure()
    await this.#noted()
  }

  completed(name: string, points: number | undefined): void {
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    const counted = points === undefined ? {} : { points }
    entry.told = { ...entry.told, status: 'Completed', bytes: entry.bytes, ...counted }
    this.#leave()
  }

  failed(name: string, error: string): void {
    this.#firstError ??= error
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    entry.told = { ...entry.told, status: 'Failed', error: error.slice(0, MAX_ERROR) }
    this.#leave()
  }

  /** Everything was done, and yet something is missing in it. */
  incomplete(name: string, error: string, points: number | undefined): void {
    this.failed(name, error)
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    const counted = points === undefined ? {} : { points }
    entry.told = { ...entry.told, isInPlace: true, bytes: entry.bytes, ...counted }
  }

  /** Whether its points are back, so that its aliases may point to it. */
  isInPlace(name: string): boolean {
    const told = this.#entries.get(name)?.told
    return told?.status === 'Completed' || told?.isInPlace === true
  }

  /** What a person should know although nothing failed. */
  note(text: string): void {
    this.#tools.log.warn({ collection: this.#current?.collection }, text)
    const note = text.slice(0, MAX_NOTE)
    // A pod that goes on may come upon the same once more.
    if (this.#notes.length < MAX_NOTES && !this.#notes.includes(note)) this.#notes.push(note)
  }

  /** Reports in the background: the work need not wait for the API. */
  tell(): void {
    this.#teller.tell(() => this.#tools.reporter.progress(this.line(), { restore: this.result() }))
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  told(): Promise<void> {
    return this.#teller.told()
  }

  line(): string {
    const total = this.#entries.size
    if (this.#phase === 'Downloading') return 'reads the manifest'
    if (this.#current === undefined) return `${total} collections`
    const { collection, number, step, secondsLeft } = this.#current
    const amount = `${humanSize(this.#done())} of ${humanSize(this.#total())}`
    const left = secondsLeft === undefined ? '' : `, ${secondsLeft} s left`
    const place = `collection ${number} of ${total} (${collection}), ${doneOf(this.#current)}`
    return `${place}: ${step}; ${amount}${left}`
  }

  /** How it ended, for the condition: `Restored n/m`. */
  summary(): string {
    const { completed, total } = this.result()
    return [`Restored ${completed}/${total}`, ...this.#notes].join('; ')
  }

  finish(): void {
    this.#current = undefined
    this.#carried = undefined
  }

  result(): RestoreResult {
    // Nothing is known yet but what an earlier pod reported.
    if (this.#entries.size === 0 && this.#earlier !== undefined) return this.#earlier
    const all = [...this.#entries.values()].map(({ told }) => told)
    const listed = withRoom(all, ORDER)
    const count = (status: RestoredCollection['status'], of: RestoredCollection[]) =>
      of.filter((collection) => collection.status === status).length
    const rest = all.filter((collection) => !listed.has(collection))
    const current = this.#current ?? this.#carried
    return {
      startedAt: this.#startedAt,
      phase: this.#phase,
      total: all.length,
      completed: count('Completed', all),
      failed: count('Failed', all),
      bytes: this.#done(),
      bytesTotal: this.#total(),
      ...(this.#firstError !== undefined && { error: this.#firstError.slice(0, MAX_ERROR) }),
      collections: all.filter((collection) => listed.has(collection)),
      states: encodeStates(all.map(stateOf)),
      unlisted: {
        completed: count('Completed', rest),
        failed: count('Failed', rest),
        pending: count('Pending', rest) + count('Restoring', rest),
      },
      ...(current !== undefined && { current: bounded(current) }),
      ...(this.#notes.length > 0 && { notes: [...this.#notes] }),
    }
  }

  /** One after the other: an older report must not come to stand over a newer one. */
  #noted(): Promise<void> {
    const note = async () => {
      await this.#teller.told()
      await this.#tools.reporter.noted(this.line(), { restore: this.result() })
    }
    this.#noting = this.#noting.then(note, note)
    return this.#noting
  }

  /** What an earlier attempt told of these collections stands. */
  #recall(nodes: number): void {
    const { collections = [], unlisted, current, states } = this.#earlier ?? {}
    for (const told of collections) {
      const entry = this.#entries.get(told.name)
      const isOver = told.status === 'Completed' || told.status === 'Failed'
      if (entry !== undefined && isOver) entry.told = told
    }
    if (states !== undefined && this.#recallStates(states)) return
    // They are done in their order: what had no room in the list and stands before the present one.
    if (current?.nodes !== nodes || (unlisted?.failed ?? 0) > 0) return
    for (const [name, entry] of this.#entries) {
      if (name === current.collection) return
      if (entry.told.status === 'Pending') entry.told = { ...entry.told, status: 'Completed' }
    }
  }

  /** Of those that had no room in the list, only how they ended is known. */
  #recallStates(text: string): boolean {
    const states = decodeStates(text, this.#entries.size)
    if (states === undefined) return false
    for (const [index, entry] of [...this.#entries.values()].entries()) {
      const state = states[index] ?? 'pending'
      if (entry.told.status !== 'Pending' || state === 'pending') continue
      const status = state === 'completed' ? 'Completed' : 'Failed'
      entry.told = { ...entry.told, status, ...(status === 'Failed' && { error: UNLISTED }) }
      if (state !== 'failed') entry.told.bytes = entry.bytes
      if (state === 'back') entry.told.isInPlace = true
    }
    return true
  }

  #leave(): void {
    this.#current = undefined
    this.#flow.begin(0)
  }

  #done(): number {
    const over = [...this.#entries.values()].filter(({ told }) => told.status === 'Completed')
    return over.reduce((sum, { bytes }) => sum + bytes, this.#flow.bytes)
  }

  #total(): number {
    return [...this.#entries.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  #measure(): void {
    if (this.#current === undefined) return
    const pace = this.#flow.pace(this.#now())
    this.#current.bytesPerSecond = Math.round(pace)
    this.#current.secondsLeft = Math.ceil((this.#total() - this.#done()) / Math.max(1, pace))
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}
