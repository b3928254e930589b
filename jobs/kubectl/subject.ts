/** Reads the VecCluster or VecCollection that a command is about; each throws `CliError` if it does not exist. */
import { VecCluster } from '../../crds/cluster.ts'
import { VecCollection } from '../../crds/collection.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { clusters, collections } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import { CliError } from './command.ts'

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
