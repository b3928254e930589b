/** DER, as far as a certificate needs it: a value is its tag, its length, and its bytes. */

const TAGS = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const

/** UTCTime has two digits for the year, and means one before this. */
const FIRST_GENERALIZED_YEAR = 2050

export function tagged(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content])
}

export function sequence(...items: Buffer[]): Buffer {
  return tagged(TAGS.sequence, ...items)
}

export function setOf(...items: Buffer[]): Buffer {
  return tagged(TAGS.set, ...items)
}

/** A number of any size that is not negative, in big-endian bytes. */
export function integer(bytes: Buffer): Buffer {
  const first = bytes[0] ?? 0
  // The highest bit is the sign.
  return tagged(TAGS.integer, first >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes)
}

export function truth(): Buffer {
  return tagged(TAGS.boolean, Buffer.from([0xff]))
}

export function utf8(text: string): Buffer {
  return tagged(TAGS.utf8, Buffer.from(text))
}

export function octets(content: Buffer): Buffer {
  return tagged(TAGS.octetString, content)
}

/** Bits, of which the last `unused` do not count. */
export function bits(content: Buffer, unused = 0): Buffer {
  return tagged(TAGS.bitString, Buffer.from([unused]), content)
}

/** Such as `2.5.29.17`. */
export function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  return tagged(TAGS.objectId, Buffer.from([40 * first + second, ...rest.flatMap(base128)]))
}

/** To the second, in UTC. */
export function instant(date: Date): Buffer {
  const digits = `${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, '')}Z`
  return date.getUTCFullYear() < FIRST_GENERALIZED_YEAR
    ? tagged(TAGS.utcTime, Buffer.from(digits.slice(2)))
    : tagged(TAGS.generalizedTime, Buffer.from(digits))
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length])
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return Buffer.from([0x80 + bytes.length, ...bytes])
}

/** Seven bits a byte; all but the last have the highest bit set. */
function base128(number: number): number[] {
  const bytes = [number % 128]
  for (let rest = Math.floor(number / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift(0x80 + (rest % 128))
  }
  return bytes
}
