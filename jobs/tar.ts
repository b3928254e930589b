/** Parses tar headers, as written by the engine and by GNU tar. */

export const BLOCK = 512

/** The header of a file, whose bytes follow it. */
export interface TarHeader {
  name: string
  size: number
  /** The type flag: `0` for a file, `L` for a long name, `S` for a sparse file. */
  type: string
  /** Further blocks with the map of a sparse file precede its bytes. */
  hasMoreSparseMap: boolean
}

const NAME = { at: 0, end: 100 }
/** Octal digits, or a binary number if they are not sufficient. */
const SIZE = { at: 124, end: 136 }
const CHECKSUM = { at: 148, end: 156 }
const TYPE_AT = 156
/**
 * POSIX; GNU tar writes two spaces here and uses the space of the POSIX name prefix for other
 * fields.
 */
const MAGIC = { at: 257, end: 263, value: 'ustar\0' }
const PREFIX = { at: 345, end: 500 }
const SPARSE = 'S'
/** GNU tar stores the map of a sparse file in its header, and in further blocks if it is long. */
const HEADER_CONTINUED_AT = 482
const BLOCK_CONTINUED_AT = 504
const SPACE = 0x20
const BINARY = 0x80
const BINARY_START = Buffer.from([BINARY, 0, 0, 0, 0, 0])

/** Whether it is a zero block, which ends a tar in place of a header. */
export function isZeroBlock(block: Buffer): boolean {
  return block.every((byte) => byte === 0)
}

/** Undefined if the block is not a header. */
export function parseHeader(block: Buffer): TarHeader | undefined {
  const sum = block.reduce((total, byte) => total + byte, 0)
  const checksumBytes = block
    .subarray(CHECKSUM.at, CHECKSUM.end)
    .reduce((total, byte) => total + byte, 0)
  // The checksum was computed with spaces in its own field.
  const expected = sum - checksumBytes + (CHECKSUM.end - CHECKSUM.at) * SPACE
  const size = readNumber(block, SIZE)
  if (readNumber(block, CHECKSUM) !== expected || size === undefined) return undefined
  const type = String.fromCharCode(block[TYPE_AT] ?? 0)
  const hasMoreSparseMap = type === SPARSE && block[HEADER_CONTINUED_AT] === 1
  return { name: readName(block), size, type, hasMoreSparseMap }
}

/** For a block with the map of a sparse file: whether another one follows. */
export function continuesSparseMap(block: Buffer): boolean {
  return block[BLOCK_CONTINUED_AT] === 1
}

/** Bytes of a file including the padding of its last block. */
export function paddedSize(size: number): number {
  return Math.ceil(size / BLOCK) * BLOCK
}

function readName(block: Buffer): string {
  const name = readText(block, NAME)
  const isPosix = block.toString('latin1', MAGIC.at, MAGIC.end) === MAGIC.value
  const prefix = isPosix ? readText(block, PREFIX) : ''
  return prefix === '' ? name : `${prefix}/${name}`
}

function readText(block: Buffer, { at, end }: { at: number; end: number }): string {
  const field = block.subarray(at, end)
  const length = field.indexOf(0)
  return field.toString('utf8', 0, length === -1 ? field.length : length)
}

/**
 * Undefined if it is not a number of bytes: skipping that many would never end. Octal digits, or a
 * binary number after a first byte of 0x80, whose last six bytes hold any real size.
 */
function readNumber(block: Buffer, { at, end }: { at: number; end: number }): number | undefined {
  const first = block[at] ?? 0
  if (first >= BINARY) {
    const isOutOfRange = !block.subarray(at, end - 6).equals(BINARY_START)
    return isOutOfRange ? undefined : block.readUIntBE(end - 6, 6)
  }
  const digits = block.toString('latin1', at, end).replaceAll('\0', ' ').trim()
  return /^[0-7]*$/.test(digits) ? Number.parseInt(`0${digits}`, 8) : undefined
}
