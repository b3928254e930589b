/**
 * A node that is drained, a node that is filled, and a shard that is added and removed by `cluster shards`, next to the
 * engine's own transfers of the same bytes, or to the least that must be copied.
 */
import { randomInt } from 'node:crypto'
import { parseProgress } from '../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { estimateBytes } from '../../jobs/clients/engine/statistics.ts'
import { ShardJobs, type Work } from '../nodes/job.ts'
import { NodesWorld } from '../nodes/world.ts'
import { call, fill } from './engine-calls.ts'
import type { Part } from './part.ts'
import { build } from './processes.ts'
import type { Figure } from './table.ts'

const COLLECTION = 'docs'
const PATH = `/collections/${COLLECTION}`
const SHARDS = 6
/** A MiB each, twice. */
const POINTS = 240
const NODES = 3
/** Of six shards with two replicas, the fourth node holds three. */
const MOVED = [0, 1, 2]
/** Shards are moved as a whole. The Job plans each copy from a new view of all nodes, and then removes peer, pod and volume. */
const MOST = { bytes: 1.3, time: 4 }
/** With another number of shards, some replicas are moved for balance. */
const MOST_RESHARDED = 2.5
const LIMIT_MS = 600_000
const POLL_MS = 50

export const drain: Part = {
  name: 'drain',
  title: `Shards moved, added and removed, ${SHARDS} shards with 2 replicas`,
  columns: ['by a Job', 'least, engine'],
  usage: `
drain: ENGINE_BIN names the engine; without it nothing is measured.`,
  needs: [{ variable: 'ENGINE_BIN', rows: 'every row' }],
  targets: () => [
    ...['drain: bytes copied', 'drain: until the pod is gone', 'new node: bytes copied'],
    ...['one shard more: bytes copied', 'one shard less: bytes copied'],
  ],
  measure: async () => {
    const { ENGINE_BIN: bin } = process.env
    if (bin === undefined) return []
    await build()
    const octet = randomInt(20, 220)
    const world = await NodesWorld.start({ bin, octet, nodes: NODES, hasGuard: false })
    try {
      return await figures(world)
    } finally {
      await world.close()
    }
  },
}

async function figures(world: NodesWorld): Promise<Figure[]> {
  await hasNodes(world, NODES)
  const url = urlOf(world, 0)
  await fill(url, COLLECTION, { points: POINTS, shard_number: SHARDS, replication_factor: 2 })
  await world.setSpec(NODES + 1)
  await world.scale(NODES + 1)
  await hasNodes(world, NODES + 1)
  const sizes = await shardSizes(world)
  const bytes = MOVED.reduce((sum, shard) => sum + (sizes.get(shard) ?? 0), 0)
  let engineMs = 0
  for (const shard of MOVED) engineMs += await moveByEngine(world, shard)

  await world.setSpec(NODES)
  // One after the other: a Job with the number of another one would continue its report.
  const jobs = new ShardJobs(world)
  const drained = await worked(world, jobs, { nodes: NODES, balance: false })
  await world.setSpec(NODES + 1)
  await world.scale(NODES + 1)
  await hasNodes(world, NODES + 1)
  const filled = await worked(world, jobs, { nodes: NODES + 1, balance: true })
  const all = [...sizes.values()].reduce((sum, size) => sum + size, 0)
  const toShards = (shards: number) =>
    worked(world, jobs, {
      ...{ nodes: NODES + 1, balance: true },
      resharding: { numbers: [{ collection: COLLECTION, shards }], mayStart: true },
    })
  const more = await toShards(SHARDS + 1)
  const less = await toShards(SHARDS)
  // Either way two replicas of a seventh of the points.
  const least = (2 * all) / (SHARDS + 1)
  return [
    beside('drain: bytes copied', 'MiB', MOST.bytes, [drained.bytes, bytes].map(inMiB)),
    beside('drain: until the pod is gone', 's', MOST.time, [drained.ms, engineMs].map(inSeconds)),
    beside(
      'new node: bytes copied',
      'MiB',
      MOST.bytes,
      [filled.bytes, (2 * all) / (NODES + 1)].map(inMiB),
    ),
    beside('one shard more: bytes copied', 'MiB', MOST_RESHARDED, [more.bytes, least].map(inMiB)),
    beside('one shard less: bytes copied', 'MiB', MOST_RESHARDED, [less.bytes, least].map(inMiB)),
  ]
}

