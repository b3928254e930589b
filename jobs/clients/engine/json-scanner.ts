/**
 * Slices JSON without parsing it: finds where values start and end in a buffer. Forwarding the
 * original bytes keeps every number as it was written and costs hardly any time.
 */

/** The position of a value in its text. */
export interface Span {
  start: number
  end: number
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const SPACE = 0x20

/**
 * The spans of the values of an array that starts at an offset. Throws `SyntaxError` if there is no
 * array.
 */
export function arraySpans(text: Buffer, start = 0): Span[] {
  const items: Span[] = []
  for (let at = skipOpening(text, start, OPEN_BRACKET); text[at] !== CLOSE_BRACKET;) {
    const end = valueEnd(text, at)
    items.push({ start: at, end })
    at = nextItem(text, end, CLOSE_BRACKET)
  }
  return items
}

/**
 * The spans of the fields of an object that starts at an offset. Throws `SyntaxError` if there is
 * no object.
 */
export function objectSpans(text: Buffer, start = 0): Map<string, Span> {
  const fields = new Map<string, Span>()
  for (let at = skipOpening(text, start, OPEN_BRACE); text[at] !== CLOSE_BRACE;) {
    const name = valueEnd(text, at)
    const colon = skipSpace(text, name)
    if (text[colon] !== COLON) throw new SyntaxError(`no colon at byte ${colon}`)
    const value = skipSpace(text, colon + 1)
    const end = valueEnd(text, value)
    fields.set(JSON.parse(text.toString('utf8', at, name)) as string, { start: value, end })
    at = nextItem(text, end, CLOSE_BRACE)
  }
  return fields
}

/** The span of the value that starts at an offset. */
export function valueSpan(text: Buffer, start: number): Span {
  return { start, end: valueEnd(text, start) }
}

/** Where the value that starts at an offset ends. */
function valueEnd(text: Buffer, start: number): number {
  const first = text[start]
  if (first === QUOTE) return stringEnd(text, start)
  if (first !== OPEN_BRACKET && first !== OPEN_BRACE) return literalEnd(text, start)
  let depth = 0
  let bracket = start
  for (let at = start; at < text.length; at += 1) {
    const byte = text[at]
    if (byte === QUOTE) at = stringEnd(text, at) - 1
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
      if (byte === OPEN_BRACKET && bracket <= at) bracket = closingBracket(text, at)
      if (byte === OPEN_BRACE || !holdsOnlyNumbers(text, at, bracket)) depth += 1
      else if (depth === 0) return bracket + 1
      else at = bracket
    } else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) {
      depth -= 1
      if (depth === 0) return at + 1
    }
  }
  throw new SyntaxError('the text ends within a value')
}

/** The first closing bracket after an offset. */
function closingBracket(text: Buffer, at: number): number {
  const closing = text.indexOf(CLOSE_BRACKET, at + 1)
  return closing === -1 ? text.length : closing
}

/**
 * Whether an array holds only numbers, so that its end can be found without scanning byte by byte.
 * The search ends at the next opening bracket, so no byte is searched for two arrays.
 */
function holdsOnlyNumbers(text: Buffer, open: number, close: number): boolean {
  const inside = text.subarray(open + 1, close)
  return (
    close < text.length && ![OPEN_BRACKET, QUOTE, OPEN_BRACE].some((byte) => inside.includes(byte))
  )
}

/** A string may be long: its end is searched for, and its content is not scanned byte by byte. */
function stringEnd(text: Buffer, start: number): number {
  for (let at = text.indexOf(QUOTE, start + 1); at !== -1; at = text.indexOf(QUOTE, at + 1)) {
    if (!isEscaped(text, at)) return at + 1
  }
  throw new SyntaxError('the text ends within a string')
}

/** Two backslashes stand for one literal backslash. */
function isEscaped(text: Buffer, at: number): boolean {
  let first = at
  while (text[first - 1] === BACKSLASH) first -= 1
  return (at - first) % 2 === 1
}

/** A number, true, false or null. */
function literalEnd(text: Buffer, start: number): number {
  let at = start
  while (at < text.length && !isDelimiter(text[at] ?? SPACE)) at += 1
  if (at === start) throw new SyntaxError(`no value at byte ${start}`)
  return at
}

function isDelimiter(byte: number): boolean {
  return byte <= SPACE || byte === COMMA || byte === CLOSE_BRACKET || byte === CLOSE_BRACE
}

function skipSpace(text: Buffer, start: number): number {
  let at = start
  while ((text[at] ?? Infinity) <= SPACE) at += 1
  return at
}

function skipOpening(text: Buffer, start: number, opening: number): number {
  const at = skipSpace(text, start)
  if (text[at] === opening) return skipSpace(text, at + 1)
  throw new SyntaxError(`no ${String.fromCharCode(opening)} at byte ${at}`)
}

/** The offset after the comma that follows a value, or of the closing byte after the last value. */
function nextItem(text: Buffer, end: number, closing: number): number {
  const at = skipSpace(text, end)
  if (text[at] === closing) return at
  if (text[at] !== COMMA) throw new SyntaxError(`no comma at byte ${at}`)
  return skipSpace(text, at + 1)
}
