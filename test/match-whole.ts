/** A comparison for answers of which a test names only some fields. */
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'

type Asserts = Pick<Test, 'currentAssert' | 'strictSame'>

/**
 * As `t.match`, where a list has all items that it is expected to have and no others, text is the whole text,
 * and an empty object is empty. Only fields that the pattern does not name are left out. In a pattern,
 * regular expressions and the constructors `String`, `Number`, `Boolean` and `Object` stand for what varies.
 */
export function matchWhole(
  t: Asserts,
  found: unknown,
  pattern: unknown,
  message?: string,
): boolean {
  // A failure is reported where this was called.
  t.currentAssert = matchWhole
  return t.strictSame(found, expected(found, pattern), message ?? 'found matches')
}

/** What was found, with what does not match replaced by the pattern: the difference is what is printed. */
function expected(found: unknown, pattern: unknown): unknown {
  if (pattern instanceof RegExp) {
    return typeof found === 'string' && pattern.test(found) ? found : pattern
  }
  if (typeof pattern === 'function') return isOf(found, pattern) ? found : pattern
  if (Array.isArray(pattern)) return expectedItems(found, pattern)
  if (isPlain(pattern)) return expectedFields(found, pattern)
  return isDeepStrictEqual(found, pattern) ? found : pattern
}

function expectedItems(found: unknown, pattern: unknown[]): unknown {
  if (!Array.isArray(found)) return pattern
  const items = pattern.map((item, index) => expected(found[index], item))
  const isSame =
    found.length === items.length && items.every((item, index) => Object.is(item, found[index]))
  return isSame ? found : items
}

function expectedFields(found: unknown, pattern: Record<string, unknown>): unknown {
  if (typeof found !== 'object' || found === null) return pattern
  const fields = found as Record<string, unknown>
  if (Object.keys(pattern).length === 0) {
    return isPlain(found) && Object.keys(found).length === 0 ? found : pattern
  }
  const desired = Object.entries(pattern).map(
    ([name, value]) => [name, expected(fields[name], value)] as const,
  )
  const isSame = desired.every(([name, value]) => Object.is(value, fields[name]))
  return isSame ? found : { ...fields, ...Object.fromEntries(desired) }
}

function isOf(found: unknown, constructor: object): boolean {
  if (constructor === Object) return isPlain(found)
  return (
    found !== undefined && found !== null && (Object(found) as object).constructor === constructor
  )
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
