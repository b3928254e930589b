/** Cases made from the schemas: every enum, bound, type and required field, tried on the full samples. */
import { RESOURCES, toStructuralSchema, type OpenApiSchema } from '../../../crds/crd.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { Case, Fields } from './case.ts'
import { SAMPLES } from './samples.ts'

type Step = string | number

/** A field of a sample and its schema. */
interface FieldLocation {
  sample: AnyObject
  steps: Step[]
  schema: OpenApiSchema
  required: boolean
}

/** What a field is set to, and what is then said about it; no words when it is accepted. */
interface Trial {
  value: unknown
  refused?: string
}

export function boundCases(): Case[] {
  const cases = SAMPLES.flatMap((sample) => [
    {
      title: `${sample.kind} with every field set, sample ${SAMPLES.indexOf(sample)}`,
      kind: kindOf(sample),
      object: sample,
    },
    ...fieldLocations(sample).flatMap((location) =>
      trialsFor(location).map((trial) => toCase(location, trial)),
    ),
  ])
  // Two samples of a kind share most of their fields.
  return [...new Map(cases.map((testCase) => [testCase.title, testCase])).values()]
}

/** Every field of spec in a sample. */
export function fieldLocations(sample: AnyObject): FieldLocation[] {
  const resource = RESOURCES.find(({ kind }) => kind === sample.kind)
  const spec = resource === undefined ? {} : toStructuralSchema(resource.spec)
  return nestedLocations({ sample, steps: ['spec'], schema: spec, required: true })
}

function nestedLocations(location: FieldLocation): FieldLocation[] {
  const { sample, steps, schema } = location
  const value = valueAt(sample, steps)
  const make = (step: Step, field: OpenApiSchema | undefined): FieldLocation[] => {
    if (field === undefined || valueAt(sample, [...steps, step]) === undefined) return []
    const required = schema.required?.includes(String(step)) === true
    const next = { sample, steps: [...steps, step], schema: field, required }
    return [next, ...nestedLocations(next)]
  }
  if (Array.isArray(value)) return make(0, schema.items)
  const fixed = Object.entries(schema.properties ?? {})
  const keys = schema.additionalProperties === undefined ? [] : Object.keys(value as Fields)
  return [
    ...fixed.flatMap(([name, field]) => make(name, field)),
    ...keys.flatMap((name) => make(name, schema.additionalProperties)),
  ]
}

function trialsFor({ schema, required, sample, steps }: FieldLocation): Trial[] {
  return [
    ...(required ? [{ value: undefined, refused: 'Required value' }] : []),
    ...wrongType(schema),
    ...(schema.enum ?? []).map((value) => ({ value })),
    ...(schema.enum === undefined ? [] : [{ value: 'Nonsense', refused: 'Unsupported value' }]),
    ...numbers(schema),
    ...texts(schema),
    ...lists(schema, valueAt(sample, steps)),
  ]
}

function wrongType(schema: OpenApiSchema): Trial[] {
  if (schema['x-kubernetes-int-or-string'] === true) {
    return [{ value: 0.5, refused: 'must be of type integer,string' }, { value: 2 }]
  }
  if (schema.type === undefined) return []
  const value = schema.type === 'object' ? 'text' : {}
  return [{ value, refused: `must be of type ${schema.type}` }]
}

function numbers({ minimum, maximum }: OpenApiSchema): Trial[] {
  if (minimum === undefined || maximum === undefined) return []
  return [
    { value: minimum },
    { value: minimum - 1, refused: `should be greater than or equal to ${minimum}` },
    { value: maximum },
    { value: maximum + 1, refused: `should be less than or equal to ${maximum}` },
  ]
}

function texts({ type, minLength, maxLength, pattern, ...rest }: OpenApiSchema): Trial[] {
  const trials: Trial[] = []
  const messages = (rest['x-kubernetes-validations'] ?? []).map(({ message }) => message)
  for (const refused of messages.filter((message) => message.endsWith(OR_DOTS))) {
    trials.push({ value: '.', refused }, { value: '..', refused }, { value: '...' })
  }
  if (minLength !== undefined) {
    trials.push({ value: '', refused: `should be at least ${minLength} chars long` })
  }
  if (type === 'string' && maxLength !== undefined) {
    const refused = `Too long: may not be more than ${maxLength} bytes`
    trials.push({ value: 'a'.repeat(maxLength + 1), refused })
  }
  // No pattern of this operator allows two slashes.
  if (pattern !== undefined) trials.push({ value: '//', refused: 'should match' })
  return trials
}

const OR_DOTS = ' . or ..'

function lists({ maxItems = 0, minItems = 0 }: OpenApiSchema, value: unknown): Trial[] {
  if (!Array.isArray(value) || maxItems === 0) return []
  const tooMany = Array<unknown>(maxItems + 1).fill(value[0])
  return [
    { value: tooMany, refused: `must have at most ${maxItems} items` },
    ...(minItems > 0 ? [{ value: [], refused: `should have at least ${minItems} items` }] : []),
  ]
}

function toCase({ sample, steps }: FieldLocation, { value, refused }: Trial): Case {
  const field = steps.reduce<string>(
    (path, step) =>
      typeof step === 'number' ? `${path}[${step}]` : path === '' ? step : `${path}.${step}`,
    '',
  )
  return {
    title: `${sample.kind} ${field} ${refused === undefined ? 'may be' : 'is not'} ${formatValue(value)}`,
    kind: kindOf(sample),
    object: withValue(sample, steps, value),
    // The path of a value in a map is written in two ways: .key by the schema, [key] by a rule.
    ...(refused !== undefined && {
      refused: { message: refused, ...(!refused.endsWith(OR_DOTS) && { field }) },
    }),
  }
}

function formatValue(value: unknown): string {
  if (value === undefined) return 'absent'
  if (Array.isArray(value)) return `a list of ${value.length}`
  const text = JSON.stringify(value)
  return text.length > 60 ? `a text of ${text.length - 2} characters` : text
}

function kindOf(sample: AnyObject): Case['kind'] {
  return sample.kind as Case['kind']
}

function valueAt(object: unknown, steps: Step[]): unknown {
  return steps.reduce((value, step) => (value as Record<Step, unknown> | undefined)?.[step], object)
}

function withValue(sample: AnyObject, steps: Step[], value: unknown): AnyObject {
  const copy = structuredClone(sample)
  const parent = valueAt(copy, steps.slice(0, -1)) as Record<Step, unknown>
  const last = steps.at(-1) ?? ''
  if (value === undefined) Reflect.deleteProperty(parent, last)
  else parent[last] = value
  return copy
}
