/**
 * The clock of the simulated machine: `Date` and every timer of this process follow a clock that the
 * test moves. So also deadlines, pauses and connections that idle live in the time of the world.
 */
import timersPromises from 'node:timers/promises'
import { syncBuiltinESMExports } from 'node:module'
import { ManualClock } from '../../world/clock.ts'
import { bound } from './process.ts'

/** The timers of a process end with it. */
export class MachineClock extends ManualClock {
  override setTimeout(run: () => void, ms: number): () => void {
    return super.setTimeout(bound(run), ms)
  }
}

/** From now on this process knows no other time; what it was, is forgotten. */
export function installTime(): { set(clock: MachineClock): void } {
  const time = new MachineTime()
  globalThis.Date = shifted(() => time.now())
  Object.assign(globalThis, {
    setTimeout: (run: (...values: unknown[]) => void, ms = 0, ...values: unknown[]) =>
      new Timer(time, () => run(...values), ms),
    clearTimeout: (timer: unknown) => timer instanceof Timer && timer.close(),
  })
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
      const ended = () => {
        cancel()
        reject(new DOMException('The operation was aborted', 'AbortError'))
      }
      const cancel = this.after(ms, () => {
        signal?.removeEventListener('abort', ended)
        resolve(value)
      })
      if (signal?.aborted === true) ended()
      else signal?.addEventListener('abort', ended, { once: true })
    })
  }
}

/** What `setTimeout` answers, as far as anyone uses it. */
class Timer {
  readonly #time: MachineTime
  readonly #run: () => void
  readonly #ms: number
  #cancel: () => void

  constructor(time: MachineTime, run: () => void, ms: number) {
    this.#time = time
    this.#run = run
    this.#ms = ms
    this.#cancel = time.after(ms, run)
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

function shifted(now: () => number): DateConstructor {
  return new Proxy(Date, {
    construct: (target, values, newTarget) =>
      Reflect.construct(target, values.length === 0 ? [now()] : values, newTarget) as Date,
    get: (target, name, receiver): unknown =>
      name === 'now' ? now : Reflect.get(target, name, receiver),
  })
}
