/**
 * Processes of the simulated machine. All run in one real process and know of each other only what
 * goes over the network. One that is killed does nothing any more that anybody could notice.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const current = new AsyncLocalStorage<SimulatedProcess>()

export class SimulatedProcess {
  /** What it is: `service`, `loop`, `job`. */
  readonly name: string
  readonly #ends = new Set<() => void>()
  #alive = true

  constructor(name: string) {
    this.name = name
  }

  get alive(): boolean {
    return this.#alive
  }

  /** What is begun in there, and all that follows from it, is this process's. */
  run<Result>(work: () => Result): Result {
    return current.run(this, work)
  }

  /** Called when it is killed; the answer takes that back. */
  onKill(end: () => void): () => void {
    this.#ends.add(end)
    return () => this.#ends.delete(end)
  }

  kill(): void {
    if (!this.#alive) return
    this.#alive = false
    for (const end of this.#ends) end()
    this.#ends.clear()
  }
}

/** Whose code runs now; undefined for the test itself. */
export function currentProcess(): SimulatedProcess | undefined {
  return current.getStore()
}

/** Runs something later as whoever asks for it now, unless that one is dead by then. */
export function bound(run: () => void): () => void {
  const asker = current.getStore()
  if (asker === undefined) return () => current.exit(run)
  return () => {
    if (asker.alive) asker.run(run)
  }
}

/** Runs something that is nobody's on this machine: it cannot be killed. */
export function outside<Result>(run: () => Result): Result {
  return current.exit(run)
}
