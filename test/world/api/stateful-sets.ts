/** What Kubernetes checks and fills in for a StatefulSet. */
import type { ApiObject } from '../client.ts'
import { atLeast, invalidValue, itemsOf, oneOf, required } from './causes.ts'
import type { Cause } from './failure.ts'
import { equal, recordAt, valueAt } from './json.ts'
import { podCauses } from './pod-template.ts'
import { matches } from './selectors.ts'

export const STATEFUL_SET = {
  replicas: 1,
  podManagementPolicy: 'OrderedReady',
  revisionHistoryLimit: 10,
  updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
  persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
}

const STATEFUL_SET_MUTABLE = [
  'replicas',
  'ordinals',
  'template',
  'updateStrategy',
  'revisionHistoryLimit',
  'persistentVolumeClaimRetentionPolicy',
  'minReadySeconds',
]

export function statefulSetCauses(object: ApiObject, old: ApiObject | undefined): Cause[] {
  const causes = [...selectorCauses(object), ...statefulSetSpecCauses(object)]
  if (old === undefined) return causes
  const fixed = (of: ApiObject) =>
    Object.fromEntries(
      Object.entries(recordAt(of, 'spec')).filter(([key]) => !STATEFUL_SET_MUTABLE.includes(key)),
    )
  if (equal(fixed(object), fixed(old))) return causes
  const quoted = STATEFUL_SET_MUTABLE.map((field) => `'${field}'`)
  const list = `${quoted.slice(0, -1).join(', ')} and ${String(quoted.at(-1))}`
  const message = `Forbidden: updates to statefulset spec for fields other than ${list} are forbidden`
  return [...causes, { field: 'spec', message }]
}

function statefulSetSpecCauses(object: ApiObject): Cause[] {
  const spec = recordAt(object, 'spec')
  const pod = recordAt(spec, 'template.spec')
  const claims = itemsOf(spec['volumeClaimTemplates'], '').map(({ item }) =>
    String(recordAt(item, 'metadata')['name']),
  )
  const isOneOf = (value: unknown, known: string[], field: string) =>
    known.includes(String(value)) ? [] : [invalidValue(field, value, 'not a known value')]
  const strategy = valueAt(spec, 'updateStrategy.type')
  return [
    ...atLeast('spec.replicas', spec['replicas'], 0),
    ...isOneOf(
      spec['podManagementPolicy'],
      ['OrderedReady', 'Parallel'],
      'spec.podManagementPolicy',
    ),
    ...isOneOf(strategy, ['RollingUpdate', 'OnDelete'], 'spec.updateStrategy'),
    ...oneOf('spec.template.spec.restartPolicy', pod['restartPolicy'], ['Always']),
    ...podCauses(pod, 'spec.template.spec', claims),
  ]
}

function selectorCauses(object: ApiObject): Cause[] {
  const selector = recordAt(object, 'spec.selector.matchLabels') as Record<string, string>
  const labels = recordAt(object, 'spec.template.metadata.labels') as Record<string, string>
  const isNone = Object.keys(selector).length === 0
  if (!isNone && matches(labels, selector)) return []
  return [
    ...(isNone ? [required('spec.selector')] : []),
    invalidValue(
      'spec.template.metadata.labels',
      labels,
      '`selector` does not match template `labels`',
    ),
  ]
}
