/**
 * Fills the parts of an upload from a stream and hands them out, a few at a time. The same few buffers are
 * used again and again, so that memory does not depend on the size of the object.
 */
import { StorageError } from '../../crds/errors.ts'
import { MAX_PARTS } from '../../crds/parts.ts'
import { humanSize } from '../../crds/size.ts'
import type { Parts } from './upload-memory.ts'

/** Reason of the error of an upload whose parts were too small for what came. */
export const PARTS_USED_UP = 'PartsUsedUp'

type Send = (body: Buffer, number: number, signal: AbortSignal) => Promise<void>

export class PartQueue {
  readonly #parts: Parts
  readonly #send: Send
  readonly #stop = new AbortController()
  readonly #running = new Set<Promise<void>>()
  readonly #free: Buffer[] = []
  #part: Buffer | undefined
  #filled = 0
  #number = 0
  #sent = 0
  #failure: { error: unknown } | undefined

  constructor(parts: Parts, send: Send) {
    this.#parts = parts
    this.#send = send
  }

  async add(chunk: Uint8Array): Promise<void> {
    let rest = chunk
    while (rest.length > 0) {
      this.#throwFailure()
      // A full part goes out only once there is more: the last one may be the only one.
      if (this.#filled === this.#parts.partBytes) await this.#dispatch()
      const part = (this.#part ??= this.#empty())
      const taken = rest.subarray(0, part.length - this.#filled)
      part.set(taken, this.#filled)
      this.#filled += taken.length
      rest = rest.subarray(taken.length)
    }
  }

  /** All that came, where it fits one part and none was sent. */
  whole(): Buffer | undefined {
    if (this.#number > 0) return undefined
    return this.#part?.subarray(0, this.#filled) ?? Buffer.alloc(0)
  }

  /** Sends the rest; answers how many bytes there were. */
  async end(): Promise<number> {
    if (this.#filled > 0) await this.#dispatch()
    await Promise.all(this.#running)
    this.#throwFailure()
    return this.#sent
  }

  /** No part is being sent after this. */
  async abandon(): Promise<void> {
    this.#stop.abort(new Error('the upload is abandoned'))
    await Promise.all(this.#running)
  }

  async #dispatch(): Promise<void> {
    while (this.#running.size >= this.#parts.buffers - 1) await Promise.race(this.#running)
    this.#throwFailure()
    const part = this.#part
    if (part === undefined) return
    this.#number += 1
    if (this.#number > MAX_PARTS) throw usedUp(this.#parts.partBytes)
    this.#sent += this.#filled
    const sent: Promise<void> = this.#send(
      part.subarray(0, this.#filled),
      this.#number,
      this.#stop.signal,
    )
      .then(() => void this.#free.push(part))
      .catch((error: unknown) => (this.#failure ??= { error }))
      .then(() => void this.#running.delete(sent))
    this.#running.add(sent)
    this.#part = undefined
    this.#filled = 0
  }

  #empty(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#parts.partBytes)
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

export function usedUp(partBytes: number): StorageError {
  return new StorageError(
    `the object is larger than ${humanSize(partBytes * MAX_PARTS)}, which is all that ${MAX_PARTS} parts of ${humanSize(partBytes)} hold: it was estimated to be smaller`,
    { reason: PARTS_USED_UP },
  )
}
