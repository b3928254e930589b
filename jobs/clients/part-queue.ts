/**
 * Fills the parts of an upload from a stream and hands them out, a few at a time. A few buffers are used in
 * turns, so that memory does not depend on the size of the object.
 */

const LEAST_IN_FLIGHT = 2

interface Measures {
  /** By the number of a part. */
  sizeOf: (number: number) => number
  inFlightBytes: number
}

export class PartQueue {
  readonly #measures: Measures
  readonly #send: (body: Buffer, number: number) => Promise<void>
  readonly #stop = new AbortController()
  readonly #running = new Set<Promise<void>>()
  readonly #free: Buffer[] = []
  #part: Buffer
  #filled = 0
  #number = 0
  #sent = 0
  #failure: { error: unknown } | undefined

  constructor(measures: Measures, send: (body: Buffer, number: number) => Promise<void>) {
    this.#measures = measures
    this.#send = send
    this.#part = this.#empty(1)
  }

  /** Ends when the caller's does, and when one part has failed. */
  signal(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.#stop.signal : AbortSignal.any([this.#stop.signal, signal])
  }

  async add(chunk: Uint8Array): Promise<void> {
    let rest = chunk
    while (rest.length > 0) {
      this.#throwFailure()
      const taken = rest.subarray(0, this.#part.length - this.#filled)
      this.#part.set(taken, this.#filled)
      this.#filled += taken.length
      rest = rest.subarray(taken.length)
      if (this.#filled === this.#part.length) await this.#dispatch()
    }
  }

  /** Answers how many bytes it were. */
  async end(): Promise<number> {
    if (this.#filled > 0) await this.#dispatch()
    await Promise.all(this.#running)
    this.#throwFailure()
    return this.#sent
  }

  /** Nothing of it goes on after this. */
  async abandon(): Promise<void> {
    this.#stop.abort(new Error('the upload is abandoned'))
    await Promise.all(this.#running)
  }

  async #dispatch(): Promise<void> {
    while (this.#running.size >= this.#atOnce()) await Promise.race(this.#running)
    this.#throwFailure()
    const part = this.#part
    this.#number += 1
    this.#sent += this.#filled
    const sent: Promise<void> = this.#send(part.subarray(0, this.#filled), this.#number)
      .then(() => void this.#free.push(part))
      .catch((error: unknown) => (this.#failure ??= { error }))
      .then(() => void this.#running.delete(sent))
    this.#running.add(sent)
    this.#part = this.#empty(this.#number + 1)
    this.#filled = 0
  }

  #atOnce(): number {
    const parts = Math.floor(this.#measures.inFlightBytes / this.#part.length)
    return Math.max(LEAST_IN_FLIGHT, parts)
  }

  #empty(number: number): Buffer {
    const bytes = this.#measures.sizeOf(number)
    const used = this.#free.pop()
    return used?.length === bytes ? used : Buffer.allocUnsafeSlow(bytes)
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}
