/** Whether two points are the same to the last digit: what differs is compared part by part, as it is written. */
import { fieldsOf, itemsOf, type Span } from '../clients/raw-json.ts'

const OBJECT = 0x7b
const ARRAY = 0x5b
const STRING = 0x22

/** Points as JSON; the order of the keys of a payload is nobody's choice. Nothing large is copied. */
export function samePoint(one: Buffer, other: Buffer | undefined): boolean {
  if (other === undefined) return false
  if (one.equals(other)) return true
  const [kind] = one
  if (kind !== other[0]) return false
  if (kind === OBJECT) return sameFields(one, other)
  if (kind === ARRAY) return sameItems(one, other)
  return kind === STRING && textOf(one) === textOf(other)
}

function sameFields(one: Buffer, other: Buffer): boolean {
  const [left, right] = [fieldsOf(one), fieldsOf(other)]
  return (
    left.size === right.size &&
    [...left].every(([name, span]) => samePoint(cut(one, span), part(other, right.get(name))))
  )
}

function sameItems(one: Buffer, other: Buffer): boolean {
  const [left, right] = [itemsOf(one), itemsOf(other)]
  return (
    left.length === right.length &&
    left.every((span, n) => samePoint(cut(one, span), part(other, right[n])))
  )
}

function part(text: Buffer, span: Span | undefined): Buffer | undefined {
  return span && cut(text, span)
}

function cut(text: Buffer, { start, end }: Span): Buffer {
  return text.subarray(start, end)
}

/** The same text may be written with escapes or without. */
function textOf(json: Buffer): unknown {
  return JSON.parse(json.toString())
}
