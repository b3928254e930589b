/**
 * Progress and throughput of the snapshots of the current collection, and the estimate of its total
 * size. Estimates are based on point counts and on the snapshots already completed.
 */
import type { BackupResult } from '../../crds/contract/job.ts'
import type { ShardSnapshot } from '../../crds/contract/manifest.ts'
import { formatBytes } from '../../crds/units.ts'

export type CurrentCollection = NonNullable<BackupResult['current']>

/** What both methods report about a collection, each in its own words. */
export interface CollectionProgress {
  /** Bytes transferred for this collection. */
  readonly bytes: number
  /** Estimated total bytes; undefined while unknown. */
  readonly expected: number | undefined
  /** Fraction (0 to 1) of the current transfer, for the progress bar. */
  readonly fraction: number
  /** Samples the throughput. */
  measure(now: number): void
  toReport(): Omit<CurrentCollection, 'collection' | 'number'>
  /** Empty while nothing is being transferred. */
  statusLine(): string
}

/** Nodes are processed one after the other; the size of each snapshot is known. */
export class NodeProgress implements CollectionProgress {
  readonly #nodes: number
  readonly #throughput = new Throughput()
  #node = 0
  /** Bytes of completed nodes. */
  #completedBytes = 0
  #transferred = 0
  #size = 0

  constructor(nodes: number) {
    this.#nodes = nodes
  }

  /**
   * The transfer of a node's snapshot starts, or starts again for the same node after a failure.
   */
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

  /** Assumes that the remaining nodes have about as many bytes. */
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

/** Throughput as of the last sample. */
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
    // No throughput yet.
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

/** Several shards are streamed at once; the size of a stream is known only at its end. */
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

  /** Discards the bytes of a shard whose stream broke off. */
  shardFailed(shardId: number): void {
    this.#inProgress.delete(shardId)
  }

  shardCompleted({ shardId, sizeBytes }: ShardSnapshot): void {
    this.#inProgress.delete(shardId)
    this.#completed.set(shardId, sizeBytes)
  }

  /** Bytes in the bucket or in transit. */
  get bytes(): number {
    return sum(this.#completed) + sum(this.#inProgress)
  }

  /** Assumes that the remaining shards are as large as the completed ones. */
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

/**
 * Total bytes, extrapolated from the collections whose size is known; undefined while none is
 * known.
 */
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
