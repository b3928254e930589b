/** The engine of a cluster as the service reaches it: by which route, and with which credentials. */
import type { Logger } from 'pino'
import type { Connection } from '../crds/connection.ts'
import { secretEngineCredentials, type ReadSecret } from '../jobs/clients/credentials.ts'
import { directRoute, proxyRoute, type EngineConnections } from '../jobs/clients/engine-route.ts'
import { Engine } from '../jobs/clients/engine.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { countedRoute, type Called } from './counted.ts'

export interface EngineTools {
  kubernetes: Kubernetes
  connections: EngineConnections
  route: 'direct' | 'proxy'
  /** From a short memory. */
  secret: ReadSecret
  /** As it is now: asked when what was remembered was refused. */
  freshSecret: ReadSecret
  log: Logger
  called?: Called
}

/** The engine on one pod, or without an ordinal the one behind the client Service. */
export function engineOn(tools: EngineTools, connection: Connection, ordinal?: number): Engine {
  const { kubernetes, connections, secret, freshSecret, log, called } = tools
  const route =
    tools.route === 'direct'
      ? directRoute(connections, connection, ordinal)
      : proxyRoute(kubernetes, connection, ordinal)
  return new Engine({
    route: called === undefined ? route : countedRoute(route, called),
    credentials: () => secretEngineCredentials(connection, secret),
    freshCredentials: () => secretEngineCredentials(connection, freshSecret),
    log,
  })
}
