/** Asks each pod of a cluster for its consensus thread: `/readyz` stays 200 when that is dead. */
import type { Connection } from '../crds/connection.ts'
import { EngineError } from '../crds/errors.ts'
import { releaseName } from '../crds/names.ts'
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
    return { ordinal, ...consensusOf(view, connection) }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return { ordinal, state: 'unknown' }
  }
}

/** What the view of one node says of its consensus thread. A node that runs alone has none to lose. */
export function consensusOf(
  view: ClusterView,
  connection: Pick<Connection, 'name'>,
): Omit<PodConsensus, 'ordinal'> {
  if (view.status === 'disabled') return { state: 'working' }
  const { consensus_thread_status: status, err } = view.consensus_thread_status
  if (status === 'working') {
    const peers = Object.entries(view.peers).map(([id, { uri }]) => {
      const ordinal = ordinalAt(uri, connection)
      return { id: Number(id), ...(ordinal !== undefined && { ordinal }) }
    })
    const hasLeader = (view.raft_info.leader ?? 0) !== 0
    return { state: 'working', peerId: view.peer_id, peers, hasLeader }
  }
  if (!status.startsWith('stopped')) return { state: 'unknown' }
  return { state: 'stopped', ...(err !== undefined && { error: err }) }
}

/** Ordinal of the pod that a peer's address names, in whatever form: `vec-a-0.vec-a-headless:6335`. */
function ordinalAt(uri: string, { name }: Pick<Connection, 'name'>): number | undefined {
  if (!URL.canParse(uri)) return undefined
  const [host = ''] = new URL(uri).hostname.split('.')
  const release = `${releaseName(name)}-`
  const ordinal = host.slice(release.length)
  return host.startsWith(release) && /^[0-9]{1,9}$/.test(ordinal) ? Number(ordinal) : undefined
}
