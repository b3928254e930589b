/**
 * Calls to an engine that a decision needs. A hook has five seconds and an engine may take an
 * hour: a pass gets one second inline, then goes on in the background while the last result is shown. A
 * hook that waits keeps one of Metacontroller's five workers of its kind: so only the hook that starts a
 * pass waits, and none where the engine was slow the last time.
 */

const INLINE_MS = 1_000
const FIRST_RETRY_SECONDS = 2
const LAST_RETRY_SECONDS = 30
/** Engines that are known to be slow; past it the oldest is given another chance. */
const MAX_SLOW = 1000

/** What is known of a pass when a decision is made. */
export interface PassResult<T> {
  /** The newest result there is; undefined until the first one. */
  value?: T
  /** What the newest pass threw; the value is that of an earlier one. */
  failure?: { error: unknown }
  /** A pass is still under way: look again after so many seconds. */
  againAfterSeconds?: number
}

export interface PassOptions {
  isWanted?: boolean
  /** Whom the pass asks; by default nobody else asks it. */
  engine?: string
}

interface Entry<T> {
  underWay: UnderWay | undefined
  last: { value: T; at: number } | undefined
  failure: { error: unknown } | undefined
  /** Looks at a running pass so far; each doubles the pause to the next. */
  looks: number
  restUntil: number
}

interface UnderWay {
  end: Promise<void>
  abort: AbortController
}

/** At most one pass per resource, keyed by uid. Holds what is under way and the last results. */
export class Passes<T> {
  readonly #entries = new Map<string, Entry<T>>()
  readonly #freshSeconds: number
  readonly #inlineMs: number
  /** Whose last pass took longer than a hook waits; the one noted last comes last. */
  readonly #slow = new Set<string>()

  /** A result younger than `freshSeconds` is good enough for another decision. */
  constructor(freshSeconds: number, inlineMs = INLINE_MS) {
    this.#freshSeconds = freshSeconds
    this.#inlineMs = inlineMs
  }

  /**
   * A room that knows better when a pass is due says so. Resources with the same `engine` wait for the
   * same one: where it was slow for one of them, the others do not wait for it.
   */
  async result(
    uid: string,
    now: Date,
    pass: (signal: AbortSignal) => Promise<T>,
    { isWanted = true, engine = uid }: PassOptions = {},
  ): Promise<PassResult<T>> {
    const entry = this.#entryOf(uid)
    const starts = isWanted && entry.underWay === undefined && this.#isDue(entry, now.getTime())
    if (starts) {
      const { end } = (entry.underWay = start(entry, now, pass))
      await this.#waited(engine, end)
    }
    return known(entry)
  }

  /** The newest result, without a look at what runs. */
  last(uid: string): T | undefined {
    return this.#entries.get(uid)?.last?.value
  }

  /** Ends the pass of a resource and waits for it, so that nothing is written afterwards. */
  async abort(uid: string): Promise<void> {
    const underWay = this.#entries.get(uid)?.underWay
    underWay?.abort.abort()
    await underWay?.end
    this.#entries.delete(uid)
    this.#slow.delete(uid)
  }

  /** One second at most, and nothing at all for an engine that is slow. */
  async #waited(engine: string, end: Promise<void>): Promise<void> {
    const started = performance.now()
    void end.then(() => this.#note(engine, performance.now() - started >= this.#inlineMs))
    if (this.#slow.has(engine)) return
    if (!(await isSettledWithin(end, this.#inlineMs))) this.#note(engine, true)
  }

  #note(engine: string, isSlow: boolean): void {
    this.#slow.delete(engine)
    if (!isSlow) return
    this.#slow.add(engine)
    const [oldest] = this.#slow
    if (this.#slow.size > MAX_SLOW && oldest !== undefined) this.#slow.delete(oldest)
  }

  #entryOf(uid: string): Entry<T> {
    const known = this.#entries.get(uid)
    if (known !== undefined) return known
    const entry = {
      ...{ underWay: undefined, last: undefined, failure: undefined },
      ...{ looks: 0, restUntil: 0 },
    }
    this.#entries.set(uid, entry)
    return entry
  }

  #isDue({ last, restUntil }: Entry<T>, now: number): boolean {
    return now >= restUntil && (last === undefined || now - last.at >= this.#freshSeconds * 1000)
  }
}

function start<T>(entry: Entry<T>, now: Date, pass: (signal: AbortSignal) => Promise<T>): UnderWay {
  const abort = new AbortController()
  entry.looks = 0
  const end = pass(abort.signal)
    .then(
      (value) => {
        entry.last = { value, at: now.getTime() }
        entry.failure = undefined
      },
      (error: unknown) => {
        // One that was ended throws because of that.
        if (!abort.signal.aborted) entry.failure = { error }
        // The last result stands; an engine that did not answer is left alone for a while.
        entry.restUntil = now.getTime() + LAST_RETRY_SECONDS * 1000
      },
    )
    .finally(() => {
      entry.underWay = undefined
    })
  return { end, abort }
}

function known<T>(entry: Entry<T>): PassResult<T> {
  const value = {
    ...(entry.last !== undefined && { value: entry.last.value }),
    ...(entry.failure !== undefined && { failure: entry.failure }),
  }
  if (entry.underWay === undefined) return value
  const pause = Math.min(FIRST_RETRY_SECONDS * 2 ** entry.looks, LAST_RETRY_SECONDS)
  entry.looks += 1
  return { ...value, againAfterSeconds: pause }
}

async function isSettledWithin(work: Promise<void>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, milliseconds, false)
  })
  const isSettled = await Promise.race([work.then(() => true), limit])
  clearTimeout(timer)
  return isSettled
}
