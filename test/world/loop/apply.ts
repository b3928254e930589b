/**
 * The three-way merge by which a child is brought to what is desired: what the last desired object
 * named and this one does not is taken away, what this one names is set, the rest stays as it is.
 */
import { clone } from '../api/json.ts'
import type { ApiObject } from '../client.ts'
import { isRecord } from './object.ts'

export const LAST_APPLIED = 'metacontroller.k8s.io/last-applied-configuration'

/** Fields by which lists of objects are taken for maps, in the order in which they are tried. */
const MERGE_KEYS = ['containerPort', 'port', 'mountPath', 'name', 'uid', 'ip', 'path']

/** What the API server writes; a wish about these would make a difference for ever. */
const SYSTEM_FIELDS = [
  'selfLink',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'managedFields',
]

type Fields = Record<string, unknown>

/** The observed object, brought to what is desired. Equal to it where nothing is to be done. */
export function merged(observed: ApiObject, desired: ApiObject): ApiObject {
  const text = observed.metadata.annotations?.[LAST_APPLIED]
  const last: unknown = text === undefined || text === '' ? undefined : JSON.parse(text)
  const wish = withoutLastApplied(desired)
  const result = merge(clone(observed), last, wish) as ApiObject & Fields
  const metadata = result.metadata as ApiObject['metadata'] & Fields
  for (const field of SYSTEM_FIELDS) {
    restore(metadata, observed.metadata as ApiObject['metadata'] & Fields, field)
  }
  restore(result, observed, 'status')
  return withLastApplied(result, wish)
}

/** Notes on the object what was desired, so that a later pass knows what it may take away. */
export function withLastApplied(object: ApiObject, desired: ApiObject): ApiObject {
  const annotations = { ...object.metadata.annotations, [LAST_APPLIED]: canonical(desired) }
  return { ...object, metadata: { ...object.metadata, annotations } }
}

function withoutLastApplied(desired: ApiObject): ApiObject {
  if (desired.metadata.annotations?.[LAST_APPLIED] === undefined) return desired
  const annotations = { ...desired.metadata.annotations }
  Reflect.deleteProperty(annotations, LAST_APPLIED)
  return { ...desired, metadata: { ...desired.metadata, annotations } }
}

function restore(target: Fields, source: Fields, field: string): void {
  if (field in source) target[field] = source[field]
  else Reflect.deleteProperty(target, field)
}

/** A wish of another type than what is there counts as a wish for nothing in it. */
function merge(target: unknown, last: unknown, wish: unknown): unknown {
  if (isRecord(target)) {
    return mergeFields(target, isRecord(last) ? last : {}, isRecord(wish) ? wish : {})
  }
  if (Array.isArray(target)) {
    return mergeLists(target, listOf(last), listOf(wish))
  }
  return wish
}

function mergeFields(target: Fields, last: Fields, wish: Fields): Fields {
  const dropped = Object.keys(last).filter((field) => !(field in wish))
  for (const field of dropped) Reflect.deleteProperty(target, field)
  for (const [field, value] of Object.entries(wish)) {
    target[field] = merge(target[field], last[field], value)
  }
  return target
}

function mergeLists(target: unknown[], last: unknown[], wish: unknown[]): unknown[] {
  const key = mergeKey([...target, ...last, ...wish])
  if (key === undefined) return wish
  const [there, before, desired] = [target, last, wish].map((list) => byKey(list as Fields[], key))
  const result = mergeFields(there ?? {}, before ?? {}, desired ?? {})
  // Items keep the order they have; new ones follow in the order of the wish.
  const order = [...target, ...wish].map((item) => String((item as Fields)[key]))
  return [...new Set(order)].filter((name) => name in result).map((name) => result[name])
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function byKey(list: Fields[], key: string): Fields {
  return Object.fromEntries(list.map((item) => [String(item[key]), item]))
}

/** The first known key that every item has; undefined for lists of anything but such objects. */
function mergeKey(items: unknown[]): string | undefined {
  if (items.length === 0 || !items.every(isRecord)) return undefined
  return MERGE_KEYS.find((key) => items.every((item) => key in item))
}

/** Fields in alphabetical order, as Go writes a map: equal objects are equal texts. */
function canonical(value: unknown): string {
  const text = JSON.stringify(value, (_, inner: unknown) =>
    isRecord(inner) ? Object.fromEntries(Object.entries(inner).sort(byName)) : inner,
  )
  return text.replace(/[<>&\u2028\u2029]/g, (sign) => {
    return `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

function byName([one]: [string, unknown], [other]: [string, unknown]): number {
  return one < other ? -1 : 1
}