function beside(
  what: string,
  unit: string,
  most: number,
  [value = 0, yardstick = 0]: number[],
): Figure {
  const target = Number((most * yardstick).toFixed(1))
  return { what, unit, value, yardstick, target, met: value <= most * yardstick }
}

/** How long the engine takes to copy a shard to the new node. The source is dropped afterwards. */
async function moveByEngine(world: NodesWorld, shard: number): Promise<number> {
  const [url, target] = [urlOf(world, 0), urlOf(world, NODES)]
  const from = (await holders(world, shard))[0]
  const to = await peerOf(target)
  const started = Date.now()
  const replicate_shard = { shard_id: shard, from_peer_id: from, to_peer_id: to }
  await call(url, 'POST', `${PATH}/cluster?timeout=60`, { replicate_shard })
  await until(async () => {
    const { local_shards: local } = await placement(target)
    return local.some(({ shard_id: id, state }) => id === shard && state === 'Active')
  })
  const took = Date.now() - started
  const drop_replica = { shard_id: shard, peer_id: from }
  await call(url, 'POST', `${PATH}/cluster?timeout=60`, { drop_replica })
  return took
}

async function worked(
  world: NodesWorld,
  jobs: ShardJobs,
  work: Pick<Work, 'nodes' | 'balance' | 'resharding'>,
): Promise<{ ms: number; bytes: number }> {
  const started = Date.now()
  const ended = await jobs.until({ ...work, lost: [], zones: {} }, LIMIT_MS)
  if (ended.state !== 'Done') throw new Error(`the Job ended: ${ended.reason} ${ended.message}`)
  const ms = Date.now() - started
  const { metadata } = world.cluster
  const text = metadata.annotations?.[ANNOTATIONS.progress]
  return { ms, bytes: parseProgress(text, metadata.uid ?? '')?.shards?.bytesMoved ?? 0 }
}

interface Placement {
  peer_id: number
  local_shards: { shard_id: number; state: string }[]
}

async function placement(url: string): Promise<Placement> {
  return (await call(url, 'GET', `${PATH}/cluster`)) as Placement
}

/** Peers of the first nodes that hold the shard. */
async function holders(world: NodesWorld, shard: number): Promise<number[]> {
  const all = await Promise.all(world.urls().slice(0, NODES).map(placement))
  return all.flatMap(({ peer_id: peer, local_shards: local }) =>
    local.some(({ shard_id: id }) => id === shard) ? [peer] : [],
  )
}

/** As the Job estimates it. */
async function shardSizes(world: NodesWorld): Promise<Map<number, number>> {
  const sizes = new Map<number, number>()
  for (const url of world.urls()) {
    const { collections } = (await call(url, 'GET', '/telemetry?details_level=3')) as Telemetry
    const found = collections.collections.find(({ id }) => id === COLLECTION)
    for (const { id, local } of found?.shards ?? []) {
      const size = local == null ? undefined : estimateBytes(local)
      sizes.set(id, Math.max(sizes.get(id) ?? 0, size ?? 0))
    }
  }
  return sizes
}

interface Telemetry {
  collections: {
    collections: {
      id: string
      shards?: { id: number; local?: Parameters<typeof estimateBytes>[0] | null }[]
    }[]
  }
}

async function peerOf(url: string): Promise<number> {
  return ((await call(url, 'GET', '/cluster')) as { peer_id: number }).peer_id
}

function urlOf(world: NodesWorld, ordinal: number): string {
  return world.urls()[ordinal] ?? ''
}

/** Every node is ready and lists all others. */
async function hasNodes(world: NodesWorld, count: number): Promise<void> {
  await until(async () => {
    if (world.service().length !== count) return false
    const views = await Promise.all(world.urls().map((url) => call(url, 'GET', '/cluster')))
    return views.every((view) => Object.keys((view as { peers: object }).peers).length === count)
  })
}

async function until(met: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + LIMIT_MS
  while (!(await met().catch(() => false))) {
    if (Date.now() > end) throw new Error(`not met within ${LIMIT_MS / 1000} s`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

function inMiB(bytes: number): number {
  return bytes / 2 ** 20
}

function inSeconds(ms: number): number {
  return ms / 1000
}
