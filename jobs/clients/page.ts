/** A page of points, cut out of the answer of a scroll: the array stays as it came, for it is forwarded. */
import { orderOfIds } from './ids.ts'
import { fieldsOf, itemsOf, valueAt } from './raw-json.ts'

export interface Page {
  /** A JSON array of points: one piece, or two where it was cut. */
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
const EMPTY = Buffer.from('[]')
const CLOSING = Buffer.from(']')

/** Throws `SyntaxError` on what is no page. A page that is not the last has as many points as `limit`. */
export function pageOf(answer: Buffer, limit: number): Page {
  return quickPage(answer, limit) ?? slowPage(answer)
}

function quickPage(answer: Buffer, limit: number): Page | undefined {
  if (!answer.subarray(0, HEAD.length).equals(HEAD)) return undefined
  const end = answer.lastIndexOf(MIDDLE)
  if (end < answer.length - MAX_TAIL) return undefined
  const [, next] = TAIL.exec(answer.toString('utf8', end + MIDDLE.length)) ?? []
  if (next === undefined) return undefined
  const points = answer.subarray(HEAD.length - 1, end + 1)
  const page = { points: [points], bytes: points.length }
  if (next === 'null') return { ...page, count: itemsOf(points).length }
  return { ...page, count: limit, next }
}

/** What of a page comes before an id; nothing is behind it then. */
export function pageBefore({ points }: Page, until: string): Page {
  const [text = EMPTY] = points
  const before = itemsOf(text).filter(({ start }) => orderOfIds(idAt(text, start), until) < 0)
  const last = before.at(-1)
  const cut = last === undefined ? [EMPTY] : [text.subarray(0, last.end), CLOSING]
  return { points: cut, bytes: lengthOf(cut), count: before.length }
}

/** Ids of its points, as JSON. */
export function idsIn({ points }: Page): string[] {
  const [only] = points
  const text = points.length === 1 && only !== undefined ? only : Buffer.concat(points)
  return itemsOf(text).map(({ start }) => idAt(text, start))
}

/** As the engine begins each point. */
const FIRST_FIELD = Buffer.from('{"id":')

/** Id of the point that begins at an offset, as JSON. */
export function idAt(text: Buffer, start: number): string {
  const behind = start + FIRST_FIELD.length
  const isFirst = text.subarray(start, behind).equals(FIRST_FIELD)
  const id = isFirst ? valueAt(text, behind) : fieldsOf(text, start).get('id')
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
