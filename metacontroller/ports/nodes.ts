/** What Kubernetes knows about the nodes of a cluster: their pods, their volumes, and the machines below them. */
import { Type } from '@sinclair/typebox'
import type { Connection } from '../../crds/contract/connection.ts'
import {
  claimName,
  isPodOfRelease,
  LABELS,
  releaseName,
  REVISION_LABEL,
} from '../../crds/contract/names.ts'
import { AnyObject, isUnschedulable, Pod } from '../../crds/kubernetes.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { parseQuantity } from '../../crds/units.ts'
import { engineVersions } from '../../crds/versions.ts'
import type { NodeFacts, ShardsQuery } from '../../hooks/cluster/shards/summary.ts'
import type { ObservationMemory } from '../../jobs/cluster/shards/observe.ts'
import type { ClusterView } from '../../jobs/cluster/shards/view.ts'
import type { CollectionFacts } from '../../jobs/clients/engine/shards.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { mapConcurrently } from '../../jobs/retry.ts'
import {
  kubernetesNodes,
  persistentVolumeClaims,
  pods,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import { boundedPod } from './bounded-objects.ts'
import { hasStatus, listPicked } from './common.ts'

export const NODE_TTL_SECONDS = 300

const ZONE_LABEL = 'topology.kubernetes.io/zone'
/** Calls to the API server at the same time. */
const CONCURRENCY = 10

type NodeReader = (name: string) => Promise<KubernetesNode | undefined>

/** What is known about a Kubernetes node: nothing if the service may not read nodes. */
interface KubernetesNode {
  isGone: boolean
  zone?: string
}

/** The volume of each pod, and the Kubernetes node on which it runs or ran last. */
export async function readNodes(
  { connection, claimTemplate, recorded }: ShardsQuery,
  kubernetes: Kubernetes,
  readNode: NodeReader,
): Promise<NodeFacts[]> {
  const { namespace, name, replicas } = connection
  const release = releaseName(name)
  const livePods = await readPods(kubernetes, connection)
  const ordinals = Array.from({ length: replicas }, (_, ordinal) => ordinal)
  return mapConcurrently(ordinals, CONCURRENCY, async (ordinal) => {
    const pod = livePods.get(`${release}-${ordinal}`)
    const revision = pod?.metadata.labels?.[REVISION_LABEL]
    const claim = claimName(claimTemplate, release, ordinal)
    const last = recorded.find((entry) => entry.ordinal === ordinal)?.node
    const node = pod?.spec?.nodeName ?? last
    const [volume, found] = await Promise.all([
      readVolume(kubernetes, namespace, claim),
      node === undefined ? undefined : readNode(node),
    ])
    const zone = found?.zone
    return {
      ...{ ordinal, ...volume },
      ...(node !== undefined && { node }),
      ...(zone !== undefined && { zone }),
      ...(revision !== undefined && { revision }),
      ...(found?.isGone === true && { isNodeGone: true as const }),
      ...(pod !== undefined && isUnschedulable(pod) && { isUnschedulable: true as const }),
    }
  })
}

/** The pods of the release by name. */
export async function readPods(
  kubernetes: Kubernetes,
  { namespace, name }: Connection,
): Promise<Map<string, Pod>> {
  const labelSelector = `app.kubernetes.io/instance=${releaseName(name)}`
  const picked = { labelSelector, schema: Pod, pick: boundedPod }
  const found = await listPicked(kubernetes, pods(namespace), picked)
  return new Map(found.map((pod) => [pod.metadata.name, pod]))
}

/** The versions of the engine in the images of the pods, each once, the oldest first. */
export async function readPodVersions(
  kubernetes: Kubernetes,
  { namespace, name }: NamespacedName,
): Promise<string[]> {
  const release = releaseName(name)
  const versions = await listPicked(kubernetes, pods(namespace), {
    labelSelector: `app.kubernetes.io/instance=${release}`,
    schema: Pod,
    // Users choose the labels of their own pods.
    pick: ({ metadata, spec }: Pod) => {
      if (!isPodOfRelease(metadata.name, release)) return undefined
      return engineVersions([spec?.containers?.[0]?.image])[0]
    },
  })
  return engineVersions(versions)
}

async function readVolume(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<Pick<NodeFacts, 'volume' | 'isVolumeMissing' | 'volumeBytes'>> {
  const claim = await kubernetes.get(persistentVolumeClaims(namespace), name, Claim)
  if (claim === undefined) return { isVolumeMissing: true }
  const { uid } = claim.metadata
  const bytes = Math.floor(parseQuantity(claim.status?.capacity?.storage ?? ''))
  return {
    ...(uid !== undefined && { volume: uid }),
    ...(Number.isSafeInteger(bytes) && { volumeBytes: bytes }),
  }
}

const Claim = Type.Object({
  ...AnyObject.properties,
  status: Type.Optional(
    Type.Object({
      capacity: Type.Optional(Type.Object({ storage: Type.Optional(Type.String()) })),
    }),
  ),
})

/** Undefined without the right to read nodes, which a namespaced installation does not have. */
export async function readKubernetesNode(
  kubernetes: Kubernetes,
  name: string,
): Promise<KubernetesNode | undefined> {
  try {
    const node = await kubernetes.get(kubernetesNodes(), name, AnyObject)
    const zone = node?.metadata.labels?.[ZONE_LABEL]
    return { isGone: node === undefined, ...(zone !== undefined && { zone }) }
  } catch (error) {
    if (hasStatus(error, 403)) return undefined
    throw error
  }
}

export async function retainedVolumes(
  kubernetes: Kubernetes,
  namespace: string,
  names: string[],
): Promise<string[]> {
  const found = await mapConcurrently(names, CONCURRENCY, (name) =>
    kubernetes.get(persistentVolumeClaims(namespace), name, AnyObject),
  )
  return found.flatMap((claim) =>
    claim?.metadata.labels?.[LABELS.removedPeer] === undefined ? [] : [claim.metadata.name],
  )
}

/** The nodes with the size of their data. A node that does not answer now reports nothing. */
export function withData(
  nodes: NodeFacts[],
  { peers }: Pick<ClusterView, 'peers'>,
  { facts }: Pick<ObservationMemory, 'facts'>,
): NodeFacts[] {
  return nodes.map((node) => {
    const isMember = peers.some((peer) => peer.isMember && peer.ordinal === node.ordinal)
    const collections = isMember ? facts.get(node.ordinal) : undefined
    const dataBytes = collections && sumOfBytes([...collections.values()])
    return { ...node, ...(dataBytes !== undefined && { dataBytes }) }
  })
}

/** The write-ahead log of a replica: two segments of 32 MiB, less for a replica with little data. */
const WAL_BYTES = 64 * 2 ** 20

/** Undefined if the size of a replica is not known. */
function sumOfBytes(collections: CollectionFacts[]): number | undefined {
  if (collections.some(({ isIncomplete }) => isIncomplete === true)) return undefined
  return collections
    .flatMap(({ bytes }) => [...bytes.values()])
    .reduce((sum, bytes) => sum + bytes + Math.min(bytes, WAL_BYTES), 0)
}
