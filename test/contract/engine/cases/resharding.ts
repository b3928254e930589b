/** Changing the number of shards, driven from outside. The hash ring is the engine's own, so counts are compared as sums. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created, VECTORS } from './making.ts'

const UUID = '00000000-0000-4000-8000-000000000001'
const POINTS = 200
const CLUSTER = '/collections/docs/cluster?timeout=20'

interface Replica {
  shard_id: number
  shard_key?: string
  state: string
}

interface View {
  result: {
    peer_id: number
    local_shards: Replica[]
    shard_transfers: unknown[]
    resharding_operations?: object[]
  }
}

/** Notes the call with the names of peers in place of their ids. */
async function change(stage: Stage, body: object): Promise<void> {
  const { status, body: answer } = await stage.ask('POST', CLUSTER, { body })
  // Messages have ids of peers.
  const text = JSON.stringify(stage.normal(answer)).replace(/\b\d{6,}\b/g, '<peer>')
  stage.note(JSON.stringify(stage.normal(body)), { status, answer: JSON.parse(text) as unknown })
}

async function view(stage: Stage): Promise<View['result']> {
  const { body } = await stage.ask('GET', '/collections/docs/cluster')
  return (body as View).result
}

async function noteShards(stage: Stage): Promise<void> {
  const { local_shards, resharding_operations } = await view(stage)
  const shards = local_shards.map(
    ({ shard_id, shard_key = '', state }) => `${shard_id} ${shard_key} ${state}`,
  )
  stage.note('shards', shards.sort())
  stage.note('reshardings', resharding_operations ?? 'none')
}

async function write(
  stage: Stage,
  { from = 0, count = POINTS, key }: { from?: number; count?: number; key?: string } = {},
): Promise<void> {
  const points = Array.from({ length: count }, (_, index) => ({
    id: from + index,
    vector: [1, 2, 3, index],
  }))
  const body = { points, ...(key !== undefined && { shard_key: key }) }
  const { status } = await stage.ask('PUT', '/collections/docs/points?wait=true', { body })
  stage.note(`${count} points from ${from} are written`, status)
}

async function count(stage: Stage, key?: string): Promise<number> {
  const body = { exact: true, ...(key !== undefined && { shard_key: key }) }
  const { body: answer } = await stage.ask('POST', '/collections/docs/points/count', { body })
  return (answer as { result: { count: number } }).result.count
}

/** Number of different ids and of all points that a scroll shows. */
async function ids(stage: Stage): Promise<[different: number, all: number]> {
  const body = { limit: POINTS * 4 }
  const { body: answer } = await stage.ask('POST', '/collections/docs/points/scroll', { body })
  const { points } = (answer as { result: { points: { id: number }[] } }).result
  return [new Set(points.map(({ id }) => id)).size, points.length]
}

async function held(stage: Stage, shard: number, to?: number): Promise<number> {
  const body = {
    exact: true,
    ...(to !== undefined && { hash_ring_filter: { expected_shard_id: to } }),
  }
  const path = `/collections/docs/shards/${shard}/points/count`
  const { body: answer } = await stage.ask('POST', path, { body })
  return (answer as { result: { count: number } }).result.count
}

/** Until no transfer is left: the state of the target says nothing. */
async function stream(stage: Stage, from: number, to: number): Promise<void> {
  const { peer_id: peer } = await view(stage)
  const transfer = { shard_id: from, to_shard_id: to, from_peer_id: peer, to_peer_id: peer }
  await change(stage, {
    replicate_shard: { ...transfer, method: 'resharding_stream_records' },
  })
  await stage.awaited('/collections/docs/cluster', (body) => {
    const { shard_transfers } = (body as View).result
    return shard_transfers.length === 0
  })
}

