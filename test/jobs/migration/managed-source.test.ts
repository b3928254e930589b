/** `migration run` from a managed cluster: all of its nodes must list the same collections. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import type { EngineCluster } from '../../doubles/engine/cluster.ts'
import { UNAVAILABLE, type Misbehaviour } from '../../doubles/engine/misbehaviour.ts'
import { startEngine } from '../engine-and-bucket.ts'
import { instantClock } from '../job-world.ts'
import { createCollection, engineCalls, isScroll, manyPoints, SMALL } from './engine-pair.ts'
import { migrationWorld } from './migration-world.ts'

const NO_COLLECTIONS: Misbehaviour = {
  status: 200,
  body: '{"result":{"collections":[]},"status":"ok","time":0}',
  headers: { 'content-type': 'application/json' },
}
const DIFFERENCE = 'the nodes do not list the same collections: node 1 does not list docs'

/** A cluster of two nodes, in which `docs` is copied to `copy`. */
async function twoNodes(t: Test) {
  const { engine, nodes, urls, ports } = await startEngine(t, 2)
  const calls = engineCalls(urls[0] ?? '')
  await createCollection(calls, 'docs', manyPoints(20))
  const cluster = { namespace: 'ns', name: 'a', replicas: 2, tls: false }
  const world = await migrationWorld(t, {
    source: '',
    ports,
    spec: {
      source: { clusterRef: { name: 'a' } },
      collections: ['docs'],
      collectionMapping: { docs: 'copy' },
    },
    plan: { source: { cluster } },
  })
  return { engine, nodes, world }
}

function isList({ method, path }: EngineRequest): boolean {
  return method === 'GET' && path.join('/') === 'collections'
}

t.test('a node that does not list a collection of the others is waited for', async (t) => {
  const { engine, nodes, world } = await twoNodes(t)
  let lists = 0
  nodes[1]?.misbehave((request) =>
    isList(request) && (lists += 1) < 3 ? NO_COLLECTIONS : undefined,
  )
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.ok(log.includes(DIFFERENCE), log)
  t.equal(engine.find('copy')?.points.length, 20)
})

t.test('nodes that never list the same collections fail the migration, by name', async (t) => {
  const { engine, nodes, world } = await twoNodes(t)
  nodes[1]?.misbehave((request) => (isList(request) ? NO_COLLECTIONS : undefined))
  const waiting = new Set<string>()
  const time = instantClock(async () => {
    const { message = '' } = (await world.progress()) ?? {}
    if (message.startsWith('waiting')) waiting.add(message)
  })
  const { code, log } = await world.run({ time })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.equal((await world.result()).error, `source cluster ns/a: ${DIFFERENCE}`)
  t.strictSame([...waiting], [`waiting for the source cluster ns/a: ${DIFFERENCE}`])
  t.equal(engine.find('copy'), undefined)
})

t.test(
  'nodes that no longer list the same collections at the end fail the migration',
  async (t) => {
    const { nodes, world } = await twoNodes(t)
    let isCompared = false
    for (const [ordinal, node] of nodes.entries()) {
      node.misbehave((request) => {
        isCompared ||= isScroll(request) && request.path[1] === 'copy'
        return isCompared && ordinal === 1 && isList(request) ? NO_COLLECTIONS : undefined
      })
    }
    const { code, log } = await world.run({ time: instantClock() })
    t.equal(code, EXIT.failed, log.slice(-2000))
    t.equal(
      (await world.result()).error,
      `source cluster ns/a: ${DIFFERENCE.replace('docs', 'copy, docs')}`,
    )
  },
)

/** What node 0, which answers for the client Service, knows of a collection with the shard keys `a` and `b`. */
const ONLY_KEY_A: Misbehaviour = {
  status: 200,
  body: JSON.stringify({
    result: {
      ...{ peer_id: 1, shard_count: 1, remote_shards: [], shard_transfers: [] },
      local_shards: [{ shard_id: 1, shard_key: 'a', state: 'Active', points_count: 1 }],
    },
    ...{ status: 'ok', time: 0 },
  }),
  headers: { 'content-type': 'application/json' },
}
const KEY_DIFFERENCE = 'the nodes do not know the same shard keys of docs: node 0 does not know "b"'

async function twoKeys(t: Test) {
  const { engine, nodes, urls, ports } = await startEngine(t, 2)
  const { call } = engineCalls(urls[0] ?? '')
  await call('PUT', '/collections/docs', { ...SMALL, sharding_method: 'custom' })
  for (const shard_key of ['a', 'b']) {
    await call('PUT', '/collections/docs/shards', { shard_key })
    const points = manyPoints(1)
    await call('PUT', '/collections/docs/points?wait=true', { shard_key, points })
  }
  const world = await migrationWorld(t, {
    ...{ source: '', ports },
    spec: {
      source: { clusterRef: { name: 'a' } },
      collections: ['docs'],
      collectionMapping: { docs: 'copy' },
    },
    plan: { source: { cluster: { namespace: 'ns', name: 'a', replicas: 2, tls: false } } },
  })
  return { engine, nodes, world }
}

