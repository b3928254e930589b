/**
 * Rendered objects in a form that two charts can be compared in: what means the same looks the same,
 * what is random or a chart's own business is left out, all else counts.
 */
import { parseAllDocuments } from 'yaml'

/** Objects by `Kind/name`. */
export type Rendering = Record<string, unknown>

type Fields = Record<string, unknown>

/** How a container starts, and the script it starts with, are between a chart and its image. */
const OWN_BUSINESS = new Set(['command', 'args', 'initialize.sh'])
/** Lists whose order means nothing, by what names an item. */
const UNORDERED: Record<string, string> = {
  ports: 'name',
  volumes: 'name',
  volumeMounts: 'mountPath',
  env: 'name',
}

/** Every object of a `helm template`, except those of its tests. */
export function objectsOf(yaml: string): Rendering {
  const rendering: Rendering = {}
  for (const document of parseAllDocuments(yaml)) {
    const object = document.toJS() as Fields | null
    if (object === null || isTest(object)) continue
    const { name } = object['metadata'] as { name: string }
    rendering[`${String(object['kind'])}/${name}`] = normal(comparable(object))
  }
  return rendering
}

/** The checksums that roll the pods when they change. */
export function checksumsOf(yaml: string): Record<string, string> {
  const found = yaml.matchAll(/(checksum\/\w+): "?([0-9a-f]{64})/g)
  return Object.fromEntries([...found].map(([, name = '', value = '']) => [name, value]))
}

function isTest(object: Fields): boolean {
  const { annotations } = object['metadata'] as { annotations?: Record<string, string> }
  return annotations?.['helm.sh/hook'] === 'test'
}

function comparable(object: Fields): Fields {
  if (object['kind'] === 'Secret') return { ...object, data: keysOf(object['data']) }
  if (object['kind'] !== 'ConfigMap') return object
  const { 'production.yaml': config, ...rest } = object['data'] as Record<string, string>
  const parsed: unknown = config === undefined ? undefined : parseAllDocuments(config)[0]?.toJS()
  return { ...object, data: { ...rest, 'production.yaml': parsed } }
}

/** A generated key differs each time; for an engine's configuration only its shape is compared. */
function keysOf(data: unknown): Fields {
  const entries = Object.entries((data ?? {}) as Record<string, string>).map(([key, value]) => {
    const text = Buffer.from(value, 'base64').toString()
    return [key, text.replace(/[A-Za-z0-9]{32}/g, '<32 letters and digits>')]
  })
  return Object.fromEntries(entries) as Fields
}

/** Without what is empty, with sorted keys and lists. */
function normal(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => normal(item)).sort(by(UNORDERED[key]))
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value)
    .filter(([name]) => !OWN_BUSINESS.has(name))
    .map(([name, inner]) => [name, withoutChecksum(name, normal(inner, name))] as const)
    .filter(([, inner]) => !isEmpty(inner))
    .sort(([left], [right]) => (left < right ? -1 : 1))
  return Object.fromEntries(fields)
}

function withoutChecksum(name: string, value: unknown): unknown {
  return name.startsWith('checksum/') ? '<checksum>' : value
}

function by(key: string | undefined) {
  const word = (item: unknown) => String((item as Fields)[key ?? ''])
  return (left: unknown, right: unknown) =>
    key === undefined || word(left) === word(right) ? 0 : word(left) < word(right) ? -1 : 1
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

/** Every field `image` of objects. */
export function imagesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'image' && typeof inner === 'string' ? [inner] : imagesIn(inner),
  )
}
