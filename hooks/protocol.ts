/**
 * The hook protocol: what Metacontroller sends, what the hooks of a kind decide, and the JSON that
 * is returned; and the hooks of one kind as the server sees them, without the types of the kind. The
 * hooks of a kind never see HTTP.
 */
import {
  Type,
  type TObject,
  type TSchema,
  Kind,
  OptionalKind,
  type Static,
} from '@sinclair/typebox'
import { VecBackup } from '../crds/backup.ts'
import { VecCluster } from '../crds/cluster.ts'
import { AnyObject, Job, Secret, StatefulSet, type KubernetesEvent } from '../crds/kubernetes.ts'
import { API_VERSION } from '../crds/contract/names.ts'
import { ObjectMeta, type Condition } from '../crds/schema.ts'

/** The status may come from another release: only an unusable one is rejected. */
const AnyStatus = Type.Optional(
  Type.Object({ conditions: Type.Optional(Type.Array(Type.Object({ type: Type.String() }))) }),
)

function withAnyStatus({ properties }: TObject): TObject {
  return Type.Object({
    ...properties,
    spec: lenientSchema(properties['spec'] ?? Type.Unknown()),
    status: AnyStatus,
  })
}

/** Schemas of the kinds of which the hooks read more than the identity. */
const CHECKED_SCHEMAS = {
  'Job.batch/v1': Job,
  'Secret.v1': Secret,
  'StatefulSet.apps/v1': StatefulSet,
  [`VecCluster.${API_VERSION}`]: withAnyStatus(VecCluster.schema),
  [`VecBackup.${API_VERSION}`]: withAnyStatus(VecBackup.schema),
}

/** Objects by `Kind.group/version`, then by `namespace/name`. */
export const Observations = Type.Object(
  Object.fromEntries(
    Object.entries(CHECKED_SCHEMAS).map(([kind, schema]) => [
      kind,
      Type.Optional(recordOf(schema)),
    ]),
  ),
  { additionalProperties: recordOf(AnyObject) },
)
export type Observations = Record<string, Record<string, AnyObject>>

/**
 * With any key: the pattern of `Type.String()` leaves values under a key with a line break
 * unchecked.
 */
function recordOf(schema: TSchema) {
  return Type.Record(Type.String({ pattern: '^[^]*$' }), schema)
}

export function SyncRequest<Parent extends TSchema>(parent: Parent) {
  return Type.Object({
    parent,
    children: Observations,
    related: Observations,
    finalizing: Type.Boolean(),
  })
}

export interface HookRequest<Parent> {
  parent: Parent
  children: Observations
  related: Observations
  finalizing: boolean
  /** Size of the request. */
  bytes?: number
}

/** Selects related objects by name in one namespace, the only form that the operator uses. */
export interface RelatedRule {
  apiVersion: string
  resource: string
  namespace: string
  names: string[]
}

/** A desired child. An unchanged one has only its identity. */
export interface Child {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace?: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
  }
  [field: string]: unknown
}

/** An observed child to be deleted, and the reason. */
export interface PrunedChild {
  kind: string
  name: string
  reason: string
}

/** A decision of the hooks of a kind: the answer and its side effects. */
export interface Desired<Status> {
  status: Status
  children: Child[]
  /** Every observed child that is not in `children`: a child that is in neither is a defect. */
  pruned?: PrunedChild[]
  resyncAfterSeconds?: number
  /** Only in finalize: nothing is left to clean up. */
  finalized?: boolean
  /** Events about this decision. */
  events?: KubernetesEvent[]
  /** Errors of background tasks. A defect is logged with its stack. */
  failures?: readonly { error: unknown }[]
  /** Called when this is answered. What takes longer than a hook may take is not. */
  answered?: () => void
  /** Jobs to delete with foreground propagation, so that their pods end first. */
  deleteJobs?: { namespace: string; name: string; uid: string }[]
}

