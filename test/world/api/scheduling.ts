/** What Kubernetes has against the fields that choose a node. */
import { atLeast, invalidValue, isAbsent, itemsOf, oneOf, repeated, required } from './causes.ts'
import type { Cause } from './failure.ts'
import { isRecord, recordAt, valueAt, type Json } from './json.ts'
import { mapCauses } from './labels.ts'

export function schedulingCauses(spec: Json, path: string): Cause[] {
  return [
    ...mapCauses(recordAt(spec, 'nodeSelector'), `${path}.nodeSelector`),
    ...itemsOf(spec['tolerations'], `${path}.tolerations`).flatMap(ofToleration),
    ...spreadCauses(spec['topologySpreadConstraints'], `${path}.topologySpreadConstraints`),
    ...nodeAffinityCauses(valueAt(spec, 'affinity.nodeAffinity'), `${path}.affinity.nodeAffinity`),
    ...['podAffinity', 'podAntiAffinity'].flatMap((name) =>
      podAffinityCauses(valueAt(spec, `affinity.${name}`), `${path}.affinity.${name}`),
    ),
  ]
}

interface Item {
  item: Json
  path: string
}

const EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute']

function ofToleration({ item, path }: Item): Cause[] {
  const { key, value, effect, tolerationSeconds } = item
  const operator = item['operator'] ?? 'Equal'
  const field = `${path}.operator`
  const because = 'must be Exists when `key` is empty, and `value` must be empty then'
  const isBad =
    (isAbsent(key) && operator !== 'Exists') || (operator === 'Exists' && !isAbsent(value))
  const waits = tolerationSeconds !== undefined && effect !== 'NoExecute'
  return [
    ...(isBad
      ? [invalidValue(field, operator, because)]
      : oneOf(field, operator, ['Equal', 'Exists'])),
    ...(waits
      ? [invalidValue(`${path}.effect`, effect ?? '', 'must be NoExecute with tolerationSeconds')]
      : oneOf(`${path}.effect`, effect, EFFECTS)),
  ]
}

function spreadCauses(list: unknown, path: string): Cause[] {
  const spreads = itemsOf(list, path)
  const pairs = spreads.map(
    ({ item }) => `${String(item['topologyKey'])} ${String(item['whenUnsatisfiable'])}`,
  )
  const same = spreads.flatMap(({ path: at }, index) => {
    const isRepeated = pairs.indexOf(pairs[index] ?? '', index + 1) !== -1
    return isRepeated ? [`${at}.{topologyKey, whenUnsatisfiable}`] : []
  })
  return [
    ...same.flatMap((field) =>
      repeated([
        { field, value: field },
        { field, value: field },
      ]),
    ),
    ...spreads.flatMap(({ item: { maxSkew, topologyKey, whenUnsatisfiable = '' }, path: at }) => [
      ...atLeast(`${at}.maxSkew`, maxSkew ?? 0, 1),
      ...(isAbsent(topologyKey) ? [required(`${at}.topologyKey`)] : []),
      ...reaction(`${at}.whenUnsatisfiable`, whenUnsatisfiable),
    ]),
  ]
}

/** It has no default. */
function reaction(field: string, value: unknown): Cause[] {
  return oneOf(field, isAbsent(value) ? ' ' : value, ['DoNotSchedule', 'ScheduleAnyway'])
}

const REQUIRED = 'requiredDuringSchedulingIgnoredDuringExecution'
const PREFERRED = 'preferredDuringSchedulingIgnoredDuringExecution'

function nodeAffinityCauses(affinity: unknown, path: string): Cause[] {
  const must = valueAt(affinity, REQUIRED)
  const terms = itemsOf(valueAt(must, 'nodeSelectorTerms'), `${path}.${REQUIRED}.nodeSelectorTerms`)
  const preferred = itemsOf(valueAt(affinity, PREFERRED), `${path}.${PREFERRED}`)
  return [
    ...(isRecord(must) && terms.length === 0
      ? [required(`${path}.${REQUIRED}.nodeSelectorTerms`)]
      : []),
    ...terms.flatMap(expressionCauses),
    ...preferred.flatMap(({ item, path: at }) => [
      ...weightCauses(item, at),
      ...expressionCauses({ item: recordAt(item, 'preference'), path: `${at}.preference` }),
    ]),
  ]
}

const OPERATORS = ['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']

function expressionCauses({ item, path }: Item): Cause[] {
  return itemsOf(item['matchExpressions'], `${path}.matchExpressions`).flatMap(
    ({ item: { operator, values }, path: at }) => {
      if (!OPERATORS.includes(String(operator))) {
        return [invalidValue(`${at}.operator`, operator, 'not a valid selector operator')]
      }
      const needsValues = operator === 'In' || operator === 'NotIn'
      const isEmpty = !Array.isArray(values) || values.length === 0
      return needsValues && isEmpty ? [required(`${at}.values`)] : []
    },
  )
}

function podAffinityCauses(affinity: unknown, path: string): Cause[] {
  return [
    ...itemsOf(valueAt(affinity, REQUIRED), `${path}.${REQUIRED}`).flatMap(termCauses),
    ...itemsOf(valueAt(affinity, PREFERRED), `${path}.${PREFERRED}`).flatMap(
      ({ item, path: at }) => [
        ...weightCauses(item, at),
        ...termCauses({ item: recordAt(item, 'podAffinityTerm'), path: `${at}.podAffinityTerm` }),
      ],
    ),
  ]
}

function termCauses({ item, path }: Item): Cause[] {
  const field = `${path}.topologyKey`
  if (!isAbsent(item['topologyKey'])) return []
  // As a label it is none either, and Kubernetes gives both reasons.
  return [required(field), invalidValue(field, '', 'name part must be non-empty')]
}

function weightCauses({ weight }: Json, path: string): Cause[] {
  if (Number(weight) >= 1 && Number(weight) <= 100) return []
  return [invalidValue(`${path}.weight`, weight, 'must be in the range 1-100')]
}
