/**
 * A page of points, cut out of the answer of a scroll: the array stays in the pieces it came in, for it
 * is forwarded, and joining them would cost more than all the rest.
 */
import { orderOfIds } from './ids.ts'
import { fieldsOf, itemsOf } from './raw-json.ts'

export interface Page {
  /** A JSON array of points, in pieces. */
  points: readonly Buffer[]
  /** Of all pieces together. */
  bytes: number
  /** Of points. */
  count: number
  /** Id the next page begins with, as JSON; absent behind the last one. */
  next?: string
}

/** How the engine begins its answer, and how it ends: what stands between is not looked at. */
const HEAD = Buffer.from('{"result":{"points":[')
const MIDDLE = Buffer.from('],"next_page_offset":')
const TAIL = /^(null|\d+|"[0-9a-f-]{36}")\},"status":"ok","time":[\d.e-]+(,"usage":\{[^[\]]*\})?\}$/
const MAX_TAIL = 4096
const EMPTY = [Buffer.from('[]')]
const CLOSING = Buffer.from(']')

/** Throws `SyntaxError` on what is no page. A page that is not the last has as many points as `limit`. */
export function pageOf(answer: readonly Buffer[], limit: number): Page {
  return quickPage(answer, limit) ?? slowPage(Buffer.concat(answer))
}

function quickPage(answer: readonly Buffer[], limit: number): Page | undefined {
  const [first] = answer
  if (first?.subarray(0, HEAD.length).equals(HEAD) !== true) return undefined
  const { end, next } = tailOf(answer)
  if (next === undefined) return undefined
  const points = between(answer, HEAD.length - 1, end + 1)
  const page = { points, bytes: end + 1 - (HEAD.length - 1) }
  if (next === 'null') return { ...page, count: itemsOf(Buffer.concat(points)).length }
  return { ...page, count: limit, next }
}

/** Where the array of points ends, and what the engine says comes next. */
function tailOf(answer: readonly Buffer[]): { end: number; next?: string | undefined } {
  const length = lengthOf(answer)
  const from = Math.max(0, length - MAX_TAIL)
  const tail = Buffer.concat(between(answer, from, length))
  const end = tail.lastIndexOf(MIDDLE)
  if (end === -1) return { end }
  const [, next] = TAIL.exec(tail.toString('utf8', end + MIDDLE.length)) ?? []
  return { end: from + end, next }
}

/** The bytes from one offset to another, in the pieces they stand in. */
function between(pieces: readonly Buffer[], from: number, to: number): Buffer[] {
  const found: Buffer[] = []
  let start = 0
  for (const piece of pieces) {
    const end = start + piece.length
    if (start < to && end > from) {
      found.push(piece.subarray(Math.max(0, from - start), Math.min(piece.length, to - start)))
    }
    start = end
  }
  return found
}

/** What of a page comes before an id; nothing is behind it then. */
export function pageBefore({ points }: Page, until: string): Page {
  const text = Buffer.concat(points)
  const before = itemsOf(text).filter(({ start }) => orderOfIds(idAt(text, start), until) < 0)
  const last = before.at(-1)
  const cut = last === undefined ? EMPTY : [text.subarray(0, last.end), CLOSING]
  return { points: cut, bytes: lengthOf(cut), count: before.length }
}

/** Id of the point that begins at an offset, as JSON. */
export function idAt(text: Buffer, start: number): string {
  const id = fieldsOf(text, start).get('id')
  if (id === undefined) throw new SyntaxError('a point without id')
  return text.toString('utf8', id.start, id.end)
}

/** Whatever the order of its fields. */
function slowPage(answer: Buffer): Page {
  const result = fieldsOf(answer).get('result')
  if (result === undefined) throw new SyntaxError('no result')
  const fields = fieldsOf(answer, result.start)
  const points = fields.get('points')
  if (points === undefined) throw new SyntaxError('no points')
  const offset = fields.get('next_page_offset')
  const next = offset && answer.toString('utf8', offset.start, offset.end)
  return {
    points: [answer.subarray(points.start, points.end)],
    bytes: points.end - points.start,
    count: itemsOf(answer, points.start).length,
    ...(next !== undefined && next !== 'null' && { next }),
  }
}

function lengthOf(pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}
