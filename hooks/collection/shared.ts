/**
 * What all collections of a cluster share: readiness, version and aliases, asked once in ten seconds,
 * and a limit on the passes at once. A thousand collections are a thousand syncs, not as many calls.
 */
import { RETRY_SECONDS } from '../../crds/limits.ts'
import type { Alias } from '../../crds/rules/answers.ts'
import type { CollectionEngine } from './ports.ts'

const FRESH_MS = 10_000
const FORGOTTEN_MS = 600_000
const PASSES_AT_ONCE = 8

/** An answer is nobody's alone: the end of one pass must not end it for the others. */
const NEVER = new AbortController().signal

/** The clusters by their connection: another key Secret or TLS is another engine. */
export class SharedEngines {
  readonly #known = new Map<string, SharedEngine>()
  readonly #now: () => Date

  constructor(now: () => Date) {
    this.#now = now
  }

  of(key: string, engine: () => CollectionEngine): SharedEngine {
    const time = this.#now().getTime()
    for (const [other, { usedAt }] of this.#known) {
      if (usedAt < time - FORGOTTEN_MS) this.#known.delete(other)
    }
    const shared = this.#known.get(key) ?? new SharedEngine(engine(), this.#now)
    shared.usedAt = time
    this.#known.set(key, shared)
    return shared
  }
}

interface Memory<T> {
  at: number
  value: Promise<T>
  /** It has been answered. */
  isThere: boolean
}

export class SharedEngine {
  readonly engine: CollectionEngine
  readonly #now: () => Date
  readonly #memory = new Map<string, Memory<unknown>>()
  readonly #queue: (() => void)[] = []
  #running = 0
  #restUntil = 0
  usedAt = 0

  constructor(engine: CollectionEngine, now: () => Date) {
    this.engine = engine
    this.#now = now
  }

  /** False too while an engine that did not answer is left alone. */
  async readyz(signal: AbortSignal): Promise<boolean> {
    if (this.#now().getTime() < this.#restUntil) return false
    return this.#shared('readyz', () => this.engine.readyz(NEVER), signal)
  }

  version(signal: AbortSignal): Promise<string> {
    return this.#shared('version', () => this.engine.version(NEVER), signal)
  }

  aliases(signal: AbortSignal): Promise<Alias[]> {
    return this.#shared('aliases', () => this.engine.aliases(NEVER), signal)
  }

  /** Before aliases are changed, and after: what was known of them is not good enough. */
  forgetAliases(): void {
    this.#memory.delete('aliases')
  }

  /** The engine did not answer: nobody asks it for a while. */
  leaveAlone(): void {
    this.#restUntil = this.#now().getTime() + RETRY_SECONDS * 1000
  }

  /** Runs the work once fewer than eight others are under way. */
  async inTurn<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (this.#running >= PASSES_AT_ONCE) await this.#turn(signal)
    else this.#running += 1
    try {
      return await work()
    } finally {
      this.#passOn()
    }
  }

  /** The turn goes to the next in line, so the number that runs stays the same. */
  #passOn(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#running -= 1
    else next()
  }

  async #turn(signal: AbortSignal): Promise<void> {
    let enter: () => void = () => undefined
    const turn = new Promise<void>((resolve) => {
      enter = resolve
    })
    this.#queue.push(enter)
    try {
      await unlessEnded(turn, signal)
    } catch (error) {
      const place = this.#queue.indexOf(enter)
      // It may have come in the very moment in which the pass was ended.
      if (place < 0) this.#passOn()
      else this.#queue.splice(place, 1)
      throw error
    }
  }

  #shared<T>(name: string, ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const time = this.#now().getTime()
    const known = this.#memory.get(name) as Memory<T> | undefined
    const isFresh = known !== undefined && time - known.at < FRESH_MS
    const memory = isFresh ? known : this.#asked(name, ask())
    // Nobody waits for what is there.
    return memory.isThere ? memory.value : unlessEnded(memory.value, signal)
  }

  #asked<T>(name: string, value: Promise<T>): Memory<T> {
    const memory = { at: this.#now().getTime(), value, isThere: false }
    this.#memory.set(name, memory)
    value.then(
      () => {
        memory.isThere = true
      },
      () => {
        if (this.#memory.get(name) === memory) this.#memory.delete(name)
      },
    )
    return memory
  }
}

/** What was asked for all goes on without the pass that ends. */
function unlessEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const end = () => reject(new Error('the pass was ended'))
    if (signal.aborted) end()
    signal.addEventListener('abort', end)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
  })
}
