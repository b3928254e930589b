/**
 * A copy of a shard to a real node, where ENGINE_BIN names an engine, whose volume has no space for it. The volumes are
 * file systems in files, where this machine lets us mount them.
 */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { systemClock, type Clock } from '../../../../jobs/clock.ts'
import { smallVolume, type Volume } from '../../../contract/engine/volume.ts'
import { matchWhole } from '../../../match-whole.ts'
import { call, NODES, openRealCluster } from './real-cluster.ts'
import { startedSteps } from './shards-world.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const VOLUME_MIB = 400
const POINTS = 20_000
const DIMENSIONS = 128
const BATCH = 2_000
/** Less than the vectors of the shard, and enough for what the node itself writes. */
const FREE_BYTES = 6 * 1024 * 1024
/** The ten minutes of a Job pass in a minute. */
const SPEED = 10

const volumes = bin === '' ? [] : openVolumes()
if (bin === '') {
  t.pass('ENGINE_BIN names no engine: no node to copy to', { skip: true })
} else if (volumes === undefined) {
  t.pass('this machine does not let us mount a volume to fill', { skip: true })
} else {
  t.setTimeout(900_000)
  for (const volume of volumes) volume.close()
  suite()
}

/** One for each node; undefined where mounting is not possible. */
function openVolumes(): Volume[] | undefined {
  const opened = Array.from({ length: NODES }, () => smallVolume(VOLUME_MIB))
  const usable = opened.filter((volume) => volume !== undefined)
  if (usable.length === NODES) return usable
  for (const volume of usable) volume.close()
  return undefined
}

function hastened(time: Clock): Clock {
  const [date, start] = [Date.now(), systemClock.monotonicMs()]
  const passed = () => (systemClock.monotonicMs() - start) * SPEED
  return {
    now: () => new Date(date + passed()),
    monotonicMs: () => start + passed(),
    sleep: (ms, signal) => time.sleep(ms / SPEED, signal),
  }
}

interface Placement {
  peer_id: number
  local_shards: { shard_id: number; state: string }[]
  remote_shards: { shard_id: number; peer_id: number; state: string }[]
}

/** Three nodes, each with a volume of its own that can be filled. */
async function openCluster(t: Test) {
  const small = openVolumes() ?? []
  t.teardown(() => small.forEach((volume) => volume.close()))
  const folders = small.map(({ folder }) => folder)
  const { subject, world, time } = await openRealCluster(t, bin, { volumes: folders })
  return { small, subject, world, clock: hastened(time) }
}

