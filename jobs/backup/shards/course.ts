/** How far the shards of a collection are: those that are whole, and those whose bytes flow. */
import type { ShardSnapshot } from '../../../crds/manifest.ts'
import { humanSize } from '../../../crds/size.ts'
import { Pace, type Course, type Current } from '../course.ts'

/** Several at once; nobody knows the size of one before its end. */
export class ShardCourse implements Course {
  readonly #shards: number
  readonly #pace = new Pace()
  readonly #whole = new Map<number, number>()
  readonly #flowing = new Map<number, number>()
  #moved = 0

  constructor(shards: number, now: number) {
    this.#shards = shards
    this.#pace.start(now)
  }

  moved(shardId: number, bytes: number): void {
    this.#flowing.set(shardId, (this.#flowing.get(shardId) ?? 0) + bytes)
    this.#moved += bytes
  }

  /** Its bytes count for nothing: the stream broke off. */
  broke(shardId: number): void {
    this.#flowing.delete(shardId)
  }

  ended({ shardId, sizeBytes }: ShardSnapshot): void {
    this.#flowing.delete(shardId)
    this.#whole.set(shardId, sizeBytes)
  }

  /** In the bucket, or on their way. */
  get bytes(): number {
    return sum(this.#whole) + sum(this.#flowing)
  }

  /** As if the others were as large as those that are whole. */
  get expected(): number | undefined {
    const done = this.#whole.size
    if (done === 0) return undefined
    return Math.max(this.bytes, Math.round((sum(this.#whole) / done) * this.#shards))
  }

  get share(): number {
    return this.#whole.size / this.#shards
  }

  measure(now: number): void {
    const { bytes, expected } = this
    const left = expected === undefined ? undefined : expected - bytes
    this.#pace.measure(now, { moved: this.#moved, left })
  }

  told(): Omit<Current, 'collection' | 'number'> {
    const bytes = { bytes: this.bytes, bytesTotal: this.expected ?? 0 }
    return { shardsDone: this.#whole.size, shards: this.#shards, ...bytes, ...this.#pace.told() }
  }

  line(): string {
    const { expected } = this
    const about = expected === undefined ? '' : ` of about ${humanSize(expected)}`
    const amount = `${humanSize(this.bytes)}${about}${this.#pace.line()}`
    return `${this.#whole.size} of ${this.#shards} shards: ${amount}`
  }
}

function sum(bytes: ReadonlyMap<number, number>): number {
  return [...bytes.values()].reduce((all, each) => all + each, 0)
}
