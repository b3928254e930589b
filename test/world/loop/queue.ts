/**
 * The work queue of one controller: a key waits at most once and is never worked on twice at the
 * same time; what arrives meanwhile becomes one more round. Delays and the back-off of failed keys
 * follow the world's clock.
 */
import type { Clock } from '../clock.ts'

const FIRST_DELAY_MS = 5
const LONGEST_DELAY_MS = 1_000_000
/** Retries of all keys together: a burst of this many, then this many a second. */
const BURST = 100
const PER_SECOND = 10
/** A longer timer would fire immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export class WorkQueue {
  readonly #clock: Clock
  readonly #ready: string[] = []
  /** Queued, whether it waits in `ready` or for the end of the round that runs. */
  readonly #dirty = new Set<string>()
  readonly #running = new Set<string>()
  readonly #failures = new Map<string, number>()
  /** When a key is due, in milliseconds since 1970. */
  readonly #delayed = new Map<string, number>()
  readonly #bucket: Bucket
  #takers: ((key: string | undefined) => void)[] = []
  #cancelTimer: () => void = () => undefined
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
    this.#bucket = new Bucket(clock)
  }

  /** Something is ready or being worked on; keys that wait for their time do not count. */
  get busy(): boolean {
    return this.#dirty.size > 0 || this.#running.size > 0
  }

  add(key: string): void {
    if (this.#closed || this.#dirty.has(key)) return
    this.#dirty.add(key)
    if (!this.#running.has(key)) this.#offer(key)
  }

  /** A key that waits already is only ever moved to an earlier time. */
  addAfter(key: string, ms: number): void {
    if (this.#closed) return
    if (ms <= 0) {
      this.add(key)
      return
    }
    const due = this.#clock.now().getTime() + ms
    this.#delayed.set(key, Math.min(due, this.#delayed.get(key) ?? due))
    this.#arm()
  }

  addRateLimited(key: string): void {
    const failures = this.#failures.get(key) ?? 0
    this.#failures.set(key, failures + 1)
    const own = Math.min(FIRST_DELAY_MS * 2 ** failures, LONGEST_DELAY_MS)
    this.addAfter(key, Math.max(own, this.#bucket.reserve()))
  }

  /** The key succeeded: its next failure waits as little as a first one. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** The next key; undefined once the queue is closed. */
  async take(): Promise<string | undefined> {
    if (this.#closed) return undefined
    const key = this.#ready.shift()
    if (key === undefined) {
      const { promise, resolve } = Promise.withResolvers<string | undefined>()
      this.#takers.push(resolve)
      return promise
    }
    this.#start(key)
    return key
  }

  done(key: string): void {
    this.#running.delete(key)
    if (this.#dirty.has(key)) this.#offer(key)
  }

  close(): void {
    this.#closed = true
    this.#cancelTimer()
    for (const taker of this.#takers) taker(undefined)
    this.#takers = []
  }

  #offer(key: string): void {
    if (this.#closed) return
    const taker = this.#takers.shift()
    if (taker === undefined) {
      this.#ready.push(key)
      return
    }
    this.#start(key)
    taker(key)
  }

  #start(key: string): void {
    this.#running.add(key)
    this.#dirty.delete(key)
  }

  #arm(): void {
    this.#cancelTimer()
    if (this.#delayed.size === 0) return
    const next = Math.min(...this.#delayed.values())
    const wait = Math.max(0, next - this.#clock.now().getTime())
    this.#cancelTimer = this.#clock.setTimeout(
      () => this.#release(),
      Math.min(wait, LONGEST_TIMER_MS),
    )
  }

  #release(): void {
    const now = this.#clock.now().getTime()
    for (const [key, due] of this.#delayed) {
      if (due > now) continue
      this.#delayed.delete(key)
      this.add(key)
    }
    this.#arm()
  }
}

/** A token bucket that lends: a caller that takes a future token waits for it. */
class Bucket {
  readonly #clock: Clock
  #tokens = BURST
  #at: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#at = clock.now().getTime()
  }

  /** Takes a token; answers how long to wait for it, in milliseconds. */
  reserve(): number {
    const now = this.#clock.now().getTime()
    this.#tokens = Math.min(BURST, this.#tokens + ((now - this.#at) / 1000) * PER_SECOND) - 1
    this.#at = now
    return this.#tokens >= 0 ? 0 : (-this.#tokens / PER_SECOND) * 1000
  }
}
