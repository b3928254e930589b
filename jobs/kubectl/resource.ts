/**
 * Reads and summarizes a resource of any of the seven kinds, in any state. Also reads the VecCluster or VecCollection that
 * a command is about; these throw `CliError` if it does not exist.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { RESOURCES, type Resource } from '../../crds/crd.ts'
import { Condition, type NamespacedName } from '../../crds/schema.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import { CliError, EXIT_CODES } from './command.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { VecCollection } from '../../crds/collection.ts'
import { clusters, collections } from '../clients/kubernetes/api-resources.ts'

const ClusterRef = Type.Object({ name: Type.String(), namespace: Type.Optional(Type.String()) })

/** The fields of a resource that the CLI shows. */
export const StatusObject = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    clusterRef: Type.Optional(ClusterRef),
    targetClusterRef: Type.Optional(ClusterRef),
    collectionName: Type.Optional(Type.String()),
  }),
  status: Type.Optional(
    Type.Object(
      {
        phase: Type.Optional(Type.String()),
        error: Type.Optional(Type.String()),
        observedGeneration: Type.Optional(Type.Integer()),
        conditions: Type.Optional(Type.Array(Condition)),
      },
      { additionalProperties: Type.Unknown() },
    ),
  ),
})
export type StatusObject = Static<typeof StatusObject>

/** One line of the resource list. */
export interface Summary {
  kind: string
  namespace: string
  name: string
  phase: string
  createdAt?: string
  /** The VecCluster that it is or belongs to, as `<namespace>/<name>`. */
  cluster?: string
  message: string
}

/** Accepts kind, plural, singular or short name, case-insensitive. */
export function parseKind(input: string): Resource {
  const normalized = input.toLowerCase()
  const match = RESOURCES.find(({ kind, plural, singular, shortName }) =>
    [kind.toLowerCase(), plural, singular, shortName].includes(normalized),
  )
  if (match !== undefined) return match
  const kindNames = RESOURCES.map(({ shortName, singular }) => `${singular} (${shortName})`)
  throw new CliError(`unknown kind ${input}; use one of ${kindNames.join(', ')}`, EXIT_CODES.usage)
}

/** `<kind>/<name>`, or the two as separate operands. */
export function parseReference(
  operands: readonly string[],
  command: string,
): { resource: Resource; name: string } {
  const [kind = '', name = '', ...rest] = operands.flatMap((operand) => operand.split('/'))
  const resource = parseKind(kind)
  if (rest.length > 0) {
    throw new CliError(
      `${command} ${operands.join(' ')}: one resource at a time: use ${kind}/<name>`,
      EXIT_CODES.usage,
    )
  }
  if (name !== '') return { resource, name }
  throw new CliError(`${command} ${kind}: name is missing: use ${kind}/<name>`, EXIT_CODES.usage)
}

/** As in the list: with its cluster. */
export function summarizeForList(object: StatusObject): Summary {
  const cluster = clusterName(object)
  if (cluster === undefined) return summarize(object)
  return { ...summarize(object), cluster: `${cluster.namespace}/${cluster.name}` }
}

/** Throws `CliError` if it does not exist. */
export async function readResource(
  kubernetes: Kubernetes,
  { kind, plural }: Resource,
  { namespace, name }: { namespace: string; name: string },
): Promise<StatusObject> {
  const apiResource = { apiVersion: API_VERSION, plural, namespace }
  const object = await kubernetes.get(apiResource, name, StatusObject)
  if (object === undefined) throw new CliError(`${kind} ${namespace}/${name} not found`)
  return object
}

/** All resources of a kind; undefined if its CRD is not installed. */
export async function listResources(
  kubernetes: Kubernetes,
  { plural }: Resource,
  namespace: string | undefined,
): Promise<StatusObject[] | undefined> {
  const apiResource = {
    apiVersion: API_VERSION,
    plural,
    ...(namespace !== undefined && { namespace }),
  }
  try {
    return await kubernetes.list(apiResource, StatusObject)
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return undefined
    throw error
  }
}

/** Namespace and name of the VecCluster that a resource is or belongs to. */
export function clusterName({
  kind,
  metadata,
  spec,
}: StatusObject): { namespace: string; name: string } | undefined {
  const { name, namespace = '' } = metadata
  if (kind === 'VecCluster') return { namespace, name }
  const ref = spec.clusterRef ?? spec.targetClusterRef
  return ref && { namespace: ref.namespace ?? namespace, name: ref.name }
}

