/** GET /cluster: the peers, and the state of this node's consensus thread. */
import { ok, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { Collection } from '../collection.ts'
import type { EngineCluster } from '../cluster.ts'

export function clusterRoutes(
  { method, path }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  if (method !== 'GET' || path.join('/') !== 'cluster') return undefined
  return ok(cluster.enabled ? view(cluster, ordinal) : { status: 'disabled' })
}

function isUnsettled({ unsettledUntil = 0 }: Collection): boolean {
  return unsettledUntil > Date.now()
}

function view(cluster: EngineCluster, ordinal: number): object {
  const error = cluster.consensusError(ordinal)
  const [leader] = cluster.peers()
  const { id } = cluster.peer(ordinal)
  return {
    status: 'enabled',
    peer_id: id,
    peers: Object.fromEntries(cluster.peers().map((peer) => [peer.id, { uri: peer.uri }])),
    raft_info: {
      term: 1,
      commit: cluster.peers().length + cluster.collections.size,
      pending_operations: [...cluster.collections.values()].some(isUnsettled) ? 1 : 0,
      leader: leader?.id ?? null,
      role: leader?.id === id ? 'Leader' : 'Follower',
      is_voter: true,
    },
    consensus_thread_status:
      error === undefined
        ? { consensus_thread_status: 'working', last_update: new Date().toISOString() }
        : { consensus_thread_status: 'stopped_with_err', err: error },
    message_send_failures: {},
  }
}
