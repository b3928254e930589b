/** How far the snapshots of the collection under way are, and how fast their bytes flow. */
import type { BackupResult } from '../../crds/command.ts'
import { humanSize } from '../../crds/size.ts'

export type Current = NonNullable<BackupResult['current']>

/** What the two methods tell of a collection, each in its own words. */
export interface Course {
  /** Bytes that were moved for this collection. */
  readonly bytes: number
  /** About as many as there will be; undefined while nobody knows. */
  readonly expected: number | undefined
  /** From 0 to 1, of what flows now; for a bar. */
  readonly share: number
  /** Looks how fast it goes. */
  measure(now: number): void
  told(): Omit<Current, 'collection' | 'number'>
  /** Empty while nothing flows. */
  line(): string
}

/** One node after the other; the size of each snapshot is known. */
export class NodeCourse implements Course {
  readonly #nodes: number
  readonly #pace = new Pace()
  #node = 0
  /** Of the nodes that are done. */
  #before = 0
  #moved = 0
  #size = 0

  constructor(nodes: number) {
    this.#nodes = nodes
  }

  /** The snapshot of a node begins to flow; of the same one when it is tried again. */
  flows(node: number, sizeBytes: number, now: number): void {
    if (node > this.#node) this.#before += this.#moved
    this.#node = node
    this.#moved = 0
    this.#size = sizeBytes
    this.#pace.start(now)
  }

  moved(bytes: number): void {
    this.#moved += bytes
  }

  get bytes(): number {
    return this.#before + this.#moved
  }

  /** Its other nodes will have about as many. */
  get expected(): number | undefined {
    return this.#size === 0 ? undefined : this.#size * this.#nodes
  }

  get share(): number {
    return this.#moved / this.#size
  }

  measure(now: number): void {
    this.#pace.measure(now, { moved: this.#moved, left: this.#size - this.#moved })
  }

  told(): Omit<Current, 'collection' | 'number'> {
    const bytes = { bytes: this.#moved, bytesTotal: this.#size }
    return { node: this.#node, nodes: this.#nodes, ...bytes, ...this.#pace.told() }
  }

  line(): string {
    if (this.#size === 0) return ''
    const amount = `${humanSize(this.#moved)} of ${humanSize(this.#size)}`
    return `node ${this.#node + 1} of ${this.#nodes}: ${amount}${this.#pace.line()}`
  }
}

/** How fast it goes, as of the last look. */
export class Pace {
  #since = 0
  #told: { bytesPerSecond?: number; secondsLeft?: number } = {}

  start(now: number): void {
    this.#since = now
    this.#told = {}
  }

  measure(now: number, { moved, left }: { moved: number; left: number | undefined }): void {
    // Nobody knows how long nothing takes.
    if (moved === 0) return
    const bytesPerSecond = Math.round(moved / (Math.max(1, now - this.#since) / 1000))
    const secondsLeft = Math.ceil(Math.max(0, left ?? 0) / Math.max(1, bytesPerSecond))
    this.#told = { bytesPerSecond, ...(left !== undefined && { secondsLeft }) }
  }

  told(): { bytesPerSecond?: number; secondsLeft?: number } {
    return this.#told
  }

  line(): string {
    const { bytesPerSecond, secondsLeft } = this.#told
    if (bytesPerSecond === undefined) return ''
    const left = secondsLeft === undefined ? '' : `, ${secondsLeft} s left`
    return `, ${(bytesPerSecond / 1e6).toFixed(1)} MB/s${left}`
  }
}
