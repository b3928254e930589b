/** Paths of payload fields as the engine writes them, quoted only if necessary. */

const UNQUOTED_KEY = String.raw`[\p{Alphabetic}\p{N}_-]+`
const STEP = new RegExp(
  String.raw`(?<dot>\.?)(?:(?<raw>${UNQUOTED_KEY})|"(?<quoted>[^"]*)")|(?<item>\[\d*\])`,
  'uy',
)
const UNQUOTED = new RegExp(`^${UNQUOTED_KEY}$`, 'u')
/** The common case: only unquoted keys. */
const PLAIN = new RegExp(String.raw`^${UNQUOTED_KEY}(\.${UNQUOTED_KEY})*$`, 'u')

/** The canonical form of a path; an invalid path is returned unchanged and rejected by the engine. */
export function canonicalPath(path: string): string {
  if (PLAIN.test(path)) return path
  const parts: string[] = []
  STEP.lastIndex = 0
  while (STEP.lastIndex < path.length) {
    const match = STEP.exec(path)
    if (match === null) return path
    const { dot = '', raw, quoted = '', item } = match.groups ?? {}
    const isFirst = parts.length === 0
    if (item !== undefined && isFirst) return path
    if (item === undefined && (dot === '') !== isFirst) return path
    parts.push(item ?? dot + (raw ?? quoteKey(quoted)))
  }
  return parts.join('')
}

function quoteKey(quoted: string): string {
  return UNQUOTED.test(quoted) ? quoted : `"${quoted}"`
}
