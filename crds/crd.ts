/**
 * The list of all resources, and the CustomResourceDefinition of each: translates TypeBox schemas into
 * structural OpenAPI schemas and compares the version of an installed CRD with this release.
 */
import { Kind, OptionalKind, type TSchema } from '@sinclair/typebox'
import { VecAccessKey } from './access-key.ts'
import { VecBackupSchedule } from './backup-schedule.ts'
import { VecBackup } from './backup.ts'
import { VecCluster } from './cluster.ts'
import { VecCollection } from './collection.ts'
import { ANNOTATIONS, API_GROUP } from './contract/names.ts'
import type { AnyObject } from './kubernetes.ts'
import { VecMigration } from './migration.ts'
import { VecRestore } from './restore.ts'
import type { Column } from './schema.ts'
import { isOlder } from './versions.ts'

/** The part of structural OpenAPI schemas that the CRDs use. */
export interface OpenApiSchema {
  type?: string
  description?: string
  default?: unknown
  enum?: unknown[]
  properties?: Record<string, OpenApiSchema>
  required?: string[]
  items?: OpenApiSchema
  additionalProperties?: OpenApiSchema
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
  not?: OpenApiSchema
  anyOf?: OpenApiSchema[]
  'x-kubernetes-int-or-string'?: boolean
  'x-kubernetes-preserve-unknown-fields'?: boolean
  'x-kubernetes-list-type'?: string
  'x-kubernetes-list-map-keys'?: string[]
  'x-kubernetes-validations'?: { rule: string; message: string }[]
}

/** The CRD manifest of a resource; `version` is the release of the operator. */
export function customResourceDefinition(resource: Resource, version: string) {
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
      names: {
        ...{ kind, listKind: `${kind}List`, plural, singular },
        shortNames: [shortName],
        categories: [CATEGORY],
      },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1alpha1',
          served: true,
          storage: true,
          subresources: { status: {}, ...('scale' in resource && { scale: resource.scale }) },
          additionalPrinterColumns: [...columns, messageColumn(kind)],
          schema: { openAPIV3Schema: openApiSchema(resource) },
        },
      ],
    },
  }
}
export type CustomResourceDefinition = ReturnType<typeof customResourceDefinition>

/** `kubectl get vec` lists the resources of all kinds. */
const CATEGORY = 'vec'

/** Kinds that describe work that ends. */
const COMPLETING_KINDS = new Set(['VecBackup', 'VecRestore', 'VecMigration'])

/** With `-o wide`: the message of the condition that summarizes the state. */
function messageColumn(kind: string): Column {
  const conditionType = COMPLETING_KINDS.has(kind) ? 'Complete' : 'Ready'
  return {
    name: 'Message',
    type: 'string',
    jsonPath: `.status.conditions[?(@.type=="${conditionType}")].message`,
    priority: 1,
  }
}

/**
 * What a resource has before the operator has seen it. Without a status, kstatus calls a resource Current: Flux
 * would continue before anything was done.
 */
const UNOBSERVED = { observedGeneration: -1 }

/** The schema of a whole resource. */
export function openApiSchema({ description, spec, status, ...rest }: Resource) {
  return {
    type: 'object',
    description,
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec: toStructuralSchema(spec),
      status: {
        ...toStructuralSchema(status),
        description: 'What is known about it.',
        default: UNOBSERVED,
      },
    },
    ...('rules' in rest ? rest.rules : {}),
  } satisfies OpenApiSchema
}

/** Translates one TypeBox schema into structural OpenAPI. */
export function toStructuralSchema(schema: TSchema): OpenApiSchema {
  const { type, anyOf, properties, items, patternProperties } = schema as TSchema & CompositeSchema
  const options = schemaOptions(schema)
  switch (schema[Kind]) {
    case 'Object':
      return { type: 'object', ...options, ...objectSchema(properties) }
    case 'Array':
      return { type: 'array', ...options, items: toStructuralSchema(items) }
    case 'Record':
      return { type: 'object', ...options, ...mapSchema(options, patternProperties) }
    case 'Union':
      return { ...options, ...enumSchema(options, anyOf) }
    case 'Literal':
      return { ...options, ...enumSchema(options, [schema]) }
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

/** The keys of a TypeBox schema that are translated; every other key is an option and is copied. */
interface CompositeSchema {
  type: string
  anyOf: TSchema[]
  properties: Record<string, TSchema>
  items: TSchema
  patternProperties: Record<string, TSchema>
}

const TRANSLATED_KEYS = [
  'type',
  'const',
  'anyOf',
  'properties',
  'items',
  'patternProperties',
  'required',
]

function schemaOptions(schema: TSchema): OpenApiSchema {
  const { maxRunes, ...options } = Object.fromEntries(
    Object.entries(schema).filter(([key]) => !TRANSLATED_KEYS.includes(key)),
  ) as OpenApiSchema & { maxRunes?: number }
  return maxRunes === undefined ? options : { ...options, maxLength: maxRunes }
}

function objectSchema(properties: Record<string, TSchema>): OpenApiSchema {
  const entries = Object.entries(properties)
  // The API server checks required fields before it fills in the defaults within a parent's default {}.
  const required = entries
    .filter(([, field]) => !(OptionalKind in field) && field['default'] === undefined)
    .map(([name]) => name)
  return {
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(
      entries.map(([name, field]) => [name, toStructuralSchema(field)]),
    ),
  }
}

function mapSchema(options: OpenApiSchema, patternSchemas: Record<string, TSchema>): OpenApiSchema {
  const [values] = Object.values(patternSchemas)
  if (options['x-kubernetes-preserve-unknown-fields'] === true || values === undefined) return {}
  return { additionalProperties: toStructuralSchema(values) }
}

function enumSchema(options: OpenApiSchema, literals: TSchema[]): OpenApiSchema {
  if (options['x-kubernetes-int-or-string'] === true) {
    return { anyOf: [{ type: 'integer' }, { type: 'string' }] }
  }
  return { type: 'string', enum: literals.map((choice): unknown => choice['const']) }
}

/** Why a CRD of this version is unusable for this release; undefined when it is usable. */
export function outdatedCrdReason(
  plural: string,
  crd: AnyObject | undefined,
  version: string,
): string | undefined {
  if (crd === undefined) return `${crdName(plural)} is not installed`
  const installedVersion = crd.metadata.annotations?.[ANNOTATIONS.version]
  if (installedVersion === undefined)
    return `${crdName(plural)} names no release, ${version} is needed`
  return isOlder(installedVersion, version)
    ? `${crdName(plural)} is of release ${installedVersion}, ${version} is needed: apply the new CRDs first`
    : undefined
}

export function crdName(plural: string): string {
  return `${plural}.${API_GROUP}`
}

export const RESOURCES = [
  VecCluster,
  VecCollection,
  VecAccessKey,
  VecBackup,
  VecBackupSchedule,
  VecRestore,
  VecMigration,
] as const

export type Resource = (typeof RESOURCES)[number]
