/** Paths of payload fields as the engine writes them: quotes only where they are needed (facts 4). */

const RAW = String.raw`[\p{Alphabetic}\p{N}_-]+`
const STEP = new RegExp(
  String.raw`(?<dot>\.?)(?:(?<raw>${RAW})|"(?<quoted>[^"]*)")|(?<item>\[\d*\])`,
  'uy',
)
const NEEDS_NO_QUOTES = new RegExp(`^${RAW}$`, 'u')
/** What nearly all paths are. */
const PLAIN = new RegExp(String.raw`^${RAW}(\.${RAW})*$`, 'u')

/** The path in its one form; what is no path is left to the engine to refuse. */
export function normalPath(path: string): string {
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
    parts.push(item ?? dot + (raw ?? keyOf(quoted)))
  }
  return parts.join('')
}

function keyOf(quoted: string): string {
  return NEEDS_NO_QUOTES.test(quoted) ? quoted : `"${quoted}"`
}
