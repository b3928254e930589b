/**
 * Values that a TypeBox schema allows, drawn near its edges: a field that is added to a schema is drawn
 * from then on. Rules that a schema cannot say are left to admission.
 */
import { Kind, OptionalKind, type TSchema } from '@sinclair/typebox'
import fc from 'fast-check'

type Drawn = fc.Arbitrary<unknown>

/** Of a schema, as far as values are drawn by it. */
interface Shape {
  anyOf: TSchema[]
  const: unknown
  default?: unknown
  properties: Record<string, TSchema>
  patternProperties: Record<string, TSchema>
  items: TSchema
  additionalProperties?: unknown
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  'x-kubernetes-int-or-string'?: boolean
  'x-kubernetes-list-type'?: string
  'x-kubernetes-list-map-keys'?: string[]
}

/** More of a thing would only make a case large. */
const MANY = 4
const LONG = 300

/** What has broken programs before. */
const AWKWARD = [
  '',
  ' ',
  '.',
  '..',
  '../x',
  '/',
  '0',
  '-1',
  '1e309',
  'null',
  'true',
  '~',
  '__proto__',
  'constructor',
  'toString',
  'a b',
  'ü[0]',
  '𝒳 \u202e',
  'line\nbreak',
  '{{ .Values.apiKey }}',
  "'; --",
  '%2F',
  '$&',
  '\u0000',
  '\ud800',
]

const FREE_KEYS = [
  ...AWKWARD,
  'service',
  'cluster',
  'storage',
  'nodeAffinity',
  'm',
  'type',
  'scalar',
]

// To make one of these takes longer than to draw by it a thousand times.
const matching = once((pattern: string) => fc.stringMatching(new RegExp(pattern)))
const graphemes = once((maxLength: number) => fc.string({ maxLength, unit: 'grapheme' }))

/** Values that the schema allows. */
export function valueOf(schema: TSchema): Drawn {
  const shape = schema as unknown as Shape
  switch (schema[Kind]) {
    case 'Object':
      return objectOf(shape)
    case 'Array':
      return listOf(shape)
    case 'Record':
      return mapOf(shape)
    case 'Union':
      return unionOf(shape)
    case 'Literal':
      return fc.constant(shape.const)
    case 'String':
      return textOf(shape)
    case 'Integer':
      return wholeOf(shape)
    case 'Number':
      return fc.oneof(wholeOf(shape), fc.double({ noNaN: true, noDefaultInfinity: true }))
    case 'Boolean':
      return fc.boolean()
    case 'Null':
      return fc.constant(null)
    case 'Unknown':
      return anyJson
    default:
      throw new Error(`no values are known of the TypeBox kind ${schema[Kind]}`)
  }
}

/** Anything that JSON holds, with names and words that are apt to be taken for something else. */
export const anyJson: Drawn = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.oneof(
      fc.integer(),
      fc.maxSafeInteger(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    ),
    awkwardText(),
    fc.array(tie('value'), { maxLength: MANY }),
    fc.dictionary(fc.constantFrom(...FREE_KEYS), tie('value'), {
      maxKeys: MANY,
      noNullPrototype: true,
    }),
  ),
})).value

/** Text without a rule. */
export function awkwardText(maxLength = LONG): fc.Arbitrary<string> {
  const fitting = AWKWARD.filter((text) => text.length <= maxLength)
  return fc.oneof(
    matching('^[a-z][a-z0-9-]{0,9}$').filter((text) => text.length <= maxLength),
    fc.constantFrom(...fitting),
    graphemes(Math.min(maxLength, LONG)),
  )
}

/** Now and then a value, else nothing. */
export function rarely<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.oneof({ arbitrary: fc.constant(undefined), weight: 9 }, value)
}

function objectOf({ properties, additionalProperties }: Shape): Drawn {
  const fields = Object.entries(properties)
  // A field with a default need not be given.
  const requiredKeys = fields
    .filter(([, field]) => !(OptionalKind in field) && field['default'] === undefined)
    .map(([name]) => name)
  const drawn = Object.fromEntries(fields.map(([name, field]) => [name, valueOf(field)]))
  const known = fc.record(drawn, { requiredKeys, noNullPrototype: true })
  if (additionalProperties !== true) return known
  return fc.tuple(free, known).map(([more, own]) => ({ ...more, ...own }))
}

const free = fc.dictionary(fc.constantFrom(...FREE_KEYS), anyJson, {
  maxKeys: MANY,
  noNullPrototype: true,
})

function mapOf({ patternProperties }: Shape): Drawn {
  const [values] = Object.values(patternProperties)
  if (values === undefined) return free
  return fc.dictionary(awkwardText(), valueOf(values), { maxKeys: MANY, noNullPrototype: true })
}

function listOf(shape: Shape): Drawn {
  const { items, minItems: minLength = 0, maxItems = Infinity } = shape
  const keys = shape['x-kubernetes-list-map-keys']
  const isSet = shape['x-kubernetes-list-type'] === 'set'
  const lengths = { minLength, maxLength: Math.max(minLength, Math.min(maxItems, MANY)) }
  if (!isSet && keys === undefined) return fc.array(valueOf(items), lengths)
  const identity = (item: unknown) =>
    JSON.stringify(isSet ? item : keys?.map((key) => (item as Record<string, unknown>)[key]))
  return fc.uniqueArray(valueOf(items), { ...lengths, selector: identity })
}

function unionOf(shape: Shape): Drawn {
  if (shape['x-kubernetes-int-or-string'] === true) {
    return fc.oneof(fc.integer({ min: 0 }), textOf(shape))
  }
  return fc.oneof(...shape.anyOf.map(valueOf))
}

function wholeOf({ minimum = -(2 ** 40), maximum = 2 ** 40 }: Shape): fc.Arbitrary<number> {
  const near = fc.integer({ min: minimum, max: Math.min(maximum, minimum + 8) })
  return fc.oneof(near, fc.integer({ min: minimum, max: maximum }))
}

function textOf({ pattern, format, minLength = 0, maxLength = LONG }: Shape): Drawn {
  const fits = (text: string) => text.length >= minLength && text.length <= maxLength
  if (format === 'date-time') {
    const noInvalidDate = true
    const min = new Date('2000-01-01T00:00:00Z')
    return fc.date({ min, max: new Date('2100-01-01T00:00:00Z'), noInvalidDate }).map(instant)
  }
  if (pattern === undefined) return awkwardText(maxLength).filter(fits)
  return matching(pattern).filter(fits)
}

function instant(date: Date): string {
  return date.toISOString()
}

/** Makes what there is only one of for each argument. */
function once<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new Map<Key, Value>()
  return (key) => {
    const value = made.get(key) ?? make(key)
    made.set(key, value)
    return value
  }
}