/** A resharding of a collection with points. Its only node. */
async function begin(
  stage: Stage,
  { shards, direction }: { shards: number; direction: 'up' | 'down' },
): Promise<number> {
  await created(stage, 'docs', { ...VECTORS, shard_number: shards })
  await write(stage)
  const { peer_id: peer } = await view(stage)
  await change(stage, { start_resharding: { direction, uuid: UUID, peer_id: peer } })
  return peer
}

type Placement = View['result'] & { remote_shards: (Replica & { peer_id: number })[] }

/** As node 0 sees it. */
async function placement(stage: Stage): Promise<Placement> {
  const { body } = await stage.ask('GET', '/collections/docs/cluster')
  return (body as { result: Placement }).result
}

/** State of each replica of a node, by shard. */
async function statesOn(stage: Stage, node: number): Promise<Map<number, string>> {
  const peer = stage.peerOf(node)
  const { remote_shards: remote } = await placement(stage)
  const own = remote.filter(({ peer_id }) => peer_id === peer)
  const states = own.map(({ shard_id, state }): [number, string] => [shard_id, state])
  return new Map(states.sort(([one], [other]) => one - other))
}

/** The engine shows an aborted resharding, and Active replicas, for a moment before it calls one Dead. */
async function replicasOn(stage: Stage, node: number, expected: string[]): Promise<void> {
  const texts = async () =>
    [...(await statesOn(stage, node))].map(([shard, state]) => `${shard} ${state}`)
  stage.note('replicas of the node', await untilEqual(stage, texts, expected))
}

/** What is read once it is as expected, or after some time. */
async function untilEqual(
  stage: Stage,
  read: () => Promise<string[]>,
  expected: string[],
): Promise<string[]> {
  const isReached = async () => JSON.stringify(await read()) === JSON.stringify(expected)
  for (let attempt = 0; attempt < 100 && !(await isReached()); attempt += 1) {
    await stage.ask('GET', '/cluster')
    await delay(100)
  }
  return read()
}

/** Each node has each shard, and those that remain have the points of the last one. */
async function receiving(
  stage: Stage,
  { shards, oneByOne = false }: { shards: number; oneByOne?: boolean },
): Promise<void> {
  const replicas = { shard_number: shards, replication_factor: stage.nodes }
  await created(stage, 'docs', { ...VECTORS, ...replicas })
  await write(stage)
  await stage.ask('POST', CLUSTER, {
    body: { start_resharding: { direction: 'down', uuid: UUID } },
  })
  const last = shards - 1
  const from = stage.peerOf(0)
  for (let shard = 0; shard < last; shard += 1) {
    for (let node = 0; node < stage.nodes; node += 1) {
      const to = stage.peerOf(node)
      const transfer = { shard_id: last, to_shard_id: shard, from_peer_id: from, to_peer_id: to }
      await stage.ask('POST', CLUSTER, {
        body: { replicate_shard: { ...transfer, method: 'resharding_stream_records' } },
      })
      await stage.awaited('/collections/docs/cluster', (body) => {
        return (body as View).result.shard_transfers.length === 0
      })
      const isLast = shard === last - 1 && node === stage.nodes - 1
      if (!oneByOne || isLast) continue
      await stage.ask('POST', CLUSTER, {
        body: { finish_migrating_points: { shard_id: shard, peer_id: to } },
      })
    }
  }
  stage.note('before', [...(await statesOn(stage, stage.nodes - 1)).values()])
}

/** Points of every shard. The status and the words of the answer, without the error of the node. */
async function overwrite(stage: Stage): Promise<object> {
  const points = Array.from({ length: POINTS }, (_, id) => ({ id, vector: [4, 3, 2, id] }))
  const path = '/collections/docs/points?wait=true'
  const { status, body } = await stage.ask('PUT', path, { body: { points } })
  const { error } = (body as { status: { error?: string } }).status
  const words = error
    ?.replace(
      /\d out of \d shards failed to apply operation\. First error captured: Service internal error: /,
      '',
    )
    .replace(/shard \d+/, 'shard <n>')
    .replace(/ Failed peer: .*/s, '')
  return { status, ...(words !== undefined && { error: words }) }
}

