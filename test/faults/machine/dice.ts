/**
 * Reproducible random numbers: drawn from a seed, and used by every source of randomness in this process.
 */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 to below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** An integer from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  oneOf<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[this.between(0, items.length - 1)] ?? items[0]
  }

  bytes(length: number): Buffer<ArrayBuffer> {
    return Buffer.from(Array.from({ length }, () => this.between(0, 255)))
  }
}

/** Makes every source of randomness in this process draw from dice. The replacement is permanent. */
export function installDice(): { set(dice: Dice): void } {
  let dice = new Dice(0)
  Math.random = () => dice.next()
  Object.assign(crypto, {
    randomBytes: (length: number) => dice.bytes(length),
    randomInt: (from: number, to?: number) =>
      to === undefined ? dice.between(0, from - 1) : dice.between(from, to - 1),
    randomUUID: () => uuid(dice.bytes(16)),
  })
  syncBuiltinESMExports()
  return { set: (next) => (dice = next) }
}

function uuid(bytes: Buffer): string {
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
