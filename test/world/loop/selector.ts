/** Label selectors, and the selector by which a parent knows its children. */
import { Value } from '@sinclair/typebox/value'
import type { ApiObject } from '../client.ts'
import { LabelSelector, type CompositeController } from './composite.ts'
import { describe, isRecord } from './object.ts'

export type Labels = Record<string, string>
export type Matches = (labels: Labels | undefined) => boolean

/** Marks the children of a parent when the selector is generated. */
export const UID_LABEL = 'controller-uid'

/** Without a selector everything matches. */
export function matcher({ matchLabels = {}, matchExpressions = [] }: LabelSelector = {}): Matches {
  const expressions = [
    ...Object.entries(matchLabels).map(([key, value]) => ({
      key,
      operator: 'In',
      values: [value],
    })),
    ...matchExpressions,
  ]
  return (labels = {}) => expressions.every((expression) => holds(expression, labels))
}

/** Selects the children of this parent; throws where the parent names no usable selector. */
export function childSelector({ spec }: CompositeController, parent: ApiObject): Matches {
  if (spec.generateSelector === true) {
    return matcher({ matchLabels: { [UID_LABEL]: parent.metadata.uid ?? '' } })
  }
  const selector: unknown = isRecord(parent.spec) ? (parent.spec['selector'] ?? {}) : {}
  if (!Value.Check(LabelSelector, selector)) {
    throw new Error(`can't get label selector from ${describe(parent)}`)
  }
  const { matchLabels = {}, matchExpressions = [] } = selector
  // An empty selector would claim every object of the namespace.
  if (Object.keys(matchLabels).length + matchExpressions.length === 0) {
    throw new Error('.spec.selector must have either matchLabels, matchExpressions, or both')
  }
  return matcher(selector)
}

function holds(
  { key, operator, values = [] }: { key: string; operator: string; values?: string[] },
  labels: Labels,
): boolean {
  const value = labels[key]
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value)
    case 'NotIn':
      return value === undefined || !values.includes(value)
    case 'Exists':
      return value !== undefined
    case 'DoesNotExist':
      return value === undefined
    default:
      throw new Error(`${operator} is not a valid label selector operator`)
  }
}
