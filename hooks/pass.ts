/**
 * Calls to an engine that a decision needs. A hook has five seconds and an engine may take an
 * hour: a pass gets one second inline, then goes on in the background while the last result is shown.
 */

const INLINE_MS = 1_000
const FIRST_RETRY_SECONDS = 2
const LAST_RETRY_SECONDS = 30

/** What is known of a pass when a decision is made. */
export interface PassResult<T> {
  /** The newest result there is; undefined until the first one. */
  value?: T
  /** A pass is still under way: look again after so many seconds. */
  againAfterSeconds?: number
}

interface Entry<T> {
  underWay: UnderWay | undefined
  last: { value: T; at: number } | undefined
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

  /** A result younger than `freshSeconds` is good enough for another decision. */
  constructor(freshSeconds: number, inlineMs = INLINE_MS) {
    this.#freshSeconds = freshSeconds
    this.#inlineMs = inlineMs
  }

  /** A room that knows better when a pass is due says so. */
  async result(
    uid: string,
    now: Date,
    pass: (signal: AbortSignal) => Promise<T>,
    isWanted = true,
  ): Promise<PassResult<T>> {
    const entry = this.#entryOf(uid)
    const isDue = isWanted && this.#isDue(entry, now.getTime())
    if (isDue) entry.underWay ??= start(entry, now, pass)
    if (entry.underWay !== undefined) await settledWithin(entry.underWay.end, this.#inlineMs)
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
  }

  #entryOf(uid: string): Entry<T> {
    const known = this.#entries.get(uid)
    if (known !== undefined) return known
    const entry = { underWay: undefined, last: undefined, looks: 0, restUntil: 0 }
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
      },
      () => {
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
  const value = entry.last === undefined ? {} : { value: entry.last.value }
  if (entry.underWay === undefined) return value
  const pause = Math.min(FIRST_RETRY_SECONDS * 2 ** entry.looks, LAST_RETRY_SECONDS)
  entry.looks += 1
  return { ...value, againAfterSeconds: pause }
}

async function settledWithin(work: Promise<void>, milliseconds: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds)
  })
  await Promise.race([work, limit])
  clearTimeout(timer)
}
