/** Changes of replicas and peers that are rejected, and what a removed node reports. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'
import { rest, view } from './recovery.ts'

const DOCS = { vectors: { size: 2, distance: 'Dot' }, shard_number: 1 }
const CLUSTER = '/collections/docs/cluster?timeout=20'

interface Peers {
  /** Holds the only replica. */
  holder: number
  /** Has none. */
  free: number
  other: number
}

async function peersOf(stage: Stage): Promise<Peers> {
  const views = await Promise.all([0, 1, 2].map((node) => view(stage, 'docs', node)))
  const holder = views.find(({ local_shards }) => local_shards.length > 0)?.peer_id ?? 0
  const [free = 0, other = 0] = views.map(({ peer_id }) => peer_id).filter((id) => id !== holder)
  return { holder, free, other }
}

function noteAnswers(stage: Stage, { holder, free, other }: Peers) {
  const names = { '<holder>': holder, '<free>': free, '<other>': other }
  return async (what: string, method: string, path: string, body?: object) => {
    const { status, body: answer } = await stage.ask(
      method,
      path,
      body === undefined ? {} : { body },
    )
    const text = JSON.stringify(stage.normal(answer))
    const named = Object.entries(names).reduce(
      (all, [name, peer]) => all.replaceAll(String(peer), name),
      text,
    )
    stage.note(what, [status, named])
  }
}

export const REPLICAS: Case[] = [
  {
    title:
      'a transfer needs an Active source and another target, and a missing one cannot be aborted',
    sizes: ['three'],
    async play(stage) {
      await created(stage, 'docs', DOCS)
      const peers = await peersOf(stage)
      const { holder, free, other } = peers
      const note = noteAnswers(stage, peers)
      const move = { shard_id: 0, from_peer_id: holder, to_peer_id: free }
      const replicate = (parts: object) => ({ replicate_shard: { ...move, ...parts } })
      await note(
        'not active',
        'POST',
        CLUSTER,
        replicate({ from_peer_id: free, to_peer_id: other }),
      )
      await note('to itself', 'POST', CLUSTER, replicate({ to_peer_id: holder }))
      await note('another shard', 'POST', CLUSTER, replicate({ shard_id: 9 }))
      await note('an unknown peer', 'POST', CLUSTER, replicate({ to_peer_id: 1 }))
      await note('no transfer', 'POST', CLUSTER, { abort_transfer: move })
      await note('drop on an unknown peer', 'POST', CLUSTER, {
        drop_replica: { shard_id: 0, peer_id: 1 },
      })
      await note('a method', 'POST', CLUSTER, replicate({ method: 'stream_records' }))
      await rest(stage, 'docs', 2)
    },
  },
  {
    title: 'a peer with shards cannot be removed; one that was removed lists only itself',
    sizes: ['three'],
    changesPeers: true,
    async play(stage) {
      // The engine decides where a shard is placed.
      do {
        await stage.ask('DELETE', '/collections/docs')
        await created(stage, 'docs', DOCS)
      } while ((await view(stage, 'docs', 0)).local_shards.length === 0)
      const peers = await peersOf(stage)
      const note = noteAnswers(stage, peers)
      const { body } = await stage.ask('GET', '/cluster')
      const { leader } = (body as { result: { raft_info: { leader: number } } }).result.raft_info
      await note('with shards', 'DELETE', `/cluster/peer/${peers.holder}`)
      await note('an unknown peer', 'DELETE', '/cluster/peer/1')
      const removed = await follower(stage, leader)
      await note('without shards', 'DELETE', `/cluster/peer/${removed.peer}?timeout=20`)
      await note('once more', 'DELETE', `/cluster/peer/${removed.peer}?timeout=20`)
      const isStopped = (answer: unknown) => JSON.stringify(answer).includes('"stopped"')
      const { body: alone } = await stage.awaited('/cluster', isStopped, { node: removed.node })
      const { result } = alone as { result: Record<string, unknown> }
      const { raft_info, consensus_thread_status, peer_id, peers: listed } = result
      const {
        is_voter,
        pending_operations,
        leader: followed,
      } = raft_info as Record<string, unknown>
      stage.note('the removed node', {
        consensus_thread_status,
        'lists itself alone': Object.keys(listed as object).join() === String(peer_id),
        is_voter,
        pending_operations,
        'names the leader it followed': followed === leader,
      })
      const ready = await stage.ask('GET', '/readyz', { node: removed.node })
      stage.note('readyz', ready.status)
      const { body: left } = await stage.ask('GET', '/cluster')
      stage.note(
        'peers that are left',
        Object.keys((left as { result: { peers: object } }).result.peers).length,
      )
    },
  },
]

/** A node other than node 0 that does not lead. */
async function follower(stage: Stage, leader: number) {
  const { peer_id } = await view(stage, 'docs', 2)
  const node = peer_id === leader ? 1 : 2
  return { node, peer: (await view(stage, 'docs', node)).peer_id }
}
