/** Asks each pod of a cluster for its consensus thread: `/readyz` stays 200 when that is dead. */
import type { Connection } from '../crds/connection.ts'
import { EngineError } from '../crds/errors.ts'
import type { ClusterPorts, PodConsensus } from '../hooks/cluster/ports.ts'
import type { ClusterView } from '../jobs/clients/engine-answers.ts'
import { engineOn, type EngineTools } from './engines.ts'

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
  try {
    const view = await engineOn(tools, connection, ordinal).cluster(signal)
    return { ordinal, ...consensusOf(view) }
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