/** The answer as Metacontroller reads it; it rejects any other field. */
export interface HookAnswer {
  status: object
  children: Child[]
  resyncAfterSeconds?: number
  finalized?: boolean
}

/** Input of a decision in addition to what was observed. */
export interface Context {
  now: Date
  settings: Settings
}

/** Configuration of this installation; the same for every decision of a process. */
export interface Settings {
  /** DNS domain of the Kubernetes cluster, such as cluster.local. */
  clusterDomain: string
  /** Image of the Jobs: the service's own. */
  image: string
  imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never'
  /** Names of the image pull Secrets in the operator's namespace: Jobs get copies. */
  imagePullSecrets: readonly string[]
  /** Release of the operator, as in package.json. */
  version: string
  /** Whether namespaces may use clusters of other namespaces that have no annotation allowed-namespaces. */
  crossNamespace: 'open' | 'closed'
  /** Keys that sign Jobs: the hook tokens that are currently accepted, the current one first. */
  jobKeys: readonly string[]
  /** Namespaces to watch; empty watches all. */
  namespaces: string[]
  logLevel: string
  logFormat: string
  /** The engine's chart: its name and repository, or a path or URL. */
  chart: ChartSource
  /** Versions that an update over several minor versions goes through, at most one of each minor version. */
  stepVersions: readonly string[]
  /** Maximum number of unfinished helm Jobs. */
  maxHelmJobs: number
  /** How long a finished Job is retained for its log, in seconds. */
  historySeconds: number
  jobResources: { helm: JobResources; data: JobResources }
  /** Where the pods of Jobs run, and what they carry. */
  jobPods: { helm: JobPod; data: JobPod }
}

export interface ChartSource {
  name: string
  repository: string
  /** Secret of type kubernetes.io/dockerconfigjson in the operator's namespace: helm Jobs get copies. */
  pullSecret?: string
  /** Secret with `username` and `password` for a repository over HTTP, in the same namespace and with copies as well. */
  credentialsSecret?: string
  /** PEM of the certificate authorities that sign the certificate of the repository. */
  caBundle?: string
}

/** Fields of a pod as in Kubernetes; `env` are variables of its container. */
export interface JobPod {
  labels?: Record<string, string>
  annotations?: Record<string, string>
  nodeSelector?: Record<string, string>
  tolerations?: Record<string, unknown>[]
  affinity?: Record<string, unknown>
  priorityClassName?: string
  /** Replaces the default context, and so does that of the container. */
  podSecurityContext?: Record<string, unknown>
  securityContext?: Record<string, unknown>
  env?: { name: string }[]
  /** In addition to those that the pods have (hooks/job-pod.ts). */
  volumes?: { name: string }[]
  volumeMounts?: { name: string; mountPath: string }[]
}

export interface JobResources {
  requests: Record<string, string>
  limits: Record<string, string>
}

/** Thrown by a hook for what Metacontroller should retry later: 429 with Retry-After. */
export class RetryLater extends Error {
  readonly seconds: number

  constructor(message: string, seconds: number) {
    super(message)
    this.seconds = seconds
  }
}

/**
 * The same fields and types, with any value: for resources that an older or another schema
 * admitted.
 */
export function lenientSchema(schema: TSchema): TSchema {
  const { properties, items, patternProperties } = schema as TSchema & CompositeSchema
  switch (schema[Kind]) {
    case 'Object':
      return Type.Object(
        Object.fromEntries(
          Object.entries(properties).map(([name, field]) => [name, lenientField(field)]),
        ),
      )
    case 'Array':
      return Type.Array(lenientSchema(items))
    case 'Record':
      return lenientRecord(Object.values(patternProperties)[0] ?? Type.Unknown())
    case 'Integer':
    case 'Number':
      return Type.Number()
    case 'String':
    case 'Literal':
      return Type.String()
    case 'Boolean':
      return Type.Boolean()
    case 'Union':
      return schema['x-kubernetes-int-or-string'] === true
        ? Type.Union([Type.Number(), Type.String()])
        : Type.String()
    default:
      return Type.Unknown()
  }
}

