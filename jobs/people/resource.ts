/** One of the seven kinds as people name it and look at it: whatever its state, its words come out. */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/names.ts'
import { RESOURCES, type Resource } from '../../crds/resources.ts'
import { Condition } from '../../crds/schema.ts'
import { KubernetesError } from '../../crds/errors.ts'
import type { Kubernetes } from '../clients/kubernetes.ts'
import { Complaint, ENDS } from './command.ts'

const Ref = Type.Object({ name: Type.String(), namespace: Type.Optional(Type.String()) })

/** As much of any of them as is shown. */
export const Shown = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    clusterRef: Type.Optional(Ref),
    targetClusterRef: Type.Optional(Ref),
    collectionName: Type.Optional(Type.String()),
  }),
  status: Type.Optional(
    Type.Object(
      {
        phase: Type.Optional(Type.String()),
        error: Type.Optional(Type.String()),
        conditions: Type.Optional(Type.Array(Condition)),
      },
      { additionalProperties: Type.Unknown() },
    ),
  ),
})
export type Shown = Static<typeof Shown>

/** What one line says of a resource. */
export interface Summary {
  kind: string
  namespace: string
  name: string
  phase: string
  createdAt?: string
  message: string
}

/** By kind, plural, singular or short name, in whatever case. */
export function resourceOf(word: string): Resource {
  const wanted = word.toLowerCase()
  const found = RESOURCES.find(({ kind, plural, singular, shortName }) =>
    [kind.toLowerCase(), plural, singular, shortName].includes(wanted),
  )
  if (found !== undefined) return found
  const known = RESOURCES.map(({ shortName, singular }) => `${singular} (${shortName})`)
  throw new Complaint(`${word} is none of ${known.join(', ')}`, ENDS.usage)
}

/** All of a kind; none where the kind is not installed. */
export async function listed(
  kubernetes: Kubernetes,
  { plural }: Resource,
  namespace: string | undefined,
): Promise<Shown[]> {
  const place = { apiVersion: API_VERSION, plural, ...(namespace !== undefined && { namespace }) }
  try {
    return await kubernetes.list(place, Shown)
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return []
    throw error
  }
}

/** Namespace and name of the VecCluster that a resource is or belongs to. */
export function clusterOf({
  kind,
  metadata,
  spec,
}: Shown): { namespace: string; name: string } | undefined {
  const { name, namespace = '' } = metadata
  if (kind === 'VecCluster') return { namespace, name }
  const ref = spec.clusterRef ?? spec.targetClusterRef
  return ref && { namespace: ref.namespace ?? namespace, name: ref.name }
}

/** As a table shows it. */
export const NO_PHASE = '-'

export function summaryOf({ kind, metadata, status }: Omit<Shown, 'spec'>): Summary {
  const { name, namespace = '', creationTimestamp, deletionTimestamp } = metadata
  const phase = status?.phase ?? NO_PHASE
  return {
    kind,
    namespace,
    name,
    phase: deletionTimestamp === undefined ? phase : `${phase}, being deleted`,
    ...(creationTimestamp !== undefined && { createdAt: creationTimestamp }),
    message: messageOf(status),
  }
}

/** What has Failed says why, as its Event does: how much was done is not what is asked for. */
function messageOf({
  phase,
  error = '',
  conditions = [],
}: NonNullable<Shown['status']> = {}): string {
  const message = tellingOf(conditions)?.message ?? ''
  if (phase !== 'Failed' || message.includes(error)) return message
  return [message, error].filter((words) => words !== '').join(': ')
}

/** Progressing is True while things go well: it tells of no trouble. */
const ORDER = ['Purged', 'Applied', 'Complete', 'Ready', 'Consensus', 'Replicated']

/** The condition that says why it is not as it should be; else the one that says how it is. */
function tellingOf(conditions: Condition[]): Condition | undefined {
  const known = ORDER.flatMap((type) => conditions.filter((one) => one.type === type))
  const main = known.find(({ type }) => type === 'Ready' || type === 'Complete')
  return known.find(({ status }) => status !== 'True') ?? main ?? conditions[0]
}

/** What stands in a status in so many words: addresses, times, sizes, the error. */
export function factsOf({ status }: Pick<Shown, 'status'>): Record<string, string> {
  return Object.fromEntries(wordsIn(status ?? {}).filter(([name]) => !SAID.has(name)))
}

/** Said elsewhere in the picture, or of no use to people. */
const SAID = new Set(['phase', 'observedGeneration', 'appliedGeneration', 'appliedRun'])

/** One of several things a resource works through: a collection of a backup, a backup of a schedule. */
export interface Part {
  name: string
  status: string
  says: string
}

/** The lists of a status whose items have a name and say how far they are. */
export function partsOf({ status }: Pick<Shown, 'status'>): Part[] {
  return Object.values(status ?? {}).flatMap((value) =>
    (Value.Check(Parts, value) ? value : []).map(({ name, status: state, ...rest }) => ({
      name,
      status: state,
      says: wordsIn(rest)
        .map((words) => words.join(' '))
        .join(', '),
    })),
  )
}

const Parts = Type.Array(
  Type.Object(
    { name: Type.String(), status: Type.String() },
    { additionalProperties: Type.Unknown() },
  ),
)

/** The fields that are a word or a number. */
function wordsIn(fields: Record<string, unknown>): [name: string, word: string][] {
  return Object.entries(fields).flatMap(([name, value]) =>
    typeof value === 'string' || typeof value === 'number' ? [[name, String(value)]] : [],
  )
}
