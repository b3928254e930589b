/**
 * What a Job does while the key of an engine is rotated. The Secret it has mounted and the nodes change at
 * different moments: the kubelet needs about a minute, and pods are restarted one by one. So a node that
 * refuses one key is asked with the other one, and asked again, for a while.
 */
import type { Time } from '../time.ts'
import type { EngineCredentials } from './engine.ts'

export interface RotationOptions {
  /** Reads what is mounted now. */
  read: () => Promise<EngineCredentials>
  time: Pick<Time, 'sleep'>
  signal: AbortSignal
  /** A key that worked and then is refused is waited for so long, in all. */
  limitMs: number
  waiting: () => void
}

const POLL_MS = 5_000

export class KeyRotation {
  readonly #options: RotationOptions
  /** Keys that some node accepted. */
  readonly #accepted = new Set<string | undefined>()
  /** The one that each node accepted last: while pods are restarted, nodes differ. */
  readonly #byNode = new Map<string, string | undefined>()
  #leftMs: number

  constructor(options: RotationOptions) {
    this.#options = options
    this.#leftMs = options.limitMs
  }

  /** What a node is asked with first. */
  async credentialsFor(node: string): Promise<EngineCredentials> {
    const mounted = await this.#options.read()
    return this.#byNode.has(node) ? { ...mounted, key: this.#byNode.get(node) } : mounted
  }

  accepted(node: string, { key }: EngineCredentials): void {
    this.#byNode.set(node, key)
    if (this.#accepted.has(key)) return
    this.#accepted.add(key)
    // Another rotation than the one before.
    this.#leftMs = this.#options.limitMs
  }

  /**
   * What to try after these keys were refused, one after the other; undefined when there is nothing more
   * to wait for. Once all were tried, it waits and begins again.
   */
  async next(tried: Set<string | undefined>): Promise<EngineCredentials | undefined> {
    const mounted = await this.#options.read()
    const untried = [mounted.key, ...this.#accepted].filter((key) => !tried.has(key))
    if (untried.length === 0) {
      // A key that never worked is wrong, and stays so.
      if (this.#accepted.size === 0 || this.#leftMs <= 0) return undefined
      this.#options.waiting()
      await this.#options.time.sleep(POLL_MS, this.#options.signal)
      this.#leftMs -= POLL_MS
      tried.clear()
      return this.next(tried)
    }
    const [key] = untried
    tried.add(key)
    return { ...mounted, key }
  }
}
