/**
 * Creates engine clients and resolves the addresses that they connect to. A tenant may replace the
 * client Service of a cluster by one of type ExternalName that points to another tenant's engine,
 * whose network policy trusts the operator's pod. The address is therefore taken from the Service
 * itself, and DNS is used only for pods: pod names resolve only under a headless Service, never
 * under an ExternalName.
 */
import type { LookupAddress } from 'node:dns'
import { isIPv6 } from 'node:net'
import { Type, type Static } from '@sinclair/typebox'
import type { Logger } from 'pino'
import type { Connection } from '../../crds/contract/connection.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { Engine } from '../../jobs/clients/engine/client.ts'
import { secretEngineCredentials, type ReadSecret } from '../../jobs/clients/engine/credentials.ts'
import {
  apiProxyTransport,
  dnsTransport,
  type Transport,
  type EngineConnections,
} from '../../jobs/clients/engine/transport.ts'
import {
  AddressRefused,
  type AddressGuard,
  type Lookup,
} from '../../jobs/clients/http/address-guard.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { instrumentedTransport, type OnCall } from '../metrics/instrumented-clients.ts'
import { services } from '../../jobs/clients/kubernetes/api-resources.ts'
import { ttlCache } from './ttl-cache.ts'

const Service = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    type: Type.Optional(Type.String()),
    clusterIPs: Type.Optional(Type.Array(Type.String())),
  }),
})
type Service = Static<typeof Service>

export type ReadService = (namespace: string, name: string) => Promise<Service | undefined>

/** Connections are reopened after seconds, and a thousand collections of one cluster open many. */
const SERVICE_TTL_SECONDS = 5

export function serviceReader(kubernetes: Kubernetes, now: () => Date): ReadService {
  const read: ReadService = (namespace, name) => kubernetes.get(services(namespace), name, Service)
  return ttlCache(read, SERVICE_TTL_SECONDS, now)
}

export function engineLookup(guard: AddressGuard, read: ReadService): Lookup {
  return (host, options, callback) => {
    const [, name, namespace] = /^([^.]+)\.([^.]+)\.svc(?:\.|$)/.exec(host) ?? []
    if (name === undefined || namespace === undefined) {
      guard.lookup(host, options, callback)
      return
    }
    serviceAddresses({ namespace, name }, read).then(
      (addresses) => {
        const [first] = addresses
        if (first === undefined) guard.lookup(host, options, callback)
        else if (options.all === true) callback(null, addresses)
        else callback(null, first.address, first.family)
      },
      (error: unknown) => callback(error as Error, []),
    )
  }
}

/** Empty if the Service does not exist or is headless. */
async function serviceAddresses(
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

export interface EngineDependencies {
  kubernetes: Kubernetes
  connections: EngineConnections
  route: 'direct' | 'proxy'
  /** From the cache of Secrets. */
  secret: ReadSecret
  /** Nearly live: read when the engine rejected the cached credentials. */
  freshSecret: ReadSecret
  log: Logger
  onCall?: OnCall
}

/** Client for the engine on one pod or, without an ordinal, behind the client Service. */
export function engineClient(
  dependencies: EngineDependencies,
  connection: Connection,
  ordinal?: number,
): Engine {
  const { secret, freshSecret, log } = dependencies
  return new Engine({
    transport: engineTransport(dependencies, connection, ordinal),
    credentials: () => secretEngineCredentials(connection, secret),
    freshCredentials: () => secretEngineCredentials(connection, freshSecret),
    log,
  })
}

/** The way to the engine on one pod or, without an ordinal, behind the client Service. */
export function engineTransport(
  { kubernetes, connections, onCall, route: kind }: EngineDependencies,
  connection: Connection,
  ordinal?: number,
): Transport {
  const route =
    kind === 'direct'
      ? dnsTransport(connections, connection, ordinal)
      : apiProxyTransport(kubernetes, connection, ordinal)
  return onCall === undefined ? route : instrumentedTransport(route, onCall)
}