/** Only the named fields are checked: the others may have any type or be missing. */
export function lenientFields({ properties }: TObject, names: readonly string[]): TObject {
  return Type.Object(
    Object.fromEntries(
      names.flatMap((name) => {
        const field = properties[name]
        return field === undefined ? [] : [[name, lenientField(field)]]
      }),
    ),
  )
}

interface CompositeSchema {
  properties: Record<string, TSchema>
  items: TSchema
  patternProperties: Record<string, TSchema>
}

function lenientField(field: TSchema): TSchema {
  return OptionalKind in field ? Type.Optional(lenientSchema(field)) : lenientSchema(field)
}

/** With any key, even one with line breaks. */
function lenientRecord(values: TSchema): TSchema {
  return Type.Record(Type.String({ pattern: '^[^]*$' }), lenientSchema(values))
}

/** The parts of crds/<kind>.ts that the hooks of a kind are built on. */
interface KindDefinition<Parent extends TSchema> {
  kind: string
  plural: string
  schema: Parent
  status: TSchema
  spec: TObject
}

interface HooksSpec<Parent extends TSchema, Status> {
  resource: KindDefinition<Parent>
  /** Kinds that the CompositeController declares as children, as `Kind.group/version`. */
  childKinds: readonly string[]
  /** Returns the related objects that this kind needs; reads only the parent. */
  customize(parent: Static<Parent>): RelatedRule[]
  sync(request: HookRequest<Static<Parent>>, context: Context): Promise<Desired<Status>>
  /** Fields of the spec that its deletion reads. */
  finalizeReads: readonly (keyof Spec<Parent>)[]
  /** Absent if deletion leaves nothing to clean up. */
  finalize?(request: HookRequest<Static<Parent>>, context: Context): Promise<Desired<Status>>
}

/** The fields of every parent, whatever its kind. */
export interface AnyParent {
  kind: string
  metadata: {
    name: string
    namespace: string
    uid: string
    generation: number
    creationTimestamp: string
    deletionTimestamp?: string
    annotations?: Record<string, string>
  }
  status?: { phase?: string; conditions?: Condition[] }
}

type Spec<Parent extends TSchema> = Static<Parent> extends { spec: infer Fields } ? Fields : never

type HookFunction = (request: HookRequest<unknown>, context: Context) => Promise<Desired<unknown>>

export interface KindHooks {
  kind: string
  plural: string
  status: TSchema
  childKinds: readonly string[]
  /** Body of sync. */
  request: TObject
  parent: TSchema
  /**
   * A resource that is being deleted: only the fields that its deletion reads must be valid. An
   * older schema may have admitted it, and an immutable spec cannot be changed.
   */
  deletedParent: TSchema
  customize(parent: unknown): RelatedRule[]
  sync: HookFunction
  finalize?: HookFunction
}

/**
 * Removes the types of a kind. The server checks each request against `request` before it calls a
 * hook, so the parent that a hook receives was validated when the JSON arrived.
 */
export function kindHooks<Parent extends TSchema, Status>(
  hooks: HooksSpec<Parent, Status>,
): KindHooks {
  const { kind, plural, schema, status } = hooks.resource
  return {
    kind,
    plural,
    status,
    childKinds: hooks.childKinds,
    parent: schema,
    request: SyncRequest(schema),
    deletedParent: Type.Object({
      apiVersion: Type.String(),
      kind: Type.Literal(kind),
      metadata: lenientSchema(ObjectMeta),
      spec: lenientFields(hooks.resource.spec, hooks.finalizeReads.map(String)),
      status: Type.Optional(lenientSchema(status)),
    }),
    customize: hooks.customize.bind(hooks),
    sync: hooks.sync.bind(hooks),
    ...(hooks.finalize && { finalize: hooks.finalize.bind(hooks) }),
  }
}
