/**
 * The hook protocol: what Metacontroller sends, what a room decides, and what goes back on the wire
 * (facts: JSON contract). A room never sees HTTP.
 */
import { Type, type TObject, type TSchema } from '@sinclair/typebox'
import { VecBackup } from '../crds/backup.ts'
import { VecCluster } from '../crds/cluster.ts'
import { AnyObject, Job, Secret, StatefulSet, type KubernetesEvent } from '../crds/kubernetes.ts'
import { lenientSchema } from './lenient-schema.ts'
import { API_VERSION } from '../crds/contract/names.ts'

/** A status may be that of another release: only what would not do at all is refused. */
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

/** What the rooms read more of than who it is. */
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

/** Under whatever key: the pattern of `Type.String()` lets one with a line break pass unseen. */
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

/** Selects related objects by name in one namespace: the only form we use. */
export interface RelatedRule {
  apiVersion: string
  resource: string
  namespace: string
  names: string[]
}

/** A child as it is wanted. One that is only kept has nothing but its identity. */
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

/** An observed child that is meant to be deleted, and why. */
export interface PrunedChild {
  kind: string
  name: string
  reason: string
}

/** What a room decided: the answer, and what is to be written besides it. */
export interface Desired<Status> {
  status: Status
  children: Child[]
  /** Every observed child that is not among the children: a child that is in neither is a defect. */
  pruned?: PrunedChild[]
  resyncAfterSeconds?: number
  /** Only in finalize: nothing is left to clean up. */
  finalized?: boolean
  /** Events about this decision. */
  events?: KubernetesEvent[]
  /** What a pass in the background threw. A defect is logged with its stack. */
  failure?: { error: unknown }
  /** Jobs to delete with their pods, waiting for the pods to end. */
  deleteJobs?: { namespace: string; name: string; uid: string }[]
}

/** The answer as Metacontroller reads it; it refuses any other field. */
export interface HookAnswer {
  status: object
  children: Child[]
  resyncAfterSeconds?: number
  finalized?: boolean
}

/** What a decision may know besides what was observed. */
export interface Context {
  now: Date
  settings: Settings
}

/** How this installation is set up; the same for every decision of a process. */
export interface Settings {
  /** Image of the Jobs: the service's own. */
  image: string
  imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never'
  /** Names of Secrets to pull it with, in the operator's own namespace: Jobs get copies. */
  imagePullSecrets: readonly string[]
  /** Release of the operator, as in package.json. */
  version: string
  /** Whether namespaces may use clusters of others that do not say who may. */
  crossNamespace: 'open' | 'closed'
  /** Keys that sign Jobs: the hook tokens accepted at this moment, the current one first. */
  jobKeys: readonly string[]
  /** Serve only these; empty serves all. */
  namespaces: string[]
  logLevel: string
  logFormat: string
  /** The engine's chart: its name and its repository, or a path or URL of its own. */
  chart: { name: string; repository: string }
  /** At most so many helm Jobs are unfinished at once. */
  maxHelmJobs: number
  /** A finished Job is kept for its log for so long, in seconds. */
  historySeconds: number
  jobResources: { helm: JobResources; data: JobResources }
}

export interface JobResources {
  requests: Record<string, string>
  limits: Record<string, string>
}

/** Thrown by a room for what Metacontroller should ask again later: 429 with Retry-After. */
export class RetryLater extends Error {
  readonly seconds: number

  constructor(message: string, seconds: number) {
    super(message)
    this.seconds = seconds
  }
}
