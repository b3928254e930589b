/**
 * Processes of the simulated machine. All run in one real process and share nothing except the network.
 * A killed process has no further effect on the other processes.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const current = new AsyncLocalStorage<SimulatedProcess>()

export class SimulatedProcess {
  /** Its role, such as `service`, `loop` or `job`. */
  readonly name: string
  readonly #ends = new Set<() => void>()
  #alive = true

  constructor(name: string) {
    this.name = name
  }

  get alive(): boolean {
    return this.#alive
  }

  /** Runs `work` as this process, with everything that it starts asynchronously. */
  run<Result>(work: () => Result): Result {
    return current.run(this, work)
  }

  /** Registers a function to call when the process is killed; returns a function that unregisters it. */
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

/** The process whose code runs now; undefined for the test itself. */
export function currentProcess(): SimulatedProcess | undefined {
  return current.getStore()
}

/** A function that later runs `run` as the process that is current now, unless it was killed meanwhile. */
export function bound(run: () => void): () => void {
  const asker = current.getStore()
  if (asker === undefined) return () => current.exit(run)
  return () => {
    if (asker.alive) asker.run(run)
  }
}

/** Runs something outside all simulated processes, so that no kill stops it. */
export function outside<Result>(run: () => Result): Result {
  return current.exit(run)
}
