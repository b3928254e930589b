/** What a plan is about: a cluster, and the numbers of shards that its collections are to have. */
import { VecCluster } from '../../crds/cluster.ts'
import { VecCollection } from '../../crds/collection.ts'
import { findOwner, isOfCluster, shardNumbersOf } from '../../crds/collection-ownership.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { collections } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import type { DesiredNumber } from '../cluster/shards/view.ts'
import { CliError, EXIT_CODES } from './command.ts'
import { parseReference, readCluster, readClusterOf, readCollection } from './resource.ts'

export interface Subject {
  cluster: VecCluster
  /** Numbers of shards that are planned for; none if the cluster may not change them. */
  numbers: DesiredNumber[]
}

/** What the operands name, before anything is read. */
export interface PlanOperands {
  kind: string
  name: string
  shards: number | undefined
}

export function parseOperands(operands: string[], shards: number | undefined): PlanOperands {
  const {
    resource: { kind },
    name,
  } = parseReference(operands, 'plan')
  if (kind !== VecCluster.kind && kind !== VecCollection.kind) {
    throw new CliError(
      'plan: name a VecCluster, such as qc/docs, or a VecCollection',
      EXIT_CODES.usage,
    )
  }
  if (kind === VecCluster.kind && shards !== undefined) {
    throw new CliError('plan: --shards needs a VecCollection, such as qcol/docs', EXIT_CODES.usage)
  }
  return { kind, name, shards }
}

export async function readSubject(
  kubernetes: Kubernetes,
  namespace: string,
  { kind, name, shards }: PlanOperands,
): Promise<Subject> {
  if (kind === VecCollection.kind) return readNumber(kubernetes, { namespace, name }, shards)
  const cluster = await readCluster(kubernetes, { namespace, name })
  requireSeveralNodes(cluster)
  const numbers = cluster.spec.resharding ? await readShardNumbers(kubernetes, cluster) : []
  return { cluster, numbers }
}

async function readNumber(
  kubernetes: Kubernetes,
  reference: NamespacedName,
  planned: number | undefined,
): Promise<Subject> {
  const collection = await readCollection(kubernetes, reference)
  const { collectionName = reference.name, shardingMethod, shardNumber } = collection.spec
  if (shardingMethod === 'custom') {
    const { namespace, name } = reference
    throw new CliError(
      `VecCollection ${namespace}/${name} has shard keys: their numbers of shards are not changed`,
    )
  }
  const cluster = await readClusterOf(kubernetes, collection)
  requireSeveralNodes(cluster)
  const shards = planned ?? shardNumber
  if (shards === undefined) return { cluster, numbers: [] }
  if (!cluster.spec.resharding) {
    const { namespace, name } = cluster.metadata
    throw new CliError(
      `VecCluster ${namespace}/${name} has spec.resharding false: numbers of shards are not changed`,
    )
  }
  const owner = findOwner(collection, await collectionsOf(kubernetes, cluster))
  if (owner !== undefined) {
    const { namespace, name } = reference
    throw new CliError(
      `VecCollection ${namespace}/${name} does not manage collection ${collectionName}: ${owner} does`,
    )
  }
  return { cluster, numbers: [{ collection: collectionName, shards }] }
}

function requireSeveralNodes({ metadata: { namespace, name }, spec }: VecCluster): void {
  if (spec.cluster.enabled) return
  throw new CliError(
    `VecCluster ${namespace}/${name} has spec.cluster.enabled false: it has one node, and no shard can be moved`,
  )
}

/** As the service decides it. */
async function readShardNumbers(
  kubernetes: Kubernetes,
  cluster: VecCluster,
): Promise<DesiredNumber[]> {
  return shardNumbersOf(await collectionsOf(kubernetes, cluster))
}

async function collectionsOf(
  kubernetes: Kubernetes,
  { metadata: { namespace, name } }: VecCluster,
): Promise<VecCollection[]> {
  const all = await listReadable(kubernetes, namespace)
  return all.filter((collection) => isOfCluster(collection, { namespace, name }))
}

/** Of all namespaces, or of the cluster's own. */
async function listReadable(kubernetes: Kubernetes, namespace: string): Promise<VecCollection[]> {
  for (const resource of [collections(), collections(namespace)]) {
    try {
      return await kubernetes.list(resource, VecCollection.schema)
    } catch (error) {
      if (!(error instanceof KubernetesError && error.status === 403)) throw error
    }
  }
  return []
}