function suite(): void {
  t.test('a full volume of the target fails the copy, and space lets it continue', async (t) => {
    const { small, subject, world, clock } = await openCluster(t)
    await createShard(subject)
    const views = await Promise.all([0, 1, 2].map((node) => placement(subject, node)))
    const target = views.findIndex(({ local_shards: local }) => local.length === 0)
    const sources = [0, 1, 2].filter((node) => node !== target)
    const peer = views[target]?.peer_id ?? 0
    const before = await Promise.all(sources.map((node) => idsOn(subject, node)))
    t.strictSame(before[0]?.length, POINTS)

    const parameters = { params: { replication_factor: NODES } }
    await call(subject, 0, 'PATCH', '/collections/docs?timeout=60', parameters)
    small[target]?.fill(FREE_BYTES)
    const first = await world.run({}, { time: clock })
    t.equal(first.code, EXIT.failed, first.log.slice(-3000))
    const progress = await world.progress()
    matchWhole(t, progress, {
      state: 'Failed',
      reason: 'TransferFailed',
      message: new RegExp(`^docs/0: replicating from node \\d to node ${target} failed `),
    })
    t.ok(startedSteps(first.log).length <= 3, 'it is not tried for ever')
    await isWhole(t, subject, sources, before)
    // The engine repeats the copy itself.
    const [copied] = (await placement(subject, target)).local_shards
    t.match(copied?.state, /^(Dead|Recovery|Partial)$/)

    small[target]?.empty()
    const defects = { [`docs/0/${peer}`]: 600 }
    const next = { run: 2, hash: 'hash-2', defects }
    const second = await world.run(next, { pod: 'pod-2', time: clock })
    t.equal(second.code, EXIT.done, second.log)
    matchWhole(t, await world.progress(), { state: 'Done', shards: { stepsLeft: 0 } })
    await isWhole(t, subject, [0, 1, 2], [...before, before[0] ?? []])
  })

  t.test('a missing replica is created on a node with space after a full one', async (t) => {
    const { small, subject, world, clock } = await openCluster(t)
    await createShard(subject, 1)
    const views = await Promise.all([0, 1, 2].map((node) => placement(subject, node)))
    const source = views.findIndex(({ local_shards: local }) => local.length > 0)
    // Without data, the lower ordinal is the first choice.
    const [full = 0, other = 0] = [0, 1, 2].filter((node) => node !== source)
    const peer = views[full]?.peer_id ?? 0
    const ids = await idsOn(subject, source)
    t.equal(ids.length, POINTS)

    const parameters = { params: { replication_factor: 2 } }
    await call(subject, 0, 'PATCH', '/collections/docs?timeout=60', parameters)
    small[full]?.fill(FREE_BYTES)
    const first = await world.run({}, { time: clock })
    t.equal(first.code, EXIT.failed, first.log.slice(-3000))
    matchWhole(t, await world.progress(), {
      state: 'Failed',
      reason: 'TransferFailed',
      message: new RegExp(`^docs/0: replicating from node ${source} to node ${full} failed `),
      shards: { failed: [{ collection: 'docs', shard: 0, createdOn: [peer] }] },
    })

    const next = { run: 2, hash: 'hash-2', defects: { [`docs/0/${peer}`]: 600 } }
    const second = await world.run(next, { pod: 'pod-2', time: clock })
    t.equal(second.code, EXIT.done, second.log.slice(-3000))
    t.strictSame((await placement(subject, full)).local_shards, [], 'the full node has no replica')
    await isWhole(t, subject, [source, other], [ids, ids])
  })
}

type Subject = Awaited<ReturnType<typeof openRealCluster>>['subject']

/** One shard, each replica of which has all points. */
async function createShard(subject: Subject, replicas = 2): Promise<void> {
  const body = {
    ...{ vectors: { size: DIMENSIONS, distance: 'Dot' }, shard_number: 1 },
    replication_factor: replicas,
    wal_config: { wal_capacity_mb: 1 },
  }
  await call(subject, 0, 'PUT', '/collections/docs?timeout=60', body)
  for (let from = 0; from < POINTS; from += BATCH) {
    const points = Array.from({ length: BATCH }, (_, index) => {
      const vector = Array.from({ length: DIMENSIONS }, (_, n) =>
        Math.sin((from + index) * (n + 1)),
      )
      return { id: from + index, vector }
    })
    await call(subject, 0, 'PUT', '/collections/docs/points?wait=true', { points })
  }
}

function placement(subject: Subject, node: number): Promise<Placement> {
  return call<Placement>(subject, node, 'GET', '/collections/docs/cluster')
}

async function idsOn(subject: Subject, node: number): Promise<number[]> {
  const path = '/collections/docs/shards/0/points/scroll'
  const page = { limit: POINTS + 1, with_payload: false, with_vector: false }
  const { points } = await call<{ points: { id: number }[] }>(subject, node, 'POST', path, page)
  return points.map(({ id }) => id)
}

/** These nodes have an Active replica with all points. */
async function isWhole(t: Test, subject: Subject, nodes: number[], ids: number[][]) {
  for (const [index, node] of nodes.entries()) {
    const { local_shards: own } = await placement(subject, node)
    matchWhole(t, own, [{ shard_id: 0, state: 'Active' }], `node ${node}`)
    t.strictSame(await idsOn(subject, node), ids[index], `points on node ${node}`)
  }
}
