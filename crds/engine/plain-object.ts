/** Plain objects with names that users choose: a vector may be named `__proto__` or `constructor`. */

export type PlainObject = Record<string, unknown>

export function isPlainObject(value: unknown): value is PlainObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
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
