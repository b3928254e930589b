/** Syntax of labels and annotations, and sizes of Secrets and ConfigMaps, as the API server checks them. */
import type { ApiObject } from '../client.ts'
import { invalidValue } from './causes.ts'
import type { Cause } from './failure.ts'
import { recordAt, type Json } from './json.ts'

const NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/
const PREFIX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const MAX_NAME = 63
const MAX_PREFIX = 253
const MAX_DATA_BYTES = 1024 * 1024
const DATA_KEY = /^[-._a-zA-Z0-9]+$/

/** Labels of the object and of the pods it describes, and keys of its annotations. */
export function labelCauses(object: ApiObject): Cause[] {
  const fields = ['metadata.labels', 'spec.template.metadata.labels', 'spec.selector.matchLabels']
  return fields.flatMap((field) =>
    mapCauses(recordAt(object, field), field.replace('template.metadata', 'template')),
  )
}

/** Keys of the annotations of the object and of its pods. */
export function annotationCauses(object: ApiObject): Cause[] {
  return ['metadata.annotations', 'spec.template.metadata.annotations'].flatMap((field) =>
    Object.keys(recordAt(object, field))
      .filter((key) => !isQualifiedName(key.toLowerCase()))
      .map((key) =>
        invalidValue(field.replace('template.metadata', 'template'), key, QUALIFIED_NAME),
      ),
  )
}

/** Keys and size of the data of a Secret or a ConfigMap. */
export function dataCauses(object: ApiObject): Cause[] {
  const isSecret = object.kind === 'Secret'
  const entries = [...Object.entries(recordAt(object, 'data')), ...binaryData(object)]
  const bytes = entries.reduce((sum, [, value]) => {
    const text = String(value)
    return sum + (isSecret ? Buffer.from(text, 'base64').length : Buffer.byteLength(text))
  }, 0)
  const size = `Too long: may not be more than ${MAX_DATA_BYTES} bytes`
  return [
    ...entries
      .filter(([key]) => !DATA_KEY.test(key) || key.length > 253 || key === '.' || key === '..')
      .map(([key]) => ({
        field: `data[${key}]`,
        message: `Invalid value: "${key}": a valid config key must consist of alphanumeric characters, '-', '_' or '.'`,
      })),
    ...(bytes > MAX_DATA_BYTES ? [{ field: isSecret ? 'data' : '', message: size }] : []),
  ]
}

function binaryData(object: ApiObject): [string, unknown][] {
  return object.kind === 'ConfigMap' ? Object.entries(recordAt(object, 'binaryData')) : []
}

/** Keys and values of a map of labels. */
export function mapCauses(labels: Json, field: string): Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...(isQualifiedName(key) ? [] : [invalidValue(field, key, QUALIFIED_NAME)]),
    ...(typeof value === 'string' && isLabelValue(value)
      ? []
      : [invalidValue(field, value, LABEL_VALUE)]),
  ])
}

const QUALIFIED_NAME =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
const LABEL_VALUE =
  "a valid label must be an empty string or consist of at most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"

function isQualifiedName(key: string): boolean {
  const parts = key.split('/')
  if (parts.length > 2) return false
  const name = parts.at(-1) ?? ''
  const [prefix] = parts.length === 2 ? parts : []
  if (prefix !== undefined && (!PREFIX.test(prefix) || prefix.length > MAX_PREFIX)) return false
  return NAME.test(name) && name.length <= MAX_NAME
}

function isLabelValue(value: string): boolean {
  return value === '' || (NAME.test(value) && value.length <= MAX_NAME)
}
