/**
 * Writes on and on into a collection while it is backed up. What comes back must be a state that each
 * shard really had: every point acknowledged before, and no other than one that was written.
 */
import type { Test } from 'tap'
import { ask } from './collection-state.ts'

const BATCH = 20

export class Writer {
  readonly #url: string
  readonly #name: string
  /** Points that were acknowledged before the backup began, and those that were ever sent. */
  #acknowledged = 0
  #sent = 0
  #isStopped = false
  #work: Promise<void> = Promise.resolve()

  constructor(url: string, name: string) {
    this.#url = url
    this.#name = name
  }

  /** A collection of three shards, each with two copies. */
  static async create(url: string, name: string): Promise<Writer> {
    const vectors = { size: 2, distance: 'Dot' }
    const body = { vectors, shard_number: 3, replication_factor: 2 }
    await ask(url, 'PUT', `/collections/${name}?timeout=60`, body)
    const writer = new Writer(url, name)
    for (let batch = 0; batch < 10; batch += 1) await writer.#write()
    writer.#acknowledged = writer.#sent
    return writer
  }

  start(): void {
    this.#work = this.#writeUntilStopped()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#work
  }

  async compare(t: Test, urls: readonly string[]): Promise<void> {
    for (const [node, url] of urls.entries()) {
      const path = `/collections/${this.#name}/points/scroll`
      const { points } = (await ask(url, 'POST', path, { limit: 1_000_000 })) as {
        points: { id: number; payload: { n: number } }[]
      }
      const ids = new Set(points.map(({ id }) => id))
      const missing = Array.from({ length: this.#acknowledged }, (_, id) => id).filter(
        (id) => !ids.has(id),
      )
      t.strictSame(missing, [], `node ${node}: every point acknowledged before exists`)
      const unexpected = points.filter(({ id, payload }) => id >= this.#sent || payload.n !== id)
      t.strictSame(unexpected, [], `node ${node}: no point that was not written`)
      t.comment(`${this.#acknowledged} before, ${points.length} back, ${this.#sent} written`)
    }
  }

  async #writeUntilStopped(): Promise<void> {
    while (!this.#isStopped) await this.#write()
  }

  async #write(): Promise<void> {
    const points = Array.from({ length: BATCH }, (_, offset) => {
      const id = this.#sent + offset
      return { id, vector: [id, 1], payload: { n: id } }
    })
    this.#sent += BATCH
    await ask(this.#url, 'PUT', `/collections/${this.#name}/points?wait=true`, { points })
  }
}