const SIZES = ['one'] as const

export const RESHARDING: Case[] = [
  {
    title: 'without cluster.resharding_enabled a resharding is refused',
    sizes: SIZES,
    async play(stage) {
      await created(stage, 'docs', { ...VECTORS, shard_number: 1 })
      await change(stage, { start_resharding: { direction: 'up', uuid: UUID } })
    },
  },
  {
    title: 'a shard is added in stages, and each point is in one shard afterwards',
    sizes: SIZES,
    resharding: true,
    async play(stage) {
      const peer = await begin(stage, { shards: 1, direction: 'up' })
      await noteShards(stage)
      await stream(stage, 0, 1)
      await noteShards(stage)
      stage.note('count while points are copied', await count(stage))
      const moved = await held(stage, 1)
      stage.note('some points were copied', moved > 0 && moved < POINTS)
      stage.note('all that belong to it', moved === (await held(stage, 0, 1)))
      await change(stage, { finish_migrating_points: { shard_id: 1, peer_id: peer } })
      await change(stage, { commit_read_hash_ring: {} })
      await change(stage, { commit_read_hash_ring: {} })
      await change(stage, { abort_resharding: {} })
      stage.note('points of the old shard', await held(stage, 0))
      const before = await count(stage)
      stage.note('moved points are counted twice', before === POINTS + moved)
      stage.note('and shown once', await ids(stage))
      await stage.call('POST', '/collections/docs/shards/0/cleanup?wait=true&timeout=20')
      stage.note('points of the new shard in the old one', await held(stage, 0, 1))
      await write(stage, { from: POINTS })
      await change(stage, { commit_write_hash_ring: {} })
      await change(stage, { finish_resharding: {} })
      await noteShards(stage)
      stage.note('count', await count(stage))
      const [old, added] = [await held(stage, 0), await held(stage, 1)]
      stage.note('points of both shards', old + added)
      await stage.call('GET', '/collections/docs/exists')
    },
  },
  {
    title: 'an aborted resharding leaves the shards as they were',
    sizes: SIZES,
    resharding: true,
    async play(stage) {
      await created(stage, 'docs', { ...VECTORS, shard_number: 2 })
      await write(stage)
      for (const direction of ['up', 'down']) {
        await change(stage, { start_resharding: { direction, uuid: UUID } })
        if (direction === 'up') await stream(stage, 0, 2)
        else await stream(stage, 1, 0)
        await noteShards(stage)
        await change(stage, { abort_resharding: {} })
        await noteShards(stage)
        stage.note('count', await count(stage))
        stage.note('points of both shards', (await held(stage, 0)) + (await held(stage, 1)))
      }
    },
  },
  {
    title: 'the last shard is removed after its points are in the others',
    sizes: SIZES,
    resharding: true,
    async play(stage) {
      const peer = await begin(stage, { shards: 2, direction: 'down' })
      const removed = await held(stage, 1)
      await stream(stage, 1, 0)
      await noteShards(stage)
      const during = await count(stage)
      stage.note('moved points are counted twice', during === POINTS + removed)
      stage.note('and shown once', await ids(stage))
      await change(stage, { finish_migrating_points: { shard_id: 0, peer_id: peer } })
      await change(stage, { finish_resharding: {} })
      await change(stage, { commit_read_hash_ring: {} })
      stage.note('and still are', (await count(stage)) === POINTS + removed)
      await change(stage, { commit_write_hash_ring: {} })
      await change(stage, { finish_resharding: {} })
      await noteShards(stage)
      stage.note('count', await count(stage))
      stage.note('points of the shard', await held(stage, 0))
    },
  },
  {
    title:
      'while a shard is added to one shard key, the engine acknowledges new points of another key and loses some',
    sizes: SIZES,
    resharding: true,
    async play(stage) {
      await created(stage, 'docs', { ...VECTORS, sharding_method: 'custom', shard_number: 1 })
      for (const shard_key of ['a', 'b']) {
        await stage.ask('PUT', '/collections/docs/shards?timeout=20', { body: { shard_key } })
      }
      await write(stage, { key: 'a' })
      const { peer_id: peer } = await view(stage)
      const start = { direction: 'up', uuid: UUID, peer_id: peer }
      await change(stage, { start_resharding: start })
      await change(stage, { start_resharding: { ...start, shard_key: 'c' } })
      await change(stage, { start_resharding: { ...start, shard_key: 'a' } })
      await noteShards(stage)
      await stream(stage, 1, 3)
      await write(stage, { from: 1000, key: 'b' })
      stage.note('while points are copied', await count(stage, 'b'))
      await change(stage, { finish_migrating_points: { shard_id: 3, peer_id: peer } })
      await change(stage, { commit_read_hash_ring: {} })
      await write(stage, { from: 2000, key: 'b' })
      const found = (await count(stage, 'b')) - POINTS
      stage.note('some of the new points are missing', found > 0 && found < POINTS)
      await change(stage, { commit_write_hash_ring: {} })
      await write(stage, { from: 3000, key: 'b' })
      const later = (await count(stage, 'b')) - POINTS - found
      stage.note('and after the last commit', later > 0 && later < POINTS)
      await change(stage, { finish_resharding: {} })
      await write(stage, { from: 4000, key: 'b' })
      stage.note('none once it is finished', (await count(stage, 'b')) - found - later)
      await stage.ask('POST', '/collections/docs/shards/1/cleanup?wait=true&timeout=20')
      stage.note('points of the key with the new shard', await count(stage, 'a'))
    },
  },
  {
    title: 'a replica that gets points of a removed shard and misses a write is Dead',
    sizes: ['three'],
    resharding: true,
    async play(stage) {
      await receiving(stage, { shards: 2 })
      const victim = stage.nodes - 1
      await stage.whileDown(victim, async () => {
        stage.note('written', await overwrite(stage))
        await replicasOn(stage, victim, ['0 Dead', '1 Dead'])
        stage.note('reshardings', (await placement(stage)).resharding_operations?.length ?? 0)
        stage.note('count', await count(stage))
      })
    },
  },
  {
    title:
      'of two replicas on one node that get points of a removed shard and miss a write, one stays Active until the write is repeated',
    sizes: ['three'],
    resharding: true,
    async play(stage) {
      await receiving(stage, { shards: 3 })
      const victim = stage.nodes - 1
      await stage.whileDown(victim, async () => {
        stage.note('written', await overwrite(stage))
        // Which one depends on the order of two proposals.
        const states = async () => [...(await statesOn(stage, victim)).values()].slice(0, 2).sort()
        const ended = await untilEqual(stage, states, ['Active', 'Dead'])
        stage.note('the replicas that got points', ended)
        stage.note('reshardings', (await placement(stage)).resharding_operations?.length ?? 0)
        stage.note('written again', await overwrite(stage))
        await replicasOn(stage, victim, ['0 Dead', '1 Dead', '2 Dead'])
      })
    },
  },
  {
    title:
      'of two replicas on one node, both are Dead after a missed write if one was called Active before the other got points of a removed shard',
    sizes: ['three'],
    resharding: true,
    async play(stage) {
      await receiving(stage, { shards: 3, oneByOne: true })
      const victim = stage.nodes - 1
      await stage.whileDown(victim, async () => {
        stage.note('written', await overwrite(stage))
        await replicasOn(stage, victim, ['0 Dead', '1 Dead', '2 Dead'])
        stage.note('reshardings', (await placement(stage)).resharding_operations?.length ?? 0)
        stage.note('count', await count(stage))
      })
    },
  },
]
