/** Plain objects with names that people choose: a vector may be called `__proto__` or `constructor`. */

export type Plain = Record<string, unknown>

export function isPlain(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value of an object's own field; undefined for anything that has no fields. */
export function own(value: unknown, name: string): unknown {
  return isPlain(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** The value that stands at a path. */
export function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce(own, value)
}

/** An object with each value at its path. */
export function assembled(parts: { path: readonly string[]; value: unknown }[]): Plain {
  const whole: Plain = {}
  for (const { path, value } of parts) {
    const place = path.slice(0, -1).reduce((object, name) => {
      const next = (own(object, name) ?? {}) as Plain
      put(object, name, next)
      return next
    }, whole)
    put(place, path.at(-1) ?? '', value)
  }
  return whole
}

/** Assigning `__proto__` would change the prototype instead. */
function put(object: Plain, name: string, value: unknown): void {
  Object.defineProperty(object, name, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  })
}

/** What of an object is declared: `null` means "do not care". Undefined when nothing is left. */
export function declared(value: Plain | undefined): Plain | undefined {
  const entries = Object.entries(value ?? {}).filter(([, field]) => field !== null)
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
