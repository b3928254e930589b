/** From a resource to its CustomResourceDefinition: TypeBox becomes the structural OpenAPI schema of Kubernetes. */
import { Kind, OptionalKind, type TSchema } from '@sinclair/typebox'
import { ANNOTATIONS, API_GROUP } from './names.ts'
import type { Resource } from './resources.ts'

/** A structural OpenAPI schema, as far as we make use of it. */
export interface OpenApi {
  type?: string
  description?: string
  default?: unknown
  enum?: unknown[]
  properties?: Record<string, OpenApi>
  required?: string[]
  items?: OpenApi
  additionalProperties?: OpenApi
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  multipleOf?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  maxProperties?: number
  not?: OpenApi
  anyOf?: OpenApi[]
  'x-kubernetes-int-or-string'?: boolean
  'x-kubernetes-preserve-unknown-fields'?: boolean
  'x-kubernetes-list-type'?: string
  'x-kubernetes-list-map-keys'?: string[]
  'x-kubernetes-validations'?: { rule: string; message: string }[]
}

/** The CRD of a resource, as it is applied; `version` is the release of the operator. */
export function definitionOf(resource: Resource, version: string) {
  const { kind, plural, singular, shortName, columns } = resource
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${API_GROUP}`,
      annotations: { [ANNOTATIONS.version]: version },
    },
    spec: {
      group: API_GROUP,
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames: [shortName] },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1alpha1',
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: { openAPIV3Schema: schemaOf(resource) },
        },
      ],
    },
  }
}
export type CustomResourceDefinition = ReturnType<typeof definitionOf>

/** The schema of a whole resource. */
export function schemaOf({ description, spec, status, ...rest }: Resource) {
  return {
    type: 'object',
    description,
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec: structural(spec),
      status: { ...structural(status), description: 'What is known about it.' },
    },
    ...('rules' in rest ? rest.rules : {}),
  } satisfies OpenApi
}

/** One TypeBox schema as structural OpenAPI. */
export function structural(schema: TSchema): OpenApi {
  const { type, anyOf, properties, items, patternProperties } = schema as TSchema & Composite
  const options = optionsOf(schema)
  switch (schema[Kind]) {
    case 'Object':
      return { type: 'object', ...options, ...objectOf(properties) }
    case 'Array':
      return { type: 'array', ...options, items: structural(items) }
    case 'Record':
      return { type: 'object', ...options, ...valuesOf(options, patternProperties) }
    case 'Union':
      return { ...options, ...choiceOf(options, anyOf) }
    case 'Literal':
      return { ...options, ...choiceOf(options, [schema]) }
    case 'Unknown':
      return { 'x-kubernetes-preserve-unknown-fields': true, ...options }
    case 'String':
    case 'Integer':
    case 'Boolean':
      return { type, ...options }
    default:
      throw new Error(`a CRD cannot hold the TypeBox kind ${schema[Kind]}`)
  }
}

/** The parts of a TypeBox schema that are translated; everything else is an option and is kept. */
interface Composite {
  type: string
  anyOf: TSchema[]
  properties: Record<string, TSchema>
  items: TSchema
  patternProperties: Record<string, TSchema>
}

const TRANSLATED = [
  'type',
  'const',
  'anyOf',
  'properties',
  'items',
  'patternProperties',
  'required',
]

function optionsOf(schema: TSchema): OpenApi {
  const { maxRunes, ...options } = Object.fromEntries(
    Object.entries(schema).filter(([key]) => !TRANSLATED.includes(key)),
  ) as OpenApi & { maxRunes?: number }
  return maxRunes === undefined ? options : { ...options, maxLength: maxRunes }
}

function objectOf(properties: Record<string, TSchema>): OpenApi {
  const entries = Object.entries(properties)
  // The API server asks for required fields before it fills in defaults of a parent's default {}.
  const required = entries
    .filter(([, field]) => !(OptionalKind in field) && field['default'] === undefined)
    .map(([name]) => name)
  return {
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(entries.map(([name, field]) => [name, structural(field)])),
  }
}

function valuesOf(options: OpenApi, patterns: Record<string, TSchema>): OpenApi {
  const [values] = Object.values(patterns)
  if (options['x-kubernetes-preserve-unknown-fields'] === true || values === undefined) return {}
  return { additionalProperties: structural(values) }
}

function choiceOf(options: OpenApi, choices: TSchema[]): OpenApi {
  if (options['x-kubernetes-int-or-string'] === true) {
    return { anyOf: [{ type: 'integer' }, { type: 'string' }] }
  }
  return { type: 'string', enum: choices.map((choice): unknown => choice['const']) }
}
