/** The engine of a cluster as the service reaches it: by which route, and with which credentials. */
import type { Logger } from 'pino'
import type { Connection } from '../crds/connection.ts'
import type { Secret } from '../crds/kubernetes.ts'
import { directRoute, proxyRoute, type EngineConnections } from '../jobs/clients/engine-route.ts'
import { Engine, type EngineCredentials } from '../jobs/clients/engine.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'

type ReadSecret = (namespace: string, name: string) => Promise<Secret | undefined>

export interface EngineTools {
  kubernetes: Kubernetes
  connections: EngineConnections
  route: 'direct' | 'proxy'
  /** From a short memory. */
  secret: ReadSecret
  /** As it is now: asked when what was remembered was refused. */
  freshSecret: ReadSecret
  log: Logger
}

/** The engine on one pod, or without an ordinal the one behind the client Service. */
export function engineOn(tools: EngineTools, connection: Connection, ordinal?: number): Engine {
  const { kubernetes, connections, route, secret, freshSecret, log } = tools
  return new Engine({
    route:
      route === 'direct'
        ? directRoute(connections, connection, ordinal)
        : proxyRoute(kubernetes, connection, ordinal),
    credentials: () => credentialsOf(connection, secret),
    freshCredentials: () => credentialsOf(connection, freshSecret),
    log,
  })
}

/** The key is the one the pods run, not the one a person wrote: they differ until helm has run. */
async function credentialsOf(
  { namespace, key, caSecret }: Connection,
  secret: ReadSecret,
): Promise<EngineCredentials> {
  const [keySecret, tlsSecret] = await Promise.all([
    key && secret(namespace, key.secret),
    caSecret === undefined ? undefined : secret(namespace, caSecret),
  ])
  return { key: key && content(keySecret, key.key), ca: content(tlsSecret, 'ca.crt') }
}

function content(secret: Secret | undefined, key: string): string | undefined {
  const value = secret?.data?.[key]
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString()
}
