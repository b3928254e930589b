/**
 * The calls of one decision to its ports. They are recorded, so that a decision which was stopped before one of
 * its writes can continue in another world: it is repeated with the recorded results up to that write.
 */

/** Calls that change something outside the service. */
const WRITES = new Set([
  ...['writeLease', 'deleteLease', 'writeSecretCopy', 'deleteSecretCopy', 'writeConfigMap'],
  ...['deleteBackup', 'replaceReport', 'purge', 'deleteJob'],
  ...['createCollection', 'patchCollection', 'deleteCollection', 'putIndex', 'deleteIndex'],
  'updateAliases',
])

type Result = { value: unknown } | { error: unknown }

export class Calls {
  readonly stopped: Promise<undefined>
  readonly #stop: () => void
  /** Recorded results by the order in which the calls began. */
  readonly #results: Map<number, Result>
  readonly #stopBefore: number
  #calls = 0
  #writes = 0
  #isStopped = false
  /** Name of the write before which it stopped. */
  #next = ''

  constructor(stopBefore: number, results: ReadonlyMap<number, Result> = new Map()) {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.stopped = promise
    this.#stop = () => resolve(undefined)
    this.#stopBefore = stopBefore
    this.#results = new Map(results)
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** The write before which it stopped, and what the calls before returned. */
  get known(): { next: string; results: unknown[] } {
    const results = [...this.#results].map(([index, result]) => [
      index,
      'error' in result ? String(result.error) : (result.value ?? null),
    ])
    return { next: this.#next, results }
  }

  /** The same calls, to be repeated from their start without a stop. */
  resumed(): Calls {
    return new Calls(Infinity, this.#results)
  }

  call(name: string, run: () => unknown): unknown {
    const index = this.#calls
    this.#calls += 1
    const recorded = this.#results.get(index)
    if (WRITES.has(name)) this.#writes += 1
    if (recorded !== undefined) return repeated(recorded)
    if (WRITES.has(name) && this.#writes > this.#stopBefore && !this.#isStopped) {
      this.#isStopped = true
      this.#next = name
      this.#stop()
    }
    // Nothing of a stopped service continues.
    if (this.#isStopped) return new Promise(() => undefined)
    const value = run()
    if (!(value instanceof Promise)) return value
    return value.then(
      (result: unknown) => {
        this.#results.set(index, { value: result })
        return result
      },
      (error: unknown) => {
        this.#results.set(index, { error })
        throw error
      },
    )
  }
}

async function repeated(result: Result): Promise<unknown> {
  if (!('error' in result)) return result.value
  const { error } = result
  throw error instanceof Error ? error : new Error('a call failed without an Error')
}

/** Ports whose calls are recorded while the world records any. */
export function recorded<Ports extends object>(world: { calls?: Calls }, ports: Ports): Ports {
  const { calls } = world
  if (calls === undefined) return ports
  return new Proxy(ports, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name)
      if (typeof found !== 'function') return found
      const port = found as (...args: unknown[]) => unknown
      return (...args: unknown[]) => calls.call(String(name), () => port.apply(target, args))
    },
  })
}
