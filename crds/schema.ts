/**
 * Schema constructors for the fields of custom resources. They return TypeBox schemas, so a type is
 * `Static` of its schema; crds/crd.ts translates the same schema into a structural CRD.
 */
import {
  FormatRegistry,
  Type,
  type SchemaOptions,
  type Static,
  type TLiteral,
  type TObject,
  type TProperties,
  type TUnion,
} from '@sinclair/typebox'
import { DURATION_PATTERN } from './units.ts'
import { API_VERSION, DNS_LABEL, DNS_NAME } from './contract/names.ts'

FormatRegistry.Set('date-time', (text) => !Number.isNaN(Date.parse(text)))

type LiteralTypes<Values extends readonly string[]> = {
  -readonly [Index in keyof Values]: TLiteral<Values[Index]>
}

/** One of a closed set of strings; an enum in the CRD. */
export function Enum<const Values extends readonly string[]>(
  values: Values,
  options: SchemaOptions = {},
): TUnion<LiteralTypes<Values>> {
  const literals: TLiteral[] = values.map((value) => Type.Literal(value))
  return Type.Union(literals, options) as unknown as TUnion<LiteralTypes<Values>>
}

/**
 * A maximum number of characters, as the API server counts them. JavaScript counts some characters as two,
 * so a check here allows twice as many: no value that the CRD admits is rejected.
 */
export function maxCharacters(max: number): { maxLength: number; maxRunes: number } {
  return { maxLength: 2 * max, maxRunes: max }
}

/** A timestamp in RFC 3339. */
export function Timestamp(options: SchemaOptions = {}) {
  return Type.String({ format: 'date-time', ...options })
}

/** A duration such as `720h` or `1h30m`. */
export function Duration(options: SchemaOptions = {}) {
  return Type.String({ minLength: 2, maxLength: 24, pattern: DURATION_PATTERN, ...options })
}

const QUANTITY_PATTERN = '^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$'

/** A quantity such as `10Gi` or `500m`. */
export function Quantity(options: SchemaOptions = {}) {
  return Type.String({ maxLength: 32, pattern: QUANTITY_PATTERN, ...options })
}

/** A quantity that may also be a plain number, as in `cpu: 2`. */
export function NumberOrQuantity(options: SchemaOptions = {}) {
  return Type.Union([Type.Integer(), Type.String()], {
    'x-kubernetes-int-or-string': true,
    pattern: QUANTITY_PATTERN,
    ...options,
  })
}

/** A map from strings to strings, such as annotations. */
export function StringMap(options: SchemaOptions = {}) {
  return Type.Record(Type.String(), Type.String(), options)
}

/** A map that is passed through unchanged: another API defines its fields. */
export function PassThrough(options: SchemaOptions = {}) {
  return Type.Record(Type.String(), Type.Unknown(), {
    'x-kubernetes-preserve-unknown-fields': true,
    ...options,
  })
}

/** The name of a Kubernetes object (a DNS subdomain). */
export function ObjectName(options: SchemaOptions = {}) {
  return Type.String({
    minLength: 1,
    maxLength: 253,
    pattern: `^${DNS_NAME}$`,
    ...options,
  })
}

export function NamespaceName(options: SchemaOptions = {}) {
  return Type.String({
    minLength: 1,
    maxLength: 63,
    pattern: `^${DNS_LABEL}$`,
    ...options,
  })
}

/** A name that is also used as a label value, so it has the form of one. */
export function Uid() {
  return Type.String({
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$',
  })
}

/** A key of a Secret. */
export function SecretKey(options: SchemaOptions = {}) {
  return Type.String({ minLength: 1, maxLength: 253, pattern: '^[-._a-zA-Z0-9]+$', ...options })
}

/** A count. The engine and Kubernetes use 32-bit integers. */
export function Count(options: SchemaOptions & { minimum?: number; maximum?: number } = {}) {
  return Type.Integer({ minimum: 1, maximum: 2_147_483_647, format: 'int32', ...options })
}

/** Reference to another resource; the namespace defaults to the referencing resource's own. */
export function Ref(target: string, options: SchemaOptions = {}) {
  return Type.Object(
    {
      name: ObjectName({ description: `Name of the ${target}.` }),
      namespace: Type.Optional(
        NamespaceName({
          description: `Namespace of the ${target}; default: this resource's own.`,
        }),
      ),
    },
    { description: `The ${target}.`, ...options },
  )
}

/** One key of a Secret; the context determines the namespace. */
export const SecretKeyRef = Type.Object({
  name: ObjectName({ description: 'Name of the Secret.' }),
  key: SecretKey({ description: 'Key within the Secret.' }),
})
export type SecretKeyRef = Static<typeof SecretKeyRef>