/** Placeholder in tables. */
export const NO_PHASE = '-'

export function summarize({ kind, metadata, status }: Omit<StatusObject, 'spec'>): Summary {
  const { name, namespace = '', creationTimestamp, deletionTimestamp } = metadata
  const phase = status?.phase ?? NO_PHASE
  return {
    kind,
    namespace,
    name,
    phase: deletionTimestamp === undefined ? phase : `${phase}, being deleted`,
    ...(creationTimestamp !== undefined && { createdAt: creationTimestamp }),
    message: statusMessage(status),
  }
}

/** A Failed resource shows its error, as its Event does, instead of its progress. */
function statusMessage({
  phase,
  error = '',
  conditions = [],
}: NonNullable<StatusObject['status']> = {}): string {
  const message = mainCondition(conditions)?.message ?? ''
  if (phase !== 'Failed' || message.includes(error)) return message
  return [message, error].filter((text) => text !== '').join(': ')
}

/** Without Progressing: it is True in normal operation and indicates no problem. */
const CONDITION_ORDER = ['Purged', 'Applied', 'Complete', 'Ready', 'Consensus', 'Replicated']

/** The first condition that is not True; otherwise the condition that summarizes the state. */
function mainCondition(conditions: Condition[]): Condition | undefined {
  const ordered = CONDITION_ORDER.flatMap((type) =>
    conditions.filter((condition) => condition.type === type),
  )
  const summaryCondition = ordered.find(({ type }) => type === 'Ready' || type === 'Complete')
  return ordered.find(({ status }) => status !== 'True') ?? summaryCondition ?? conditions[0]
}

/** The scalar fields of a status: URLs, times, sizes, the error. */
export function statusDetails({ status }: Pick<StatusObject, 'status'>): Record<string, string> {
  return Object.fromEntries(
    scalarFields(status ?? {}).filter(([name]) => !OMITTED_FIELDS.has(name)),
  )
}

/** Fields that are shown elsewhere in the report, or that are internal. */
const OMITTED_FIELDS = new Set(['phase', 'observedGeneration', 'appliedGeneration', 'appliedRun'])

/** One item of a list in a status: a collection of a backup, a backup of a schedule. */
export interface StatusItem {
  name: string
  status: string
  says: string
}

/** The lists of a status whose items have a name and a status. */
export function statusItems({ status }: Pick<StatusObject, 'status'>): StatusItem[] {
  return Object.values(status ?? {}).flatMap((value) =>
    (Value.Check(StatusItems, value) ? value : []).map(({ name, status: state, ...rest }) => ({
      name,
      status: state,
      says: scalarFields(rest)
        .map((text) => text.join(' '))
        .join(', '),
    })),
  )
}

const StatusItems = Type.Array(
  Type.Object(
    { name: Type.String(), status: Type.String() },
    { additionalProperties: Type.Unknown() },
  ),
)

/** The fields that are a string or a number. */
function scalarFields(fields: Record<string, unknown>): [name: string, word: string][] {
  return Object.entries(fields).flatMap(([name, value]) =>
    typeof value === 'string' || typeof value === 'number' ? [[name, String(value)]] : [],
  )
}

export async function readCluster(
  kubernetes: Kubernetes,
  { namespace, name }: NamespacedName,
): Promise<VecCluster> {
  const cluster = await kubernetes.get(clusters(namespace), name, VecCluster.schema)
  if (cluster === undefined) throw new CliError(`VecCluster ${namespace}/${name} not found`)
  return cluster
}

export async function readCollection(
  kubernetes: Kubernetes,
  { namespace, name }: NamespacedName,
): Promise<VecCollection> {
  const collection = await kubernetes.get(collections(namespace), name, VecCollection.schema)
  if (collection === undefined) throw new CliError(`VecCollection ${namespace}/${name} not found`)
  return collection
}

/** The VecCluster of a VecCollection. */
export async function readClusterOf(
  kubernetes: Kubernetes,
  { metadata, spec: { clusterRef } }: VecCollection,
): Promise<VecCluster> {
  const { namespace = metadata.namespace, name } = clusterRef
  return readCluster(kubernetes, { namespace, name })
}
