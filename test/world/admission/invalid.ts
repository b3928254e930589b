/** The API server's error for an invalid object: a list of causes, and one message built from them. */

/** One thing that is wrong; the root of the object is the field `<nil>`. */
export interface Cause {
  field: string
  message: string
}

/** What the API server answers with 422. */
export class Invalid extends Error {
  readonly code = 'Invalid'
  readonly status = 422
  readonly reason = 'Invalid'
  readonly causes: Cause[]

  constructor(subject: string, causes: Cause[]) {
    const lines = causes.map(({ field, message }) => `${field}: ${message}`)
    const list = lines.length === 1 ? lines.join('') : `[${lines.join(', ')}]`
    super(`${subject} is invalid: ${list}`)
    this.causes = causes
  }
}

export const ROOT = '<nil>'

/** A value that is wrong in itself. */
export function invalidValue(field: string, value: unknown, detail: string): Cause {
  const printed = typeof value === 'object' ? `"${typeName(value)}"` : JSON.stringify(value)
  return { field, message: `Invalid value: ${printed}: ${detail}` }
}

/** The OpenAPI name of a value's type. */
export function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

/** Path of a property: the names of fields are joined by dots. */
export function fieldPath(parent: string, name: string): string {
  return parent === ROOT ? name : `${parent}.${name}`
}
