/** A node of the real engine, where ENGINE_BIN names one, that joins after a replica was dropped during a copy. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { RealSubject } from '../../../contract/engine/real.ts'
import { matchWhole } from '../../../match-whole.ts'
import { call, openRealCluster } from './real-cluster.ts'
import { startedSteps } from './shards-world.ts'

const bin = process.env['ENGINE_BIN']
const CLUSTER = '/collections/docs/cluster'
const WAIT_MS = 60_000

interface Placement {
  peer_id: number
  local_shards: { shard_id: number; state: string }[]
  remote_shards: { shard_id: number; peer_id: number; state: string }[]
  shard_transfers: object[]
}

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: no node to join', { skip: true })
} else {
  t.setTimeout(300_000)
  t.test('a replica that a joined node calls Dead is replaced', { timeout: 300_000 }, async (t) => {
    const { subject, world, time } = await openRealCluster(t, bin)
    const body = { vectors: { size: 4, distance: 'Dot' }, shard_number: 2 }
    await call(subject, 0, 'PUT', '/collections/docs?timeout=60', body)
    const peers = await Promise.all([0, 1, 2].map((node) => peerOf(subject, node)))
    const [first = 0, second = 0, third = 0] = peers
    for (const shard of [0, 1]) await holdOn(subject, shard, first)
    await change(subject, { replicate_shard: copy(0, first, second) })
    await until(async () => (await statesOn(subject, 0, 0)).get(second) === 'Active')

    // The copy of shard 1 takes as long as its target is stopped.
    const target = subject.pids[2] ?? 0
    process.kill(target, 'SIGSTOP')
    await change(subject, { replicate_shard: copy(1, first, third) })
    await change(subject, { drop_replica: { shard_id: 0, peer_id: first } })
    process.kill(target, 'SIGCONT')
    await until(async () => (await statesOn(subject, 0, 1)).get(third) === 'Active')
    await subject.add()
    await until(async () => (await statesOn(subject, 3, 1)).size === 2)
    const reported = await Promise.all([0, 1, 2, 3].map((node) => statesOn(subject, node, 1)))
    t.strictSame(
      reported.map((states) => states.get(third)),
      ['Active', 'Active', 'Active', 'Dead'],
    )

    await world.scale(4)
    const { code, log } = await world.run({ nodes: 4 }, { time })
    t.equal(code, EXIT.done, log)
    matchWhole(t, startedSteps(log), [/docs\/1: dropping the replica on node 2/])
    const after = await Promise.all([0, 1, 2, 3].map((node) => statesOn(subject, node, 1)))
    for (const states of after) t.strictSame([...states], [[first, 'Active']])
  })
}

function copy(shard_id: number, from_peer_id: number, to_peer_id: number) {
  return { shard_id, from_peer_id, to_peer_id }
}

async function change(subject: RealSubject, body: object): Promise<void> {
  await call(subject, 0, 'POST', `${CLUSTER}?timeout=30`, body)
}

async function peerOf(subject: RealSubject, node: number): Promise<number> {
  return (await call<Placement>(subject, node, 'GET', CLUSTER)).peer_id
}

/** By peer, what a node reports. */
async function statesOn(
  subject: RealSubject,
  node: number,
  shard: number,
): Promise<Map<number, string>> {
  const { peer_id, local_shards, remote_shards } = await call<Placement>(
    ...([subject, node, 'GET', CLUSTER] as const),
  )
  const own = local_shards.map((one) => ({ ...one, peer_id }))
  return new Map(
    [...own, ...remote_shards].flatMap((one) =>
      one.shard_id === shard ? [[one.peer_id, one.state]] : [],
    ),
  )
}

/** The engine decides where a shard is created. */
async function holdOn(subject: RealSubject, shard: number, peer: number): Promise<void> {
  const [holder = 0] = (await statesOn(subject, 0, shard)).keys()
  if (holder !== peer) await change(subject, { move_shard: copy(shard, holder, peer) })
  await until(async () => {
    const states = await statesOn(subject, 0, shard)
    return states.size === 1 && states.get(peer) === 'Active'
  })
}

async function until(isMet: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + WAIT_MS
  while (!(await isMet().catch(() => false))) {
    if (Date.now() > end) throw new Error('it has not come')
    await delay(100)
  }
}
