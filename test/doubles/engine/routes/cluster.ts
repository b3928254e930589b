/** GET /cluster: the peers, and the state of this node's consensus thread. DELETE of a peer. */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { Collection } from '../collection.ts'
import type { EngineCluster, Peer } from '../cluster.ts'

export function clusterRoutes(
  { method, path, query }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, part, id] = path
  if (method === 'DELETE' && root === 'cluster' && part === 'peer' && path.length === 3) {
    return remove(cluster, Number(id), query['force'] === 'true')
  }
  if (method !== 'GET' || path.join('/') !== 'cluster') return undefined
  return ok(cluster.enabled ? view(cluster, ordinal) : { status: 'disabled' })
}

function remove(cluster: EngineCluster, peer: number, isForced: boolean): EngineAnswer {
  if (isForced) forgetReplicas(cluster, peer)
  else if (cluster.hasShards(peer)) {
    refuse(400, `Bad request: Cannot remove peer ${peer} as there are shards on it`)
  }
  cluster.removePeer(peer)
  return ok(true)
}

/** Also of a peer that does not exist. */
function forgetReplicas(cluster: EngineCluster, peer: number): void {
  for (const shard of [...cluster.collections.values()].flatMap(({ shards }) => shards)) {
    shard.peers = shard.peers.filter((id) => id !== peer)
    delete shard.states?.[peer]
  }
}

function isUnsettled({ unsettledUntil = 0 }: Collection): boolean {
  return unsettledUntil > Date.now()
}

/** Its microseconds differ from one answer to the next, as those of a thread that runs. */
let answers = 0

function threadStatus(cluster: EngineCluster, ordinal: number): object {
  if (cluster.isRemoved(ordinal)) return { consensus_thread_status: 'stopped' }
  const error = cluster.consensusError(ordinal)
  const panicTime = cluster.panicTime(ordinal)
  if (error !== undefined && panicTime === undefined) {
    return { consensus_thread_status: 'stopped_with_err', err: error }
  }
  answers = (answers + 1) % 1000
  const time = new Date().toISOString().replace('Z', `${String(answers).padStart(3, '0')}Z`)
  return { consensus_thread_status: 'working', last_update: panicTime ?? time }
}

/** Only the leader sends messages without a cause; the entry of a peer is removed by the next one that reaches it. */
function sendFailures({ unreachable }: EngineCluster, peers: Peer[]): object {
  const failure = {
    count: 3,
    latest_error: 'Failed to connect',
    latest_error_timestamp: new Date().toISOString(),
  }
  return Object.fromEntries(
    peers.filter(({ ordinal }) => unreachable.has(ordinal)).map(({ uri }) => [uri, failure]),
  )
}

function view(cluster: EngineCluster, ordinal: number): object {
  const [leader] = cluster.peers()
  const self = cluster.peer(ordinal)
  const { id } = self
  const isRemoved = cluster.isRemoved(ordinal)
  const unlisted = cluster.unlisted.get(ordinal) ?? []
  // A removed node lists only itself, and still names the leader that it followed.
  const listed = isRemoved ? [self] : cluster.peers().filter((peer) => !unlisted.includes(peer.id))
  const commit = cluster.peers().length + cluster.collections.size + cluster.changes
  const isPending = isRemoved || [...cluster.collections.values()].some(isUnsettled)
  return {
    status: 'enabled',
    peer_id: id,
    peers: Object.fromEntries(listed.map((peer) => [peer.id, { uri: peer.uri }])),
    raft_info: {
      term: 1,
      commit: commit - (cluster.lag.get(ordinal) ?? 0),
      pending_operations: isPending ? 1 : 0,
      leader: leader?.id ?? null,
      role: leader?.id === id ? 'Leader' : 'Follower',
      is_voter: !isRemoved,
    },
    consensus_thread_status: threadStatus(cluster, ordinal),
    message_send_failures: leader?.id === id ? sendFailures(cluster, listed) : {},
  }
}
