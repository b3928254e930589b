/**
 * Follows a tar as its bytes pass, to tell whether it came to its end. The engine streams a shard without
 * a length and without a checksum (facts 6.6): a stream that ended early may look like one that is whole.
 */

const BLOCK = 512
/** Where a header says so: octal digits, or a binary number where they do not suffice. */
const SIZE = { at: 124, end: 136 }
const CHECKSUM = { at: 148, end: 156 }
const TYPE_AT = 156
/** GNU tar keeps the map of a sparse file in its header, and in further blocks where it is long. */
const SPARSE = 'S'.charCodeAt(0)
const MORE_IN_HEADER_AT = 482
const MORE_IN_BLOCK_AT = 504
const SPACE = 0x20
const BINARY = 0x80
const BINARY_START = Buffer.from([BINARY, 0, 0, 0, 0, 0])

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
    if (this.#isMap) this.#isMap = this.#block[MORE_IN_BLOCK_AT] === 1
    // Its end: a block of nothing where a header would stand.
    else if (this.#block.every((byte) => byte === 0)) this.#state = 'whole'
    else this.#readHeader()
    if (this.#isMap) return
    this.#toSkip = Math.ceil(this.#size / BLOCK) * BLOCK
    this.#size = 0
  }

  #readHeader(): void {
    const sum = this.#block.reduce((all, byte) => all + byte, 0)
    const own = this.#block.subarray(CHECKSUM.at, CHECKSUM.end).reduce((all, byte) => all + byte, 0)
    // It was made while spaces stood in its own place.
    const expected = sum - own + (CHECKSUM.end - CHECKSUM.at) * SPACE
    const size = numberIn(this.#block, SIZE)
    if (numberIn(this.#block, CHECKSUM) !== expected || size === undefined) {
      this.#state = 'foreign'
      return
    }
    this.#isMap = this.#block[TYPE_AT] === SPARSE && this.#block[MORE_IN_HEADER_AT] === 1
    this.#size = size
  }
}

/**
 * Undefined for what is no number of bytes: skipping that many would never end. Octal digits, or behind
 * a first byte of 0x80 a binary number, of which the last six bytes hold any size there is.
 */
function numberIn(block: Buffer, { at, end }: { at: number; end: number }): number | undefined {
  const first = block[at] ?? 0
  if (first >= BINARY) {
    const isNegativeOrTooLarge = !block.subarray(at, end - 6).equals(BINARY_START)
    return isNegativeOrTooLarge ? undefined : block.readUIntBE(end - 6, 6)
  }
  const digits = block.toString('latin1', at, end).replaceAll('\0', ' ').trim()
  return /^[0-7]*$/.test(digits) ? Number.parseInt(`0${digits}`, 8) : undefined
}
