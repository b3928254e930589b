/**
 * Time as the worlds see it. The embedded world owns a clock that moves only when it is advanced, so
 * that minutes of waiting cost no real time; the real world has the clock of the machine.
 */

export interface Clock {
  now(): Date
  /** Runs once after this time; the returned function cancels it. */
  setTimeout(run: () => void, ms: number): () => void
}

export const systemClock: Clock = {
  now: () => new Date(),
  setTimeout(run, ms) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

interface Timer {
  at: number
  run: () => void
}

/** Starts at a date and stays there until it is advanced; timers run inside `advance`, in order. */
export class ManualClock implements Clock {
  #now: number
  // In the order in which they were set: of two that are due at the same time the older one runs first.
  readonly #timers = new Set<Timer>()

  constructor(start: Date) {
    this.#now = start.getTime()
  }

  now(): Date {
    return new Date(this.#now)
  }

  setTimeout(run: () => void, ms: number): () => void {
    const timer = { at: this.#now + Math.max(0, ms), run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** When the next timer is due, in milliseconds since 1970; undefined when none is set. */
  nextTimerAt(): number | undefined {
    return this.#next()?.at
  }

  /** Moves on by so much; a timer set meanwhile runs too when it falls into the span. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (let timer = this.#next(); timer !== undefined && timer.at <= end; timer = this.#next()) {
      this.#timers.delete(timer)
      this.#now = Math.max(this.#now, timer.at)
      timer.run()
    }
    this.#now = end
  }

  #next(): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers) if (next === undefined || timer.at < next.at) next = timer
    return next
  }
}
