/** Looks through the JSON text of a request before it is parsed. */

interface RequestText {
  /** Without the managed fields of its objects, which no hook reads: up to half of it, in many small values. */
  json: string
  /** Number of values in it; more if the text is not JSON. */
  values: number
}

const [QUOTE, BACKSLASH, COMMA, COLON] = codesOf('"\\,:')
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = codesOf('[]{}')
const MANAGED_FIELDS = 'managedFields'

function codesOf(characters: string): number[] {
  return Array.from(characters, (character) => character.charCodeAt(0))
}

export function scanRequest(text: string): RequestText {
  const parts: string[] = []
  /** Key of each list and map around the position; '' in a list, and for the request itself. */
  const path: string[] = []
  let copiedUntil = 0
  let values = 1
  let key = ''
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfString(text, at)
      const isKey = text.charCodeAt(end + 1) === COLON
      if (isKey) key = text.slice(at + 1, end)
      const isList = isKey && text.charCodeAt(end + 2) === OPEN_LIST
      if (isList && key === MANAGED_FIELDS && isMetadataOfObject(path)) {
        const list = endOfList(text, end + 2)
        if (list === undefined) return { json: text, values: text.length }
        // With the comma after it, or else the one before it.
        const hasNext = text.charCodeAt(list) === COMMA
        const isLast = !hasNext && text.charCodeAt(at - 1) === COMMA
        parts.push(text.slice(copiedUntil, isLast ? at - 1 : at))
        copiedUntil = hasNext ? list + 1 : list
        at = copiedUntil - 1
      } else at = end
    } else if (code === COMMA) {
      values += 1
      key = ''
    } else if (code === OPEN_LIST || code === OPEN_MAP) {
      values += 1
      path.push(key)
      key = ''
    } else if (code === CLOSE_LIST || code === CLOSE_MAP) {
      path.pop()
    }
  }
  const json = parts.length === 0 ? text : parts.join('') + text.slice(copiedUntil)
  return { json, values }
}

/** As `parent.metadata`, or `children.<kind>.<name>.metadata`. */
function isMetadataOfObject(path: string[]): boolean {
  if (path.at(-1) !== 'metadata') return false
  const [, first] = path
  return first === 'parent' ? path.length === 3 : path.length === 5 && isGroup(first)
}

function isGroup(key: string | undefined): boolean {
  return key === 'children' || key === 'related'
}

/** Position after the list that begins here; undefined if it has no end. */
function endOfList(text: string, start: number): number | undefined {
  let depth = 0
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === OPEN_LIST) depth += 1
    else if (code === CLOSE_LIST && (depth -= 1) === 0) return at + 1
  }
  return undefined
}

/** Position of the quote that closes the string. */
function endOfString(text: string, start: number): number {
  let end = start
  do {
    end = text.indexOf('"', end + 1)
    if (end === -1) return text.length
  } while (isEscaped(text, end))
  return end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1
  return backslashes % 2 === 1
}
