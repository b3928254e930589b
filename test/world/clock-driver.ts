/**
 * How time passes in the embedded world: while processes work it passes as it does in them, and once
 * everything waits the clock jumps to the next timer. Many may wait concurrently; the clock never jumps
 * over the limit of any of them.
 */
import type { ManualClock } from './clock.ts'

export interface Activity {
  /** Something is in progress that needs no time: a call, a sync, an answer. */
  busy(): boolean
  /** Processes run: their time is the machine's. */
  processes(): number
  /** When one of the processes was last heard of, by the machine's clock. */
  lastActivityAt(): number
  /** Counts every change of the world. */
  revision(): number
}

interface Waiter {
  /** By the world's clock. */
  deadline: number
  isMet: () => boolean
  finish: (inTime: boolean) => void
  fail: (error: Error) => void
}

/** Idle iterations of the event loop in a row: by then every watch event has arrived. */
const IDLE_POLLS = 12
const STEP_MS = 10
/** A process without activity for this long waits for something, perhaps for time to pass. */
const IDLE_MS = 10_000
/** A world that changes for this long without a pause would keep its clock where it is for ever. */
const RESTLESS_MS = 5 * 60_000

export interface ClockOptions {
  restlessMs?: number | undefined
  /** Seconds that pass in the world for each second of the machine while processes run. */
  speed?: number | undefined
}

export class ClockDriver {
  readonly #clock: ManualClock
  readonly #activity: Activity
  readonly #waiters = new Set<Waiter>()
  #driving = false
  #stopped = false
  #realAt = 0
  readonly #restlessMs: number
  readonly #speed: number

  constructor(
    clock: ManualClock,
    activity: Activity,
    { restlessMs = RESTLESS_MS, speed = 1 }: ClockOptions = {},
  ) {
    this.#clock = clock
    this.#activity = activity
    this.#restlessMs = restlessMs
    this.#speed = speed
  }

  /**
   * True once it is met; false when so much of the world's time has passed before. Throws if the world
   * does not come to rest, as two answers that replace each other without end keep it from.
   */
  wait(isMet: () => boolean, ms: number): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    const deadline = this.#clock.now().getTime() + ms
    this.#waiters.add({ deadline, isMet, finish: resolve, fail: reject })
    if (!this.#driving) void this.#drive()
    return promise
  }

  /** The clock stands still from now on. */
  stop(): void {
    this.#stopped = true
    for (const waiter of this.#waiters) waiter.finish(false)
    this.#waiters.clear()
  }

  async #drive(): Promise<void> {
    this.#driving = true
    this.#realAt = Date.now()
    while (this.#waiters.size > 0 && !this.#stopped) {
      const changes = await this.#waitUntilIdle()
      if (changes !== undefined) {
        this.#fail(changes)
        continue
      }
      // The caller that resumes may act immediately: let that settle before time moves.
      if (this.#finishWaiters()) continue
      if (this.#isWorking()) await this.#advanceRealTime()
      else this.#jumpToNextTimer()
    }
    this.#driving = false
  }

  #fail(changes: number): void {
    const seconds = this.#restlessMs / 1000
    const error = new Error(
      `the world did not come to rest in ${seconds} s, with ${changes} changes while its clock stood still`,
    )
    for (const waiter of this.#waiters) waiter.fail(error)
    this.#waiters.clear()
  }

  /** Ends the waits that are met or over; true when there was one. */
  #finishWaiters(): boolean {
    const now = this.#clock.now().getTime()
    const finished = [...this.#waiters].filter(({ isMet, deadline }) => isMet() || deadline <= now)
    for (const waiter of finished) {
      this.#waiters.delete(waiter)
      waiter.finish(waiter.isMet())
    }
    return finished.length > 0
  }

  /**
   * Resolves once nothing is in progress. Calls may take real time; the clock waits for them. Answers the
   * number of changes if they do not end.
   */
  async #waitUntilIdle(): Promise<number | undefined> {
    const beganAt = Date.now()
    const first = this.#activity.revision()
    let idlePolls = 0
    let revision = this.#activity.revision()
    let changedAt = Date.now()
    for (let iteration = 0; idlePolls < IDLE_POLLS && !this.#stopped; iteration++) {
      // Spinning would take the time that others need.
      if (iteration > 100) await new Promise((resolve) => setTimeout(resolve, 1))
      else await new Promise((resolve) => setImmediate(resolve))
      if (revision !== this.#activity.revision()) changedAt = Date.now()
      const isIdle = !this.#activity.busy() && revision === this.#activity.revision()
      idlePolls = isIdle ? idlePolls + 1 : 0
      revision = this.#activity.revision()
      if (Date.now() - changedAt > IDLE_MS) return undefined
      const changes = revision - first
      if (changes > 0 && Date.now() - beganAt > this.#restlessMs) return changes
      // A wait that is met need not wait for the rest, nor for a process that never stops writing.
      if ([...this.#waiters].some(({ isMet }) => isMet())) return undefined
    }
    return undefined
  }

  #isWorking(): boolean {
    return this.#activity.processes() > 0 && Date.now() - this.#activity.lastActivityAt() < IDLE_MS
  }

  async #advanceRealTime(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, STEP_MS))
    const now = Date.now()
    this.#clock.advance(this.#capAtDeadlines((now - this.#realAt) * this.#speed))
    this.#realAt = now
  }

  #jumpToNextTimer(): void {
    const now = this.#clock.now().getTime()
    const next = this.#clock.nextTimerAt() ?? Infinity
    this.#clock.advance(this.#capAtDeadlines(Math.max(0, next - now)))
    this.#realAt = Date.now()
  }

  /** Not past the earliest limit of those that wait. */
  #capAtDeadlines(ms: number): number {
    const now = this.#clock.now().getTime()
    const deadlines = [...this.#waiters].map(({ deadline }) => deadline - now)
    return Math.max(0, Math.min(ms, ...deadlines))
  }
}
