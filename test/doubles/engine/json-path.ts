/** Paths of payload fields: parsed, and written with quotes only where they are needed. */

const KEY = /^[\p{Alphabetic}\p{N}_-]+/u

/** The path in its normal form; undefined when it is none. */
export function normalised(path: string): string | undefined {
  let rest = path
  let normal = ''
  while (rest !== '' || normal === '') {
    const isFirst = normal === ''
    const item = isFirst ? undefined : /^\[\d*\]/.exec(rest)?.[0]
    if (item !== undefined) {
      normal += item
      rest = rest.slice(item.length)
      continue
    }
    if (!isFirst) {
      if (!rest.startsWith('.')) return undefined
      rest = rest.slice(1)
    }
    const quoted = /^"([^"]*)"/.exec(rest)
    const raw = KEY.exec(rest)?.[0]
    const key = quoted?.[1] ?? raw
    if (key === undefined) return undefined
    rest = rest.slice(quoted?.[0].length ?? key.length)
    normal += `${isFirst ? '' : '.'}${KEY.exec(key)?.[0] === key ? key : `"${key}"`}`
  }
  return normal
}
