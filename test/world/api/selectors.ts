/** Label and field selectors, in the syntax of the query string. */
import type { ApiObject } from '../client.ts'
import { valueAt } from './json.ts'
import { badRequest } from './failure.ts'

export type Selector = (object: ApiObject) => boolean

/** The two selectors of a list or a watch together. */
export function selectorOf(labels: string | null, fields: string | null): Selector {
  const byLabels = labelSelector(labels ?? '')
  const byFields = fieldSelector(fields ?? '')
  return (object) => byLabels(object) && byFields(object)
}

/** `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, joined by commas. */
export function labelSelector(text: string): Selector {
  const requirements = splitOutsideParentheses(text).map(labelRequirement)
  return ({ metadata }) => requirements.every((holds) => holds(metadata.labels ?? {}))
}

/** `path=value` and `path!=value`, joined by commas; any path is allowed. */
export function fieldSelector(text: string): Selector {
  const requirements = splitOutsideParentheses(text).map((term) => {
    const match = /^([^=!]+)(=|==|!=)([^=]*)$/.exec(term)
    if (match === null) throw badRequest(`unable to parse field selector "${term}"`)
    const [, path = '', operator, value] = match
    return (object: ApiObject) => (textAt(object, path) === value) === (operator !== '!=')
  })
  return (object) => requirements.every((holds) => holds(object))
}

/** The selector of a workload's spec: `{ matchLabels }`. */
export function matches(
  labels: Record<string, string> = {},
  required: Record<string, string> = {},
) {
  return Object.entries(required).every(([key, value]) => labels[key] === value)
}

type Requirement = (labels: Record<string, string>) => boolean

function labelRequirement(term: string): Requirement {
  const set = /^(\S+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(term)
  if (set !== null) {
    const [, key = '', operator, list = ''] = set
    const values = list.split(',').map((value) => value.trim())
    return (labels) => values.includes(labels[key] ?? '\0') === (operator === 'in')
  }
  const compared = /^([^=!\s]+)\s*(=|==|!=)\s*([^=\s]*)$/.exec(term)
  if (compared !== null) {
    const [, key = '', operator, value] = compared
    return (labels) => (labels[key] === value) === (operator !== '!=')
  }
  const present = /^(!?)([^=!\s]+)$/.exec(term)
  if (present === null) throw badRequest(`unable to parse requirement: "${term}"`)
  const [, not, key = ''] = present
  return (labels) => key in labels === (not === '')
}

function splitOutsideParentheses(text: string): string[] {
  return text
    .split(/,(?![^(]*\))/)
    .map((term) => term.trim())
    .filter((term) => term !== '')
}

/** A field that is not set compares as its zero value: an empty text, or zero for a count. */
function textAt(object: ApiObject, path: string): string {
  // The only field that is named otherwise than it is stored.
  const value =
    path === 'status.successful'
      ? (valueAt(object, 'status.succeeded') ?? 0)
      : valueAt(object, path)
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : ''
}
