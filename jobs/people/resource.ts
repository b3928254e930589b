/** One of the seven kinds as people name it and look at it: whatever its state, its words come out. */
import { Type, type Static } from '@sinclair/typebox'
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
    Type.Object({
      phase: Type.Optional(Type.String()),
      conditions: Type.Optional(Type.Array(Condition)),
    }),
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

export function summaryOf({ kind, metadata, status }: Omit<Shown, 'spec'>): Summary {
  const { name, namespace = '', creationTimestamp, deletionTimestamp } = metadata
  const phase = status?.phase ?? '-'
  return {
    kind,
    namespace,
    name,
    phase: deletionTimestamp === undefined ? phase : `${phase}, being deleted`,
    ...(creationTimestamp !== undefined && { createdAt: creationTimestamp }),
    message: tellingOf(status?.conditions ?? [])?.message ?? '',
  }
}

/** Progressing is True while things go well: it tells of no trouble. */
const ORDER = ['Purged', 'Applied', 'Complete', 'Ready', 'Consensus', 'Replicated']

/** The condition that says why it is not as it should be; else the one that says how it is. */
function tellingOf(conditions: Condition[]): Condition | undefined {
  const known = ORDER.flatMap((type) => conditions.filter((one) => one.type === type))
  const main = known.find(({ type }) => type === 'Ready' || type === 'Complete')
  return known.find(({ status }) => status !== 'True') ?? main ?? conditions[0]
}
