/** Plain objects with names that users choose: a vector may be named `__proto__` or `constructor`. */
import { isDeepStrictEqual } from 'node:util'
import { isExactNumber, isSameNumber } from './exact-json.ts'

export type PlainObject = Record<string, unknown>

export function isPlainObject(value: unknown): value is PlainObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value)
  )
}

/** Whether two JSON values are equal; `1.0` is `1`. */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (isExactNumber(a)) return isSameNumber(a, b)
  if (isExactNumber(b)) return isSameNumber(b, a)
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => isSameJson(item, b[index]))
  }
  if (!isPlainObject(a) || !isPlainObject(b)) return isDeepStrictEqual(a, b)
  const names = Object.keys(a)
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && isSameJson(a[name], b[name]))
  )
}

/** The value of an object's own field; undefined for values without fields. */
export function ownValue(value: unknown, name: string): unknown {
  return isPlainObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** The value at a path. */
export function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce(ownValue, value)
}

/** An object with each value at its path. */
export function fromPaths(parts: { path: readonly string[]; value: unknown }[]): PlainObject {
  const root: PlainObject = {}
  for (const { path, value } of parts) {
    const parent = path.slice(0, -1).reduce((object, name) => {
      const next = (ownValue(object, name) ?? {}) as PlainObject
      defineField(object, name, next)
      return next
    }, root)
    defineField(parent, path.at(-1) ?? '', value)
  }
  return root
}

/** Defines the property: assigning `__proto__` would change the prototype instead. */
function defineField(object: PlainObject, name: string, value: unknown): void {
  Object.defineProperty(object, name, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  })
}

/** The declared part of an object: `null` means "do not care". Undefined when no field is left. */
export function withoutNulls(value: PlainObject | undefined): PlainObject | undefined {
  const entries = Object.entries(value ?? {}).filter(([, field]) => field !== null)
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
