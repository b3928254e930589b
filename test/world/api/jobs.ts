/** What Kubernetes checks and fills in for a Job. */
import type { ApiObject } from '../client.ts'
import { atLeast, duplicate, invalidValue, itemsOf, oneOf, required } from './causes.ts'
import { immutable, type Cause } from './failure.ts'
import { equal, isRecord, recordAt, valueAt, type Json } from './json.ts'
import { podCauses } from './pod-template.ts'

export function withJobDefaults(object: ApiObject): ApiObject {
  const { uid = '', name } = object.metadata
  const spec = recordAt(object, 'spec')
  const labels = {
    'batch.kubernetes.io/controller-uid': uid,
    'batch.kubernetes.io/job-name': name,
    'controller-uid': uid,
    'job-name': name,
  }
  const template = recordAt(spec, 'template')
  const metadata = recordAt(template, 'metadata')
  const given = recordAt(metadata, 'labels') as Record<string, string>
  return {
    ...object,
    metadata: { ...(Object.keys(given).length > 0 && { labels: given }), ...object.metadata },
    spec: {
      parallelism: 1,
      completions: 1,
      completionMode: 'NonIndexed',
      backoffLimit: 6,
      suspend: false,
      podReplacementPolicy: 'podFailurePolicy' in spec ? 'Failed' : 'TerminatingOrFailed',
      selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } },
      ...spec,
      template: { ...template, metadata: { ...metadata, labels: { ...given, ...labels } } },
    },
    status: {},
  }
}

/** A client that writes the Job as it made it does not know what the API server added. */
export function withJobLabels(object: ApiObject, old: ApiObject): ApiObject {
  return { ...object, spec: { ...recordAt(old, 'spec'), ...recordAt(object, 'spec') } }
}

const IMMUTABLE = ['template', 'selector', 'completions', 'completionMode', 'podFailurePolicy']
const COUNTS = [
  'parallelism',
  'completions',
  'backoffLimit',
  'activeDeadlineSeconds',
  'ttlSecondsAfterFinished',
]

export function jobCauses(object: ApiObject, old: ApiObject | undefined): Cause[] {
  const spec = recordAt(object, 'spec')
  const pod = recordAt(spec, 'template.spec')
  const { completionMode, podReplacementPolicy } = spec
  const replacements = 'podFailurePolicy' in spec ? ['Failed'] : ['Failed', 'TerminatingOrFailed']
  return [
    ...COUNTS.flatMap((count) => atLeast(`spec.${count}`, spec[count], 0)),
    ...oneOf('spec.completionMode', completionMode, ['Indexed', 'NonIndexed']),
    ...oneOf('spec.podReplacementPolicy', podReplacementPolicy, replacements),
    ...restartCauses(pod, 'podFailurePolicy' in spec),
    ...selectorCauses(object),
    ...itemsOf(valueAt(spec, 'podFailurePolicy.rules'), 'spec.podFailurePolicy.rules').flatMap(
      ({ item, path }) => ruleCauses(item, path, pod),
    ),
    ...podCauses(pod, 'spec.template.spec'),
    ...(old === undefined ? [] : changed(object, old)),
  ]
}

function changed(object: ApiObject, old: ApiObject): Cause[] {
  return IMMUTABLE.filter(
    (field) => !equal(valueAt(object, `spec.${field}`), valueAt(old, `spec.${field}`)),
  ).map((field) => immutable(`spec.${field}`, valueAt(object, `spec.${field}`)))
}

function restartCauses({ restartPolicy }: Json, hasRules: boolean): Cause[] {
  const field = 'spec.template.spec.restartPolicy'
  // Absent it is Always.
  if (restartPolicy === undefined || restartPolicy === null || restartPolicy === 'Always') {
    return [required(field, 'valid values: "OnFailure", "Never"')]
  }
  if (!hasRules || restartPolicy === 'Never') return []
  return [invalidValue(field, restartPolicy, 'only "Never" is supported with podFailurePolicy')]
}

function selectorCauses({ metadata: { uid = '' }, spec }: ApiObject): Cause[] {
  const selector = valueAt(spec, 'selector.matchLabels')
  if (equal(selector, { 'batch.kubernetes.io/controller-uid': uid })) return []
  const labels = valueAt(spec, 'template.metadata.labels')
  return [
    invalidValue('spec.selector', selector, '`selector` not auto-generated'),
    invalidValue(
      'spec.template.metadata.labels',
      labels,
      '`selector` does not match template `labels`',
    ),
  ]
}

const ACTIONS = ['Count', 'FailIndex', 'FailJob', 'Ignore']
const BOTH =
  'specifying one of OnExitCodes and OnPodConditions is required, and both are not supported'

function ruleCauses(rule: Json, path: string, pod: Json): Cause[] {
  const { onExitCodes, onPodConditions } = rule
  const conditions = itemsOf(onPodConditions, `${path}.onPodConditions`)
  return [
    ...oneOf(`${path}.action`, rule['action'], ACTIONS),
    ...(isRecord(onExitCodes) === conditions.length > 0 ? [invalidValue(path, '', BOTH)] : []),
    ...(isRecord(onExitCodes) ? exitCodeCauses(onExitCodes, `${path}.onExitCodes`, pod) : []),
    ...conditions.flatMap(({ item, path: at }) =>
      oneOf(`${at}.status`, item['status'], ['False', 'True', 'Unknown']),
    ),
  ]
}

function exitCodeCauses(codes: Json, path: string, pod: Json): Cause[] {
  const { containerName, operator } = codes
  const values: unknown[] = Array.isArray(codes['values']) ? codes['values'] : []
  const names = ['containers', 'initContainers'].flatMap((list) =>
    itemsOf(pod[list], list).map(({ item }) => item['name']),
  )
  const isKnown = containerName === undefined || names.includes(containerName)
  const isBare = values.length === 0
  return [
    ...oneOf(`${path}.operator`, operator ?? '', ['In', 'NotIn']),
    ...(isBare ? [invalidValue(`${path}.values`, values, 'at least one value is required')] : []),
    ...values.flatMap((value, index) => valueCauses(value, index, { values, path, operator })),
    ...(isKnown
      ? []
      : [
          invalidValue(
            `${path}.containerName`,
            containerName,
            'must be one of the container or initContainer names in the pod template',
          ),
        ]),
  ]
}

function valueCauses(
  value: unknown,
  index: number,
  { values, path, operator }: { values: unknown[]; path: string; operator: unknown },
): Cause[] {
  const field = `${path}.values[${index}]`
  if (values.indexOf(value) < index) return [duplicate(field, value)]
  if (operator === 'In' && value === 0)
    return [invalidValue(field, value, 'must not be 0 for the In operator')]
  return []
}
