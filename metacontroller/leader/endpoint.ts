/**
 * The Service of the leader has no selector: the leader writes its own address into its EndpointSlice. Labels on pods
 * would need the right to change any pod of the namespace.
 */
import { isIPv6 } from 'node:net'
import { Type, type Static } from '@sinclair/typebox'
import { AnyObject } from '../../crds/kubernetes.ts'
import { MANAGED_BY } from '../../crds/contract/names.ts'
import { OwnerReference as OwnerReferenceSchema, type NamespacedName } from '../../crds/schema.ts'
import { endpointSlices, services } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { createOrReplace } from '../ports/common.ts'

export type OwnerReference = Static<typeof OwnerReferenceSchema>

/** The pod of this replica, and the port of its hooks. */
export interface Replica {
  pod: { name: string; uid: string }
  address: string
  port: number
}

/** Name of the port in the Service and its EndpointSlice. */
const PORT_NAME = 'leader'

const EndpointSlice = Type.Composite([
  AnyObject,
  Type.Object({
    endpoints: Type.Optional(
      Type.Union([
        Type.Array(
          Type.Object({
            addresses: Type.Array(Type.String()),
            targetRef: Type.Optional(Type.Object({ uid: Type.Optional(Type.String()) })),
          }),
        ),
        Type.Null(),
      ]),
    ),
  }),
])

/** What the Lease and the EndpointSlice belong to, so that they are deleted with the release. */
export async function leaderServiceOwner(
  kubernetes: Kubernetes,
  { namespace, name }: NamespacedName,
): Promise<OwnerReference | undefined> {
  const service = await kubernetes.get(services(namespace), name, AnyObject)
  const uid = service?.metadata.uid
  return uid === undefined ? undefined : { apiVersion: 'v1', kind: 'Service', name, uid }
}

/** Directs the Service to this replica, unless it is directed there already. */
export async function directService(
  kubernetes: Kubernetes,
  { namespace, name }: NamespacedName,
  replica: Replica,
): Promise<void> {
  const found = await kubernetes.get(endpointSlices(namespace), name, EndpointSlice)
  const { addresses: [current] = [], targetRef } = found?.endpoints?.[0] ?? {}
  if (current === replica.address && targetRef?.uid === replica.pod.uid) return
  const owner = await leaderServiceOwner(kubernetes, { namespace, name })
  const addressType = isIPv6(replica.address) ? 'IPv6' : 'IPv4'
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace,
      name,
      labels: {
        'kubernetes.io/service-name': name,
        'endpointslice.kubernetes.io/managed-by': MANAGED_BY,
      },
      ...(owner !== undefined && { ownerReferences: [owner] }),
      ...(found?.metadata.resourceVersion !== undefined && {
        resourceVersion: found.metadata.resourceVersion,
      }),
    },
    addressType,
    endpoints: [
      {
        addresses: [replica.address],
        conditions: { ready: true, serving: true, terminating: false },
        targetRef: { kind: 'Pod', namespace, ...replica.pod },
      },
    ],
    ports: [{ name: PORT_NAME, port: replica.port, protocol: 'TCP' }],
  }
  await createOrReplace(kubernetes, endpointSlices(namespace), slice)
}
