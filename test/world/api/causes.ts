/** The causes of Kubernetes for a refused field, with its reasons. */
import type { Cause } from './failure.ts'
import { isRecord, type Json } from './json.ts'

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

export function required(field: string, detail = ''): Cause {
  const message = detail === '' ? 'Required value' : `Required value: ${detail}`
  return { field, message, reason: 'FieldValueRequired' }
}

export function invalidValue(field: string, value: unknown, why: string): Cause {
  const message = `Invalid value: ${JSON.stringify(value)}: ${why}`
  return { field, message, reason: 'FieldValueInvalid' }
}

export function duplicate(field: string, value: unknown): Cause {
  const message = `Duplicate value: ${JSON.stringify(value)}`
  return { field, message, reason: 'FieldValueDuplicate' }
}

export function notThere(field: string, value: unknown): Cause {
  const message = `Not found: ${JSON.stringify(value)}`
  return { field, message, reason: 'FieldValueNotFound' }
}

export function notAllowed(field: string, why: string): Cause {
  return { field, message: `Forbidden: ${why}`, reason: 'FieldValueForbidden' }
}

/** A field that may be absent, and is one of these values otherwise. */
export function oneOf(field: string, value: unknown, supported: readonly string[]): Cause[] {
  if (isAbsent(value) || supported.includes(value as string)) return []
  const list = supported.map((one) => JSON.stringify(one)).join(', ')
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${list}`
  return [{ field, message, reason: 'FieldValueNotSupported' }]
}

/** A number that may be absent. */
export function atLeast(field: string, value: unknown, minimum: number): Cause[] {
  if (isAbsent(value) || Number(value) >= minimum) return []
  return [invalidValue(field, value, `must be greater than or equal to ${minimum}`)]
}

/** A name that may not be absent: a DNS label, or of DNS labels. */
export function dnsLabel(field: string, value: unknown): Cause[] {
  return isAbsent(value) ? [required(field)] : name(field, value, LABEL, 63)
}

export function dnsSubdomain(field: string, value: unknown): Cause[] {
  return isAbsent(value) ? [] : name(field, value, SUBDOMAIN, 253)
}

/** Names that occur before in the list. */
export function repeated(names: { field: string; value: unknown }[]): Cause[] {
  const seen = new Set<unknown>()
  return names.flatMap(({ field, value }) => {
    if (isAbsent(value)) return []
    if (seen.has(value)) return [duplicate(field, value)]
    seen.add(value)
    return []
  })
}

/** Text that is empty is absent to Kubernetes. */
export function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === ''
}

/** The objects of a list, with their paths; null in a list is an empty object. */
export function itemsOf(list: unknown, field: string): { item: Json; path: string }[] {
  if (!Array.isArray(list)) return []
  return list.map((item: unknown, index) => ({
    item: isRecord(item) ? item : {},
    path: `${field}[${index}]`,
  }))
}

function name(field: string, value: unknown, pattern: RegExp, max: number): Cause[] {
  const text = String(value)
  if (pattern.test(text) && text.length <= max) return []
  const why = `a lowercase RFC 1123 name of at most ${max} characters must consist of lower case alphanumeric characters or '-'`
  return [invalidValue(field, value, why)]
}
