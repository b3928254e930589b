/**
 * How time passes in the embedded world: while something works it passes as it does outside, and once
 * everything waits the clock jumps to whatever is due next. Many may wait at once; nobody's limit is
 * jumped over.
 */
import type { MovableClock } from './clock.ts'

export interface Life {
  /** Something is under way that needs no time: a call, a sync, an answer. */
  busy(): boolean
  /** Processes run: their time is the machine's. */
  processes(): number
  /** When one of the processes was last heard of, by the machine's clock. */
  heardAt(): number
  /** Counts every change of the world. */
  revision(): number
}

interface Waiter {
  /** By the world's clock. */
  until: number
  met: () => boolean
  done: (inTime: boolean) => void
}

/** Turns of the event loop in a row without anything under way: by then every notice has arrived. */
const CALM_TURNS = 12
const STEP_MS = 10
/** Who does nothing for so long waits for something, perhaps for time to pass. */
const QUIET_MS = 10_000

export class Pace {
  readonly #clock: MovableClock
  readonly #life: Life
  readonly #waiters = new Set<Waiter>()
  #driving = false
  #stopped = false
  #realAt = 0

  constructor(clock: MovableClock, life: Life) {
    this.#clock = clock
    this.#life = life
  }

  /** True once it is met; false when so much of the world's time has passed before. */
  wait(met: () => boolean, ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    this.#waiters.add({ until: this.#clock.now().getTime() + ms, met, done: resolve })
    if (!this.#driving) void this.#drive()
    return promise
  }

  /** Time stands still from now on. */
  stop(): void {
    this.#stopped = true
    for (const waiter of this.#waiters) waiter.done(false)
    this.#waiters.clear()
  }

  async #drive(): Promise<void> {
    this.#driving = true
    this.#realAt = Date.now()
    while (this.#waiters.size > 0 && !this.#stopped) {
      await this.#calm()
      // Whoever goes on may do something at once: let that settle before time moves.
      if (this.#release()) continue
      if (this.#isWorking()) await this.#passReal()
      else this.#jump()
    }
    this.#driving = false
  }

  /** Ends the waits that are met or over; true when there was one. */
  #release(): boolean {
    const now = this.#clock.now().getTime()
    const ended = [...this.#waiters].filter(({ met, until }) => met() || until <= now)
    for (const waiter of ended) {
      this.#waiters.delete(waiter)
      waiter.done(waiter.met())
    }
    return ended.length > 0
  }

  /** Answers once nothing is under way. Calls may take real time; the clock waits for them. */
  async #calm(): Promise<void> {
    let calm = 0
    let revision = this.#life.revision()
    let changedAt = Date.now()
    for (let turn = 0; calm < CALM_TURNS && !this.#stopped; turn++) {
      // Spinning would take the time that others need.
      if (turn > 100) await new Promise((resolve) => setTimeout(resolve, 1))
      else await new Promise((resolve) => setImmediate(resolve))
      if (revision !== this.#life.revision()) changedAt = Date.now()
      const still = !this.#life.busy() && revision === this.#life.revision()
      calm = still ? calm + 1 : 0
      revision = this.#life.revision()
      if (Date.now() - changedAt > QUIET_MS) return
      // A wait that is met need not wait for the rest, nor for a process that never stops writing.
      if ([...this.#waiters].some(({ met }) => met())) return
    }
  }

  #isWorking(): boolean {
    return this.#life.processes() > 0 && Date.now() - this.#life.heardAt() < QUIET_MS
  }

  async #passReal(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, STEP_MS))
    const now = Date.now()
    this.#clock.advance(this.#limited(now - this.#realAt))
    this.#realAt = now
  }

  #jump(): void {
    const now = this.#clock.now().getTime()
    const next = this.#clock.nextAt() ?? Infinity
    this.#clock.advance(this.#limited(Math.max(0, next - now)))
    this.#realAt = Date.now()
  }

  /** Not past the first limit of those who wait. */
  #limited(ms: number): number {
    const now = this.#clock.now().getTime()
    const limits = [...this.#waiters].map(({ until }) => until - now)
    return Math.max(0, Math.min(ms, ...limits))
  }
}
