/**
 * Follows a tar as its bytes pass, to tell whether it came to its end. The engine streams a shard without
 * a length and without a checksum (facts 6.6): a stream that ended early may look like one that is whole.
 */
import { BLOCK, headerIn, isEmpty, isMapContinued, paddedSize } from '../../tar.ts'

/** `foreign`: it is no tar, or one of a kind that no engine makes. */
export type ArchiveState = 'partial' | 'whole' | 'foreign'

export class Archive {
  readonly #block = Buffer.alloc(BLOCK)
  #filled = 0
  /** Bytes of the file whose header was read last. */
  #size = 0
  /** Bytes of it, and of what fills up its last block, that are still to come. */
  #toSkip = 0
  /** The next block belongs to the map of a sparse file, whose bytes follow it. */
  #isMap = false
  #state: ArchiveState = 'partial'

  get state(): ArchiveState {
    return this.#state
  }

  add(chunk: Uint8Array): void {
    let rest = chunk
    while (rest.length > 0 && this.#state === 'partial') {
      const skipped = Math.min(this.#toSkip, rest.length)
      this.#toSkip -= skipped
      const taken = rest.subarray(skipped, skipped + BLOCK - this.#filled)
      this.#block.set(taken, this.#filled)
      this.#filled += taken.length
      rest = rest.subarray(skipped + taken.length)
      if (this.#filled === BLOCK) this.#read()
    }
  }

  #read(): void {
    this.#filled = 0
    if (this.#isMap) this.#isMap = isMapContinued(this.#block)
    else if (isEmpty(this.#block)) this.#state = 'whole'
    else this.#readHeader()
    if (this.#isMap) return
    this.#toSkip = paddedSize(this.#size)
    this.#size = 0
  }

  #readHeader(): void {
    const header = headerIn(this.#block)
    if (header === undefined) {
      this.#state = 'foreign'
      return
    }
    this.#isMap = header.hasMoreMap
    this.#size = header.size
  }
}