/** CEL rules that the API server enforces, each with its error message. */
export function rules(...validations: (readonly [cel: string, message: string])[]): SchemaOptions {
  return { 'x-kubernetes-validations': validations.map(([rule, message]) => ({ rule, message })) }
}

/** One CEL rule. */
export function rule(cel: string, message: string): SchemaOptions {
  return rules([cel, message])
}

/** CEL: an optional field is unchanged; unset counts as a value. */
export function isUnchanged(field: string): string {
  return `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`
}

export const Condition = Type.Object(
  {
    type: Type.String({ description: 'Type of the condition.' }),
    status: Enum(['True', 'False', 'Unknown'], { description: 'Status of the condition.' }),
    reason: Type.String({ description: 'Reason of the status, one word.' }),
    message: Type.String({ description: 'Explanation in a human-readable form.' }),
    lastTransitionTime: Timestamp({ description: 'When the status last changed.' }),
    observedGeneration: Type.Optional(
      Type.Integer({
        format: 'int64',
        description: 'Generation of the spec the condition is about.',
      }),
    ),
  },
  { description: 'One aspect of the state.' },
)
export type Condition = Static<typeof Condition>

/** Why something is as it is: the part of a condition that Events and blockers also have. */
export type ConditionReason = Pick<Condition, 'reason' | 'message'>

/** The identity of an object of a known kind. */
export interface NamespacedName {
  namespace: string
  name: string
}

/** The fields of every status. */
export const statusFields = {
  observedGeneration: Type.Optional(
    Type.Integer({
      format: 'int64',
      description: 'Generation this status was computed from; written by Metacontroller.',
    }),
  ),
  conditions: Type.Optional(
    Type.Array(Condition, {
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      description: 'The state, aspect by aspect.',
    }),
  ),
}

/** Of the kinds that run Jobs. */
export function JobName() {
  return Type.Optional(
    Type.String({
      maxLength: 63,
      description:
        'The Job of the current or last attempt: kubectl logs job/<jobName>. Absent once the Job is deleted.',
    }),
  )
}

/** The number of collections that a list in a status omits, by state: the size of a Job's report is limited. */
export function UnlistedCollections() {
  const count = (state: string) =>
    Type.Optional(Type.Integer({ minimum: 0, description: `How many of them ${state}.` }))
  return Type.Optional(
    Type.Object(
      {
        completed: count('are Completed'),
        failed: count('are Failed'),
        pending: count('have not ended'),
      },
      {
        description:
          'Collections that are not in the list, which has failed ones first and about 48 KiB at most. Absent where all are in it.',
      },
    ),
  )
}

export const OwnerReference = Type.Object({
  apiVersion: Type.String(),
  kind: Type.String(),
  name: Type.String(),
  uid: Type.String(),
  controller: Type.Optional(Type.Boolean()),
})

export const ObjectMeta = Type.Object({
  name: ObjectName(),
  namespace: NamespaceName(),
  uid: Uid(),
  resourceVersion: Type.Optional(Type.String()),
  generation: Type.Integer(),
  creationTimestamp: Timestamp(),
  deletionTimestamp: Type.Optional(Timestamp()),
  labels: Type.Optional(Type.Record(Type.String(), Type.String())),
  annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
  ownerReferences: Type.Optional(Type.Array(OwnerReference)),
  finalizers: Type.Optional(Type.Array(Type.String())),
})
export type ObjectMeta = Static<typeof ObjectMeta>

/** A column of `kubectl get`. */
export interface Column {
  name: string
  type: 'string' | 'integer' | 'date'
  jsonPath: string
  /** 1: shown only with `-o wide`. */
  priority?: 0 | 1
}

export const AGE_COLUMN: Column = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
}

/** JSON paths of the subresource scale. */
export interface ScaleSubresource {
  specReplicasPath: string
  statusReplicasPath: string
  labelSelectorPath: string
}

interface ResourceDefinition<
  Kind extends string,
  Spec extends TProperties,
  Status extends TProperties,
> {
  kind: Kind
  plural: string
  singular: string
  shortName: string
  description: string
  spec: TObject<Spec>
  status: TObject<Status>
  columns: Column[]
  /** The subresource scale: what `kubectl scale` and autoscalers read and write. */
  scale?: ScaleSubresource
  /** Rules on the whole resource; apart from spec and status they can read only metadata.name. */
  rules?: SchemaOptions
}

/** A custom resource: its names, its schema and the other inputs of its CRD. */
export function defineResource<
  const Kind extends string,
  Spec extends TProperties,
  Status extends TProperties,
>(definition: ResourceDefinition<Kind, Spec, Status>) {
  const schema = Type.Object({
    apiVersion: Type.Literal(API_VERSION),
    kind: Type.Literal(definition.kind),
    metadata: ObjectMeta,
    spec: definition.spec,
    status: Type.Optional(definition.status),
  })
  return { ...definition, schema }
}
