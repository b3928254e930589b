/**
 * The clock of the simulated machine: `Date`, `performance.now` and every timer of this process follow
 * a clock that the test advances. Timeouts, pauses, intervals and measured durations therefore use
 * simulated time, however slow the real machine is.
 */
import timersPromises from 'node:timers/promises'
import { syncBuiltinESMExports } from 'node:module'
import { ManualClock } from '../../world/clock.ts'
import { bound } from './process.ts'

/** The timers of a process end with the process. */
export class MachineClock extends ManualClock {
  override setTimeout(run: () => void, ms: number): () => void {
    return super.setTimeout(bound(run), ms)
  }
}

/** Replaces the time functions of this process. The replacement is permanent. */
export function installTime(): { set(clock: MachineClock): void } {
  const time = new MachineTime()
  globalThis.Date = shifted(() => time.now())
  Object.assign(globalThis, {
    setTimeout: (run: (...values: unknown[]) => void, ms = 0, ...values: unknown[]) =>
      new Timer(time, () => run(...values), { ms }),
    clearTimeout: closeTimer,
    setInterval: (run: (...values: unknown[]) => void, ms = 0, ...values: unknown[]) =>
      new Timer(time, () => run(...values), { ms: Math.max(ms, 1), isRepeated: true }),
    clearInterval: closeTimer,
  })
  // A duration that decides something, such as whether an engine is slow, must not depend on the load
  // of the real machine.
  Object.defineProperty(performance, 'now', { value: () => time.now() - EPOCH.getTime() })
  AbortSignal.timeout = (ms) => {
    const over = new AbortController()
    time.after(ms, () => over.abort(new DOMException('timed out', 'TimeoutError')))
    return over.signal
  }
  Object.assign(timersPromises, {
    setTimeout: (ms: number, value: unknown, options?: { signal?: AbortSignal }) =>
      time.pause(ms, value, options?.signal),
  })
  syncBuiltinESMExports()
  return time
}

const EPOCH = new Date('2026-03-01T00:00:00Z')

class MachineTime {
  #clock = new MachineClock(EPOCH)

  set(clock: MachineClock): void {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now().getTime()
  }

  after(ms: number, run: () => void): () => void {
    return this.#clock.setTimeout(run, ms)
  }

  pause(ms: number, value: unknown, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const abort = () => {
        cancel()
        reject(new DOMException('The operation was aborted', 'AbortError'))
      }
      const cancel = this.after(ms, () => {
        signal?.removeEventListener('abort', abort)
        resolve(value)
      })
      if (signal?.aborted === true) abort()
      else signal?.addEventListener('abort', abort, { once: true })
    })
  }
}

/** The result of `setTimeout` or `setInterval`, with the methods that callers use. */
class Timer {
  readonly #time: MachineTime
  readonly #run: () => void
  readonly #ms: number
  #cancel: () => void

  constructor(
    time: MachineTime,
    run: () => void,
    { ms, isRepeated = false }: { ms: number; isRepeated?: boolean },
  ) {
    this.#time = time
    this.#ms = ms
    this.#run = () => {
      // Rearmed first: the callback may clear the interval.
      if (isRepeated) this.refresh()
      run()
    }
    this.#cancel = time.after(ms, this.#run)
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  refresh(): this {
    this.#cancel()
    this.#cancel = this.#time.after(this.#ms, this.#run)
    return this
  }

  close(): void {
    this.#cancel()
  }
}

function closeTimer(timer: unknown): void {
  if (timer instanceof Timer) timer.close()
}

function shifted(now: () => number): DateConstructor {
  return new Proxy(Date, {
    construct: (target, values, newTarget) =>
      Reflect.construct(target, values.length === 0 ? [now()] : values, newTarget) as Date,
    get: (target, name, receiver): unknown =>
      name === 'now' ? now : Reflect.get(target, name, receiver),
  })
}
