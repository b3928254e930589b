/** Failures of nodes and of the store during a restore. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import {
  createKeyedCollection,
  run,
  runToDone,
  restoreFixture,
  isRecovery,
} from './restore-fixture.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

/** A response of the engine in its envelope. */
function answered(result: unknown) {
  return { status: 200, body: JSON.stringify({ result, status: 'ok' }), headers: JSON_TYPE }
}

t.test(
  'a recovery that still runs on a node is waited for, and is not started twice',
  async (t) => {
    const { world, deleteCollections, assertRestored, nodes } = await restoreFixture(t)
    deleteCollections('docs')
    let looks = 0
    let recoveries = 0
    nodes[1]?.misbehave((request) => {
      const { path } = request
      if (isRecovery(request)) recoveries += 1
      if (path[0] !== 'telemetry' || (looks += 1) < 2 || looks > 5) return undefined
      const snapshots = [{ id: 'docs', running_snapshot_recovery: 1 }]
      return answered({ app: {}, collections: { snapshots } })
    })
    const log = await runToDone(t, await world.restore())
    t.match(log, /waiting for the recovery on that node/)
    t.equal(recoveries, 1)
    await assertRestored('docs')
  },
)

t.test('a shard that is also on another node after its recovery is waited for', async (t) => {
  const { world, deleteCollections, assertRestored, engine, nodes } = await restoreFixture(t, {
    nodes: 2,
    replicationFactor: 1,
  })
  deleteCollections('docs')
  const [first, second] = [engine.peer(0).id, engine.peer(1).id]
  let isRecovered = false
  let polls = 0
  nodes[1]?.misbehave((request) => {
    isRecovered ||= isRecovery(request)
    return undefined
  })
  nodes[0]?.misbehave(({ method, path }) => {
    const shards = engine.collections.get('docs')?.shards ?? []
    if (!isRecovered || method !== 'GET' || path[2] !== 'cluster') return undefined
    polls += 1
    for (const shard of shards.filter(({ peers }) => peers.includes(second)))
      if (polls <= 90) shard.peers = polls < 90 ? [first, second] : [second]
    return undefined
  })
  const log = await runToDone(t, await world.restore())
  t.match(
    log,
    /waiting until the nodes agree .*reason=shard \d is on nodes 0, 1, not on node 1 alone/,
  )
  await assertRestored('docs')
})

t.test(
  'an upload to a node is compared with the manifest, and a broken one is repeated',
  async (t) => {
    const { world, deleteCollections, assertRestored, s3 } = await restoreFixture(t, {
      snapshotBytes: 300_000,
    })
    deleteCollections('docs')
    let cuts = 1
    s3.misbehave(({ query, operation, key }) => {
      if (query.has('X-Amz-Signature')) return { status: 403, code: 'AccessDenied' }
      const isRead = operation === 'GetObject' && key.includes('/node-1/')
      return isRead && cuts-- > 0 ? { cut: 'out' } : undefined
    })
    const log = await runToDone(t, await world.restore())
    t.match(log, /retrying recovery.*node-1\/.* broke off/)
    await assertRestored('docs')
  },
)

t.test('altered bytes are not uploaded to a node', async (t) => {
  const { world, deleteCollections, s3, store, manifest, engine } = await restoreFixture(t)
  deleteCollections('docs')
  const key = manifest().collections[0]?.snapshots[0]?.key ?? ''
  const bytes = Buffer.from(store().objects.get(key)?.body ?? '')
  bytes[4] = 88
  store().put(key, bytes)
  s3.misbehave(({ query }) =>
    query.has('X-Amz-Signature') ? { status: 403, code: 'AccessDenied' } : undefined,
  )
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), {
    error: `${key} is not the object that was backed up: its bytes differ`,
  })
  t.equal(engine.collections.get('docs')?.points.length, 0)
})

t.test('a replica that is not created is created in another round', async (t) => {
  const { world, deleteCollections, assertRestored, nodes } = await restoreFixture(t)
  deleteCollections('docs')
  let rejections = 1
  const words = 'Bad request: There is another transfer for shard 0'
  const body = JSON.stringify({ status: { error: words } })
  nodes[0]?.misbehave(({ method, path }) =>
    method === 'POST' && path[2] === 'cluster' && rejections-- > 0
      ? { status: 400, body, headers: JSON_TYPE }
      : undefined,
  )
  const log = await runToDone(t, await world.restore())
  t.match(log, /retrying replication/)
  await assertRestored('docs')
})

