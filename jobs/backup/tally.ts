/**
 * What of a backup is done, and how it is told: in the annotation as much as it has room for, failures
 * first; in the log a line every few seconds, or a bar where a terminal watches.
 */
import type { BackedUpCollection, BackupResult } from '../../crds/command.ts'
import type { ManifestCollection } from '../../crds/manifest.ts'
import { humanSize } from '../../crds/size.ts'
import { Teller, withRoom } from '../telling.ts'
import type { Tools } from '../tools.ts'
import { estimatedBytes } from './estimate.ts'

/** What a person must see first stands first. */
const ORDER = ['Failed', 'InProgress', 'Completed', 'Pending'] as const
const MAX_ERROR = 512
const LINE_EVERY_MS = 5_000

type TallyTools = Pick<Tools, 'time' | 'log' | 'reporter' | 'bar'>
type Current = NonNullable<BackupResult['current']>

export class Tally {
  readonly #tools: TallyTools
  readonly #startedAt: string
  readonly #collections: Map<string, BackedUpCollection>
  /** By collection, where the engine told. */
  #points = new Map<string, number>()
  #current: Current | undefined
  /** Of the nodes of the present collection that are done. */
  #bytesBefore = 0
  #firstError: string | undefined
  /** When the bytes of the present snapshot began to flow. */
  #since = 0
  #toldAt = 0
  readonly #teller = new Teller()

  constructor(tools: TallyTools, startedAt: string, names: string[]) {
    this.#tools = tools
    this.#startedAt = startedAt
    this.#collections = new Map(names.map((name) => [name, { name, status: 'Pending' }]))
  }

  /** What is to come, for an estimate of all bytes. */
  expect(points: Map<string, number>): void {
    this.#points = points
  }

  begin(collection: string, nodes: number): void {
    this.#collections.set(collection, { name: collection, status: 'InProgress' })
    const number = [...this.#collections.keys()].indexOf(collection) + 1
    this.#current = { collection, number, node: 0, nodes, bytes: 0, bytesTotal: 0 }
    this.#bytesBefore = 0
  }

  completed({ name, snapshots }: ManifestCollection): void {
    this.#collections.set(name, {
      name,
      status: 'Completed',
      bytes: snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      snapshots: snapshots.map(({ nodeIndex, snapshotName, key }) => ({
        node: nodeIndex,
        snapshotName,
        key,
      })),
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
    if (this.#current === undefined) return
    if (node > this.#current.node) this.#bytesBefore += this.#current.bytes
    this.#current = { ...this.#current, node, bytes: 0, bytesTotal }
    this.#since = this.#now()
    this.#toldAt = this.#since
  }

  /** Throws when the report said that this pod must stop. */
  moved(bytes: number): void {
    this.#teller.check()
    if (this.#current === undefined) return
    this.#current.bytes += bytes
    const { bar } = this.#tools
    bar?.show(() => this.#measured(), this.#current.bytes / this.#current.bytesTotal)
    this.still()
  }

  /** Tells every few seconds, also while nothing moves: who waits for a store must not look dead. */
  still(): void {
    const isDue = this.#now() - this.#toldAt >= LINE_EVERY_MS
    if (this.#current === undefined || !isDue) return
    const { bar, log } = this.#tools
    this.#toldAt = this.#now()
    const line = this.#measured()
    if (bar === undefined) log.info({ ...this.#current, ...this.#inAll() }, line)
    this.tell()
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
    const total = this.#collections.size
    if (this.#current === undefined) return `${total} collections`
    const { collection, number, node, nodes, bytes, bytesTotal } = this.#current
    const { bytesPerSecond, secondsLeft } = this.#current
    const pace =
      bytesPerSecond === undefined || secondsLeft === undefined
        ? ''
        : `, ${(bytesPerSecond / 1e6).toFixed(1)} MB/s, ${secondsLeft} s left`
    const place = `collection ${number} of ${total} (${collection})`
    if (bytesTotal === 0) return place
    const amount = `${humanSize(bytes)} of ${humanSize(bytesTotal)}`
    const { allBytes, allBytesTotal } = this.#inAll()
    const about = allBytesTotal === undefined ? '' : ` of about ${humanSize(allBytesTotal)}`
    const all = `in all ${humanSize(allBytes)}${about}`
    return `${place}, node ${node + 1} of ${nodes}: ${amount}${pace}; ${all}`
  }

  /** How it ended, for the condition: `Backed up n/m collections`. */
  summary(): string {
    const { completed, total } = this.result()
    return `Backed up ${completed}/${total} collections`
  }

  finish(): void {
    this.#current = undefined
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
      ...(this.#firstError !== undefined && { error: this.#firstError.slice(0, MAX_ERROR) }),
      collections: all.filter((collection) => listed.has(collection)),
      unlisted: {
        completed: count('Completed', rest),
        failed: count('Failed', rest),
        pending: count('Pending', rest) + count('InProgress', rest),
      },
      ...(this.#current !== undefined && { current: { ...this.#current } }),
    }
  }

  /** Bytes of all collections: moved so far, and about as many as there will be. */
  #inAll(): { allBytes: number; allBytesTotal?: number } {
    const known = new Map<string, number>()
    for (const { name, bytes, status } of this.#collections.values()) {
      if (status === 'Completed' && bytes !== undefined) known.set(name, bytes)
    }
    const done = [...known.values()].reduce((sum, bytes) => sum + bytes, 0)
    const { collection = '', nodes = 0, bytes = 0, bytesTotal = 0 } = this.#current ?? {}
    // Once it is completed its bytes are among those.
    const moving = known.has(collection) ? 0 : this.#bytesBefore + bytes
    // Its other nodes will have about as many.
    if (bytesTotal > 0 && !known.has(collection)) known.set(collection, bytesTotal * nodes)
    const total = estimatedBytes(this.#points, known)
    const allBytes = done + moving
    return { allBytes, ...(total !== undefined && { allBytesTotal: Math.max(total, allBytes) }) }
  }

  #measured(): string {
    if (this.#current !== undefined) this.#measure(this.#current)
    return this.line()
  }

  #measure(current: Current): void {
    // Nobody knows how long nothing takes.
    if (current.bytes === 0) return
    const seconds = Math.max(1, this.#now() - this.#since) / 1000
    current.bytesPerSecond = Math.round(current.bytes / seconds)
    const left = Math.max(0, current.bytesTotal - current.bytes)
    current.secondsLeft = Math.ceil(left / Math.max(1, current.bytesPerSecond))
  }

  #now(): number {
    return this.#tools.time.now().getTime()
  }
}
