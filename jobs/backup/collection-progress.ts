/** How far the snapshots of the collection under way are, and how fast their bytes flow. */
import type { BackupResult } from '../../crds/contract/job.ts'
import type { ShardSnapshot } from '../../crds/contract/manifest.ts'
import { formatBytes } from '../../crds/units.ts'

export type CurrentCollection = NonNullable<BackupResult['current']>

/** What the two methods tell of a collection, each in its own words. */
export interface CollectionProgress {
  /** Bytes that were moved for this collection. */
  readonly bytes: number
  /** About as many as there will be; undefined while nobody knows. */
  readonly expected: number | undefined
  /** From 0 to 1, of what flows now; for a bar. */
  readonly fraction: number
  /** Looks how fast it goes. */
  measure(now: number): void
  toReport(): Omit<CurrentCollection, 'collection' | 'number'>
  /** Empty while nothing flows. */
  statusLine(): string
}

/** One node after the other; the size of each snapshot is known. */
export class NodeProgress implements CollectionProgress {
  readonly #nodes: number
  readonly #throughput = new Throughput()
  #node = 0
  /** Of the nodes that are done. */
  #completedBytes = 0
  #transferred = 0
  #size = 0

  constructor(nodes: number) {
    this.#nodes = nodes
  }

  /** The snapshot of a node begins to flow; of the same one when it is tried again. */
  startNode(node: number, sizeBytes: number, now: number): void {
    if (node > this.#node) this.#completedBytes += this.#transferred
    this.#node = node
    this.#transferred = 0
    this.#size = sizeBytes
    this.#throughput.start(now)
  }

  transferred(bytes: number): void {
    this.#transferred += bytes
  }

  get bytes(): number {
    return this.#completedBytes + this.#transferred
  }

  /** Its other nodes will have about as many. */
  get expected(): number | undefined {
    return this.#size === 0 ? undefined : this.#size * this.#nodes
  }

  get fraction(): number {
    return this.#transferred / this.#size
  }

  measure(now: number): void {
    this.#throughput.measure(now, {
      transferred: this.#transferred,
      remaining: this.#size - this.#transferred,
    })
  }

  toReport(): Omit<CurrentCollection, 'collection' | 'number'> {
    const bytes = { bytes: this.#transferred, bytesTotal: this.#size }
    return { node: this.#node, nodes: this.#nodes, ...bytes, ...this.#throughput.toReport() }
  }

  statusLine(): string {
    if (this.#size === 0) return ''
    const amount = `${formatBytes(this.#transferred)} of ${formatBytes(this.#size)}`
    return `node ${this.#node + 1} of ${this.#nodes}: ${amount}${this.#throughput.statusLine()}`
  }
}

/** How fast it goes, as of the last look. */
export class Throughput {
  #startedAt = 0
  #measured: { bytesPerSecond?: number; secondsLeft?: number } = {}

  start(now: number): void {
    this.#startedAt = now
    this.#measured = {}
  }

  measure(
    now: number,
    { transferred, remaining }: { transferred: number; remaining: number | undefined },
  ): void {
    // Nobody knows how long nothing takes.
    if (transferred === 0) return
    const bytesPerSecond = Math.round(transferred / (Math.max(1, now - this.#startedAt) / 1000))
    const secondsLeft = Math.ceil(Math.max(0, remaining ?? 0) / Math.max(1, bytesPerSecond))
    this.#measured = { bytesPerSecond, ...(remaining !== undefined && { secondsLeft }) }
  }

  toReport(): { bytesPerSecond?: number; secondsLeft?: number } {
    return this.#measured
  }

  statusLine(): string {
    const { bytesPerSecond, secondsLeft } = this.#measured
    if (bytesPerSecond === undefined) return ''
    const remaining = secondsLeft === undefined ? '' : `, ${secondsLeft} s left`
    return `, ${(bytesPerSecond / 1e6).toFixed(1)} MB/s${remaining}`
  }
}

/** Several at once; nobody knows the size of one before its end. */
export class ShardProgress implements CollectionProgress {
  readonly #shards: number
  readonly #throughput = new Throughput()
  readonly #completed = new Map<number, number>()
  readonly #inProgress = new Map<number, number>()
  #transferred = 0

  constructor(shards: number, now: number) {
    this.#shards = shards
    this.#throughput.start(now)
  }

  transferred(shardId: number, bytes: number): void {
    this.#inProgress.set(shardId, (this.#inProgress.get(shardId) ?? 0) + bytes)
    this.#transferred += bytes
  }

  /** Its bytes count for nothing: the stream broke off. */
  shardFailed(shardId: number): void {
    this.#inProgress.delete(shardId)
  }

  shardCompleted({ shardId, sizeBytes }: ShardSnapshot): void {
    this.#inProgress.delete(shardId)
    this.#completed.set(shardId, sizeBytes)
  }

  /** In the bucket, or on their way. */
  get bytes(): number {
    return sum(this.#completed) + sum(this.#inProgress)
  }

  /** As if the others were as large as those that are whole. */
  get expected(): number | undefined {
    const completedCount = this.#completed.size
    if (completedCount === 0) return undefined
    return Math.max(this.bytes, Math.round((sum(this.#completed) / completedCount) * this.#shards))
  }

  get fraction(): number {
    return this.#completed.size / this.#shards
  }

  measure(now: number): void {
    const { bytes, expected } = this
    const remaining = expected === undefined ? undefined : expected - bytes
    this.#throughput.measure(now, { transferred: this.#transferred, remaining })
  }

  toReport(): Omit<CurrentCollection, 'collection' | 'number'> {
    const bytes = { bytes: this.bytes, bytesTotal: this.expected ?? 0 }
    return {
      shardsDone: this.#completed.size,
      shards: this.#shards,
      ...bytes,
      ...this.#throughput.toReport(),
    }
  }

  statusLine(): string {
    const { expected } = this
    const about = expected === undefined ? '' : ` of about ${formatBytes(expected)}`
    const amount = `${formatBytes(this.bytes)}${about}${this.#throughput.statusLine()}`
    return `${this.#completed.size} of ${this.#shards} shards: ${amount}`
  }
}

function sum(bytes: ReadonlyMap<number, number>): number {
  return [...bytes.values()].reduce((all, each) => all + each, 0)
}

/** Bytes of what is known, or undefined while nothing is. */
export function estimateTotalBytes(
  points: ReadonlyMap<string, number>,
  knownBytes: ReadonlyMap<string, number>,
): number | undefined {
  let bytes = 0
  let knownPoints = 0
  for (const [name, size] of knownBytes) {
    bytes += size
    knownPoints += points.get(name) ?? 0
  }
  if (knownPoints === 0) return undefined
  const remaining = [...points].filter(([name]) => !knownBytes.has(name))
  const remainingPoints = remaining.reduce((sum, [, count]) => sum + count, 0)
  return Math.round(bytes + remainingPoints * (bytes / knownPoints))
}