t.test('a note says that strict mode forbids an exact count', async (t) => {
  const { world, deleteCollections, nodes } = await restoreFixture(t)
  deleteCollections('docs')
  const body = JSON.stringify({ status: { error: 'Forbidden: Exact search is disabled' } })
  nodes[0]?.misbehave(({ path }) =>
    path.at(-1) === 'count' ? { status: 400, body, headers: JSON_TYPE } : undefined,
  )
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.done)
  matchWhole(t, await restore.result(), {
    notes: ['points of docs were not counted: refused: Forbidden: Exact search is disabled'],
  })
})

t.test('a restore waits for nodes during an upgrade, or without a leader', async (t) => {
  const { world, deleteCollections, assertRestored, nodes } = await restoreFixture(t)
  deleteCollections('docs')
  let old = 1
  let alone = 1
  nodes[2]?.misbehave(({ path }) => {
    if (path[0] === '' && old-- > 0) {
      const body = '{"title":"qdrant - vector search engine","version":"1.18.2"}'
      return { status: 200, body, headers: JSON_TYPE }
    }
    if (path[0] !== 'cluster' || alone-- <= 0) return undefined
    return answered({
      status: 'enabled',
      peer_id: 1,
      peers: { 1: { uri: 'http://vec-a-2:6335' } },
      raft_info: { commit: 1, pending_operations: 0, leader: null },
      consensus_thread_status: { consensus_thread_status: 'working' },
    })
  })
  const log = await runToDone(t, await world.restore())
  t.match(log, /the nodes run different versions: 1\.18\.3, 1\.18\.2/)
  t.match(log, /the nodes do not see one cluster: .*; node 2 sees node 2, with 0 collections/)
  await assertRestored('docs')
})

t.test(
  'a collection that is created by a call whose response is lost is not created twice',
  async (t) => {
    const { world, deleteCollections, assertRestored, nodes } = await restoreFixture(t)
    deleteCollections('docs')
    let calls = 0
    nodes[0]?.misbehave(({ method, path }) =>
      method === 'PUT' && path.length === 2 && (calls += 1) === 1 ? { cut: 'after' } : undefined,
    )
    await runToDone(t, await world.restore())
    t.equal(calls, 1)
    await assertRestored('docs')
  },
)

t.test(
  'a collection that another client creates just before the restore does is neither used nor deleted',
  async (t) => {
    const { world, deleteCollections, nodes, engine } = await restoreFixture(t)
    deleteCollections('docs')
    const body = { vectors: { size: 2, distance: 'Dot' } }
    let created = 0
    let deletions = 0
    nodes[0]?.misbehave(({ method, path }) => {
      if (path.join('/') !== 'collections/docs') return undefined
      if (method === 'DELETE') deletions += 1
      if (method !== 'PUT' || (created += 1) > 1) return undefined
      engine.addCollection('docs', body)
      return undefined
    })
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    const { collections } = (await restore.result()) as { collections: { error?: string }[] }
    t.match(collections[0]?.error, /^collection docs was created by another client/)
    t.equal(created, 1)
    t.equal(deletions, 0)
  },
)

t.test(
  'a target whose consensus stops during the restore fails, and the error names the node',
  async (t) => {
    const { world, deleteCollections, nodes, engine } = await restoreFixture(t)
    deleteCollections('docs')
    nodes[1]?.misbehave(({ path }) => {
      if (path.at(-1) === 'recover') engine.stopConsensus(2, 'Failed to handle committed entries')
      return undefined
    })
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(await restore.result(), {
      error: 'consensus is stopped_with_err on node 2: Failed to handle committed entries',
    })
  },
)

t.test(
  'a shard key whose creation was not confirmed is looked for, and not created twice',
  async (t) => {
    const fixture = await restoreFixture(t, { prepare: createKeyedCollection })
    fixture.deleteCollections('keyed')
    const created: unknown[] = []
    for (const node of fixture.nodes) {
      node.misbehave(({ method, path, body }) => {
        if (method !== 'PUT' || path.join('/') !== 'collections/keyed/shards') return undefined
        const { shard_key: key } = body as { shard_key: unknown }
        const isFirst = !created.includes(key)
        created.push(key)
        // Created, and the answer is lost.
        return isFirst ? { cut: 'after' } : undefined
      })
    }
    await runToDone(t, await fixture.world.restore())
    t.not(created.length, 0)
    t.equal(new Set(created).size, created.length)
    await fixture.assertRestored('keyed')
  },
)
