/**
 * Where the service connects to when it calls an engine. A tenant may replace the client Service of a cluster by one
 * of type ExternalName, and the network policy of another tenant's engine trusts the operator's pod: so the address
 * comes from the Service itself, and DNS is asked only for pods. The names of pods exist only below a headless
 * Service, never below an ExternalName.
 */
import type { LookupAddress } from 'node:dns'
import { isIPv6 } from 'node:net'
import { Type, type Static } from '@sinclair/typebox'
import { AnyObject } from '../crds/kubernetes.ts'
import { AddressRefused, type AddressGuard, type Lookup } from '../jobs/clients/addresses.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { services } from './places.ts'
import { remember } from './remember.ts'

const Service = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    type: Type.Optional(Type.String()),
    clusterIPs: Type.Optional(Type.Array(Type.String())),
  }),
})
type Service = Static<typeof Service>

export type ReadService = (namespace: string, name: string) => Promise<Service | undefined>

/** Connections are made again after seconds; a thousand collections of one cluster make many. */
const SERVICE_SECONDS = 5

export function serviceReader(kubernetes: Kubernetes, now: () => Date): ReadService {
  const read: ReadService = (namespace, name) => kubernetes.get(services(namespace), name, Service)
  return remember(read, SERVICE_SECONDS, now)
}

export function engineLookup(guard: AddressGuard, read: ReadService): Lookup {
  return (host, options, answer) => {
    const [, name, namespace] = /^([^.]+)\.([^.]+)\.svc(?:\.|$)/.exec(host) ?? []
    if (name === undefined || namespace === undefined) {
      guard.lookup(host, options, answer)
      return
    }
    addressesOf({ namespace, name }, read).then(
      (found) => {
        const [first] = found
        if (first === undefined) guard.lookup(host, options, answer)
        else if (options.all === true) answer(null, found)
        else answer(null, first.address, first.family)
      },
      (error: unknown) => answer(error as Error, []),
    )
  }
}

/** None where there is no such Service, or a headless one. */
async function addressesOf(
  { namespace, name }: { namespace: string; name: string },
  read: ReadService,
): Promise<LookupAddress[]> {
  const { spec } = (await read(namespace, name)) ?? {}
  if (spec?.type === 'ExternalName') {
    throw new AddressRefused(
      `Service ${namespace}/${name} is of type ExternalName, which is not called: delete it, and the next helm run of the VecCluster creates its own`,
    )
  }
  return (spec?.clusterIPs ?? [])
    .filter((address) => address !== 'None' && address !== '')
    .map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
}
