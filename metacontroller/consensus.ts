/** Asks each pod of a cluster for its consensus thread: `/readyz` stays 200 when that is dead. */
import type { Connection } from '../crds/connection.ts'
import { EngineError } from '../crds/errors.ts'
import type { Secret } from '../crds/kubernetes.ts'
import type { ClusterPorts, PodConsensus } from '../hooks/cluster/ports.ts'
import type { ClusterView } from '../jobs/clients/engine-answers.ts'
import { directRoute, proxyRoute, type EngineConnections } from '../jobs/clients/engine-route.ts'
import { Engine, type EngineCredentials } from '../jobs/clients/engine.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import type { Logger } from 'pino'

export interface EngineTools {
  kubernetes: Kubernetes
  connections: EngineConnections
  route: 'direct' | 'proxy'
  secret: ClusterPorts['secret']
  log: Logger
}

export function consensusPort(tools: EngineTools): ClusterPorts['consensus'] {
  return (connection, signal) => {
    const ordinals = Array.from({ length: connection.replicas }, (_, ordinal) => ordinal)
    return Promise.all(ordinals.map((ordinal) => askPod(tools, connection, ordinal, signal)))
  }
}

async function askPod(
  tools: EngineTools,
  connection: Connection,
  ordinal: number,
  signal: AbortSignal,
): Promise<PodConsensus> {
  const engine = new Engine({
    route:
      tools.route === 'direct'
        ? directRoute(tools.connections, connection, ordinal)
        : proxyRoute(tools.kubernetes, connection, ordinal),
    credentials: () => credentialsOf(connection, tools.secret),
    log: tools.log,
  })
  try {
    return { ordinal, ...consensusOf(await engine.cluster(signal)) }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return { ordinal, state: 'unknown' }
  }
}

/** What the view of one node says of its consensus thread. A node that runs alone has none to lose. */
export function consensusOf(view: ClusterView): Omit<PodConsensus, 'ordinal'> {
  if (view.status === 'disabled') return { state: 'working' }
  const { consensus_thread_status: status, err } = view.consensus_thread_status
  if (status === 'working') return { state: 'working' }
  if (!status.startsWith('stopped')) return { state: 'unknown' }
  return { state: 'stopped', ...(err !== undefined && { error: err }) }
}

/** The key is the one the pods run, not the one a person wrote: they differ until helm has run. */
async function credentialsOf(
  { namespace, key, caSecret }: Connection,
  secret: ClusterPorts['secret'],
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