t.test(
  'points that only another node than the one behind the Service defers are waited for',
  async (t) => {
    const { engine, nodes, world } = await twoNodes(t)
    const isInfo = ({ method, path }: EngineRequest) =>
      method === 'GET' && path.join('/') === 'collections/docs'
    const docs = engine.find('docs')
    if (docs === undefined) throw new Error('no collection')
    docs.config.optimizer_config['prevent_unoptimized'] = true
    const { config } = docs
    const deferred = [7, 3, 0]
    const reported: number[] = []
    let pages = 0
    nodes[1]?.misbehave((request) => {
      if (!isInfo(request)) return undefined
      const count = deferred[reported.length] ?? 0
      reported.push(count)
      const result = {
        ...{ status: 'yellow', optimizer_status: 'ok', points_count: 20 - count },
        ...{ config, payload_schema: {}, update_queue: { length: 0, deferred_points: count } },
      }
      return { ...NO_COLLECTIONS, body: JSON.stringify({ result, status: 'ok', time: 0 }) }
    })
    nodes[0]?.misbehave((request) => {
      const isPage = request.path[1] === 'docs' && request.path[3] === 'scroll'
      if (isPage && (pages += 1) === 1) t.strictSame(reported.slice(0, 3), deferred)
      return undefined
    })
    const { code, log } = await world.run({ time: instantClock() })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(pages > 0, `${pages} pages`)
    t.match(log, /waiting until deferred points are indexed/)
  },
)

t.test('a node that does not answer defers nothing', async (t) => {
  const { engine, nodes, world } = await twoNodes(t)
  nodes[1]?.misbehave(({ method, path }) =>
    method === 'GET' && path.join('/') === 'collections/docs' ? UNAVAILABLE : undefined,
  )
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.equal(engine.find('copy')?.points.length, 20)
})

/** What a node answers about its replicas of `docs`: both nodes have shard 0, and call that of node 0 so. */
function replicasOf(engine: EngineCluster, node: number, stateOfNode0: string): Misbehaviour {
  const peers = engine.peers().map(({ id }) => id)
  const replicas = [stateOfNode0, 'Active'].map((state, owner) => ({
    ...{ shard_id: 0, peer_id: peers[owner], state, points_count: 20 },
  }))
  const result = {
    ...{ peer_id: peers[node], shard_count: 1, shard_transfers: [] },
    local_shards: replicas.slice(node, node + 1),
    remote_shards: replicas.filter((_, owner) => owner !== node),
  }
  const body = JSON.stringify({ result, status: 'ok', time: 0 })
  return { status: 200, body, headers: { 'content-type': 'application/json' } }
}

/** A page without the last point. */
const STALE_PAGE: Misbehaviour = {
  status: 200,
  body: JSON.stringify({
    result: { points: manyPoints(19).map((point) => ({ ...point })), next_page_offset: null },
    ...{ status: 'ok', time: 0 },
  }),
  headers: { 'content-type': 'application/json' },
}

/** Node 0, which answers for the client Service, is cut off from node 1 and serves its replica without the last point. */
function cutOffNode0({ engine, nodes }: Awaited<ReturnType<typeof twoNodes>>, readings: number) {
  let asked = 0
  const isCutOff = () => asked < readings
  for (const [ordinal, node] of nodes.entries()) {
    node.misbehave((request) => {
      if (isPlacement(request)) {
        const state = ordinal === 1 && isCutOff() ? 'Dead' : 'Active'
        asked += ordinal
        return replicasOf(engine, ordinal, state)
      }
      const isSourcePage = isScroll(request) && request.path[1] === 'docs'
      return ordinal === 0 && isSourcePage && isCutOff() ? STALE_PAGE : undefined
    })
  }
}

const REPLICA_DIFFERENCE =
  'the nodes do not agree on the replicas of docs: shard 0 on node 0 is Active according to node 0 and Dead according to node 1'

t.test('points that a node which is cut off does not have are copied', async (t) => {
  const scene = await twoNodes(t)
  cutOffNode0(scene, 3)
  const { code, log } = await scene.world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.ok(log.includes(REPLICA_DIFFERENCE), log)
  t.equal(scene.engine.find('copy')?.points.length, 20)
})

t.test('a node that stays cut off fails the collection, by name', async (t) => {
  const scene = await twoNodes(t)
  cutOffNode0(scene, Infinity)
  const { code, log } = await scene.world.run({ time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.equal((await scene.world.result()).error, `docs: source cluster ns/a: ${REPLICA_DIFFERENCE}`)
})

t.test('a replica that all nodes call Dead does not delay a migration', async (t) => {
  const { engine, nodes, world } = await twoNodes(t)
  for (const [ordinal, node] of nodes.entries()) {
    node.misbehave((request) =>
      isPlacement(request) ? replicasOf(engine, ordinal, 'Dead') : undefined,
    )
  }
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.notMatch(log, /do not agree/)
})

function isPlacement({ method, path }: EngineRequest): boolean {
  return method === 'GET' && path.join('/') === 'collections/docs/cluster'
}

t.test('a node that does not know a shard key of the others is waited for', async (t) => {
  const { engine, nodes, world } = await twoKeys(t)
  let readings = 0
  nodes[0]?.misbehave((request) =>
    isPlacement(request) && (readings += 1) < 3 ? ONLY_KEY_A : undefined,
  )
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.ok(log.includes(KEY_DIFFERENCE), log)
  t.equal(engine.find('copy')?.points.length, 2)
})

t.test('nodes that never know the same shard keys fail the collection, by name', async (t) => {
  const { nodes, world } = await twoKeys(t)
  nodes[0]?.misbehave((request) => (isPlacement(request) ? ONLY_KEY_A : undefined))
  const { code, log } = await world.run({ time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.equal((await world.result()).error, `docs: source cluster ns/a: ${KEY_DIFFERENCE}`)
})
