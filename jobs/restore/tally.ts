/**
 * What of a restore is done, and how it is told: in the annotation as much as it has room for, failures
 * first. The annotation is also what a pod that comes after a killed one goes on from.
 */
import type { ManifestSnapshot, ShardSnapshot } from '../../crds/manifest.ts'
import type { RestoredCollection, RestoreResult } from '../../crds/restore-command.ts'
import { humanSize } from '../../crds/size.ts'
import { Teller, withRoom } from '../telling.ts'
import type { Tools } from '../tools.ts'
import { bytesOf, type Wanted } from './work.ts'

/** What a person must see first stands first. */
const ORDER = ['Failed', 'Restoring', 'Completed', 'Pending'] as const
const MAX_ERROR = 512
const MAX_NOTES = 10
const MAX_NOTE = 256
/** Ids of shards there is room for; those beyond are taken once more after a kill. */
const MAX_SHARDS = 2000

type TallyTools = Pick<Tools, 'time' | 'log' | 'reporter'>
type Current = NonNullable<RestoreResult['current']>

interface Entry {
  told: RestoredCollection
  /** Bytes of its snapshots. */
  bytes: number
}

/** Where an earlier attempt was in a collection. */
export interface Left {
  nodesDone: number
  /** Ids of the shards that are back, of a backup by shard. */
  shardsDone: number[]
  isOurs: boolean
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
  #firstError: string | undefined
  /** Bytes of what is back in the present collection, and of what is sent at this moment, by key. */
  #backBytes = 0
  readonly #flowing = new Map<string, number>()
  /** When this attempt began to move bytes, and how many it has moved. */
  #since = 0
  #moved = 0

  /** `earlier` is what an attempt that was killed has told. */
  constructor(tools: TallyTools, earlier: RestoreResult | undefined) {
    this.#tools = tools
    this.#earlier = earlier
    this.#startedAt = earlier?.startedAt ?? tools.time.now().toISOString()
    this.#notes = [...(earlier?.notes ?? [])]
    this.#firstError = earlier?.error
  }

  /** The manifest has been read and fits. */
  chosen(wanted: Wanted[], nodes: number): void {
    this.#phase = 'Restoring'
    this.#since = this.#now()
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
    const { current } = this.#earlier ?? {}
    if (current?.collection !== name) return { nodesDone: 0, shardsDone: [], isOurs: false }
    const { nodesDone, shardsDone = [], isOurs } = current
    return { nodesDone, shardsDone, isOurs }
  }

  begin({ name, method, source }: Wanted, nodes: number, left: Left): void {
    const entry = this.#entries.get(name)
    if (entry !== undefined) entry.told = { ...entry.told, status: 'Restoring' }
    const number = [...this.#entries.keys()].indexOf(name) + 1
    const { nodesDone, shardsDone, isOurs } = left
    const byShard = method === 'Shard' && { shards: source.shards.length, shardsDone }
    const place = { collection: name, number, nodesDone, nodes, ...byShard }
    this.#current = { ...place, isOurs, step: 'begins' }
    const isBack = (one: ManifestSnapshot) =>
      'shardId' in one ? shardsDone.includes(one.shardId) : one.nodeIndex < nodesDone
    const all: ManifestSnapshot[] = source.snapshots
    this.#backBytes = all.filter(isBack).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  }

  /** The collection is about to be made: whoever comes after a kill may delete it. */
  async begun(): Promise<void> {
    if (this.#current !== undefined) this.#current.isOurs = true
    await this.#noted()
  }

  step(step: string): void {
    if (this.#current !== undefined) this.#current.step = step
    this.#tools.log.info({ collection: this.#current?.collection }, this.line())
    this.tell()
  }

  /** A snapshot passes through us to a node, from its first byte on. */
  starts(key: string): void {
    this.#flowing.set(key, 0)
  }

  /** More of its bytes. */
  readonly flows = (key: string, bytes: number): void => {
    this.#teller.check()
    this.#flowing.set(key, (this.#flowing.get(key) ?? 0) + bytes)
    this.tell()
  }

  /** A node has its snapshot: whoever comes after a kill goes on with the next one. */
  async nodeDone(snapshot: ManifestSnapshot): Promise<void> {
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

  async #isBack({ key, sizeBytes }: ManifestSnapshot): Promise<void> {
    this.#backBytes += sizeBytes
    this.#moved += sizeBytes
    this.#flowing.delete(key)
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

  /** What a person should know although nothing failed. */
  note(text: string): void {
    this.#tools.log.warn({ collection: this.#current?.collection }, text)
    if (this.#notes.length < MAX_NOTES) this.#notes.push(text.slice(0, MAX_NOTE))
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
  }

  result(): RestoreResult {
    const all = [...this.#entries.values()].map(({ told }) => told)
    const listed = withRoom(all, ORDER)
    const count = (status: RestoredCollection['status'], of: RestoredCollection[]) =>
      of.filter((collection) => collection.status === status).length
    const rest = all.filter((collection) => !listed.has(collection))
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
      unlisted: {
        completed: count('Completed', rest),
        failed: count('Failed', rest),
        pending: count('Pending', rest) + count('Restoring', rest),
      },
      ...(this.#current !== undefined && { current: bounded(this.#current) }),
      ...(this.#notes.length > 0 && { notes: [...this.#notes] }),
    }
  }

  async #noted(): Promise<void> {
    await this.#teller.told()
    await this.#tools.reporter.noted(this.line(), { restore: this.result() })
  }

  /** What an earlier attempt told of these collections stands. */
  #recall(nodes: number): void {
    const { collections = [], unlisted, current } = this.#earlier ?? {}
    for (const told of collections) {
      const entry = this.#entries.get(told.name)
      const isOver = told.status === 'Completed' || told.status === 'Failed'
      if (entry !== undefined && isOver) entry.told = told
    }
    // They are done in their order: what had no room in the list and stands before the present one.
    if (current?.nodes !== nodes || (unlisted?.failed ?? 0) > 0) return
    for (const [name, entry] of this.#entries) {
      if (name === current.collection) return
      if (entry.told.status === 'Pending') entry.told = { ...entry.told, status: 'Completed' }
    }
  }

  #leave(): void {
    this.#current = undefined
    this.#backBytes = 0
    this.#flowing.clear()
  }

  #done(): number {
    const over = [...this.#entries.values()].filter(({ told }) => told.status === 'Completed')
    const flowing = [...this.#flowing.values()].reduce((sum, bytes) => sum + bytes, 0)
    return over.reduce((sum, { bytes }) => sum + bytes, this.#backBytes + flowing)
  }

  #total(): number {
    return [...this.#entries.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  #measure(): void {
    if (this.#current === undefined) return
    const seconds = Math.max(1, this.#now() - this.#since) / 1000
    const pace = this.#moved / seconds
    this.#current.bytesPerSecond = Math.round(pace)
    this.#current.secondsLeft = Math.ceil((this.#total() - this.#done()) / Math.max(1, pace))
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}

function doneOf({ nodesDone, nodes, shardsDone, shards }: Current): string {
  if (shards === undefined) return `${nodesDone} of ${nodes} nodes done`
  return `${shardsDone?.length ?? 0} of ${shards} shards done`
}

function bounded({ shardsDone, ...current }: Current): Current {
  return {
    ...current,
    ...(shardsDone !== undefined && { shardsDone: shardsDone.slice(0, MAX_SHARDS) }),
  }
}
