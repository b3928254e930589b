/** Snapshots of a node, and what a backup reads about a collection. */
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { EngineSnapshots, snapshotTimeoutMs } from '../../../../jobs/clients/engine/snapshots.ts'
import { longCallTimeoutMs, MAX_TIMER_MS } from '../../../../jobs/clients/http/request.ts'
import { setMaking } from '../../../doubles/engine/snapshots.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ask } from '../../restore/collection-state.ts'
import { engineNodes, recordedEngine } from './engine-stage.ts'

const HOUR_MS = 3_600_000

t.test('a snapshot is created, listed, downloaded and deleted on one node', async (t) => {
  const { cluster, clients, first } = await engineNodes(t, 2)
  cluster.createCollection('a b', 2)
  const [one, other] = clients.map(({ engine }) => new EngineSnapshots(engine))
  t.strictSame(await one?.list('a b'), [])
  const snapshot = await new EngineSnapshots(first.engine).create('a b', 10_000)
  t.match(snapshot, { name: /\.snapshot$/, checksum: /^[0-9a-f]{64}$/ })
  t.strictSame(await other?.list('a b'), [], 'the other node has no file')
  matchWhole(t, await one?.list('a b'), [snapshot])
  const body = await new EngineSnapshots(first.engine).download('a b', snapshot)
  t.equal(Buffer.byteLength(await text(body)), snapshot.size)
  await one?.delete('a b', snapshot.name)
  t.strictSame(await one?.list('a b'), [])
})

t.test('a snapshot that fails is rejected with the reason of the engine', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs')
  setMaking(cluster, { failure: () => 'Service internal error: No space left on device' })
  await t.rejects(new EngineSnapshots(first.engine).create('docs', 10_000), {
    code: 'EngineError',
    status: 500,
    message: /answered 500: Service internal error: No space left on device$/,
  })
})

t.test('a snapshot that has begun is counted, and continues without its client', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs')
  const gate = Promise.withResolvers<undefined>()
  setMaking(cluster, { until: () => gate.promise })
  const snapshots = new EngineSnapshots(first.engine)
  const creations = async () => (await snapshots.identity('docs')).creations
  const before = await creations()
  t.match(before, { running: 0, total: 0 })
  await snapshots.begin('docs')
  t.strictSame(await creations(), { running: 1, total: 1, since: before?.since })
  t.strictSame(await snapshots.list('docs'), [])
  gate.resolve(undefined)
  while ((await creations())?.running !== 0) await sleep(1)
  t.equal((await snapshots.list('docs')).length, 1)
})

t.test('a collection that was recreated has another uuid under the same name', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs')
  const snapshots = new EngineSnapshots(first.engine)
  const { uuid } = await snapshots.identity('docs')
  t.type(uuid, 'string')
  t.strictSame(await snapshots.uuids(), new Map([['docs', uuid]]))
  cluster.removeCollection('docs')
  t.match(await snapshots.identity('docs'), { uuid: undefined, bytes: 0 })
  cluster.createCollection('docs')
  t.not((await snapshots.identity('docs')).uuid, uuid)
})

const DOCS = { id: 'docs', config: { uuid: 'u' } }
const OTHER = {
  id: 'other',
  shards: [{ local: { vectors_size_bytes: 9, payloads_size_bytes: 9 } }],
}
const sizes = (vectors: unknown, payloads: unknown) => ({
  local: { vectors_size_bytes: vectors, payloads_size_bytes: payloads },
})
const counts = (running: unknown, total: unknown) => [
  { id: 'other', running_snapshots: 9, total_snapshot_creations: 9 },
  { id: 'docs', running_snapshots: running, total_snapshot_creations: total },
]

const IDENTITIES: [string, { app?: object; collections: object }, object][] = [
  [
    'all of it',
    {
      collections: {
        collections: [OTHER, { ...DOCS, shards: [sizes(1, 2), { local: null }, {}, sizes(3, 4)] }],
        snapshots: counts(1, 2),
      },
    },
    { uuid: 'u', bytes: 10, creations: { running: 1, total: 2, since: 's' } },
  ],
  [
    'no sizes of one shard',
    { collections: { collections: [{ ...DOCS, shards: [sizes(1, 2), sizes(3, null)] }] } },
    { uuid: 'u', bytes: undefined, creations: undefined },
  ],
  [
    'no uuid and no shards',
    { collections: { collections: [{ id: 'docs', config: null, shards: null }], snapshots: [] } },
    { uuid: undefined, bytes: 0, creations: { running: 0, total: 0, since: 's' } },
  ],
  [
    'no collections',
    { collections: { collections: null, snapshots: null } },
    { uuid: undefined, bytes: 0, creations: undefined },
  ],
  [
    'only the number of running snapshots',
    { collections: { collections: [DOCS], snapshots: counts(1, null) } },
    { uuid: 'u', bytes: 0, creations: undefined },
  ],
  [
    'not when it started',
    { app: { startup: null }, collections: { collections: [DOCS], snapshots: counts(1, 2) } },
    { uuid: 'u', bytes: 0, creations: undefined },
  ],
]
for (const [what, { app = { startup: 's' }, collections }, identity] of IDENTITIES) {
  t.test(`the identity of a collection on a node that reports ${what}`, async (t) => {
    const { engine, calls } = recordedEngine({ app, collections })
    t.strictSame(await new EngineSnapshots(engine).identity('docs'), identity)
    t.equal(calls[0]?.path, '/telemetry?details_level=3', 'the first level with shards')
  })
}

t.test('the uuids of all collections, where the engine reports them', async (t) => {
  const collections = [DOCS, { id: 'old', config: {} }, { id: 'older', config: null }, OTHER]
  const { engine, calls } = recordedEngine({ app: {}, collections: { collections } })
  t.strictSame(await new EngineSnapshots(engine).uuids(), new Map([['docs', 'u']]))
  t.equal(calls[0]?.path, '/telemetry?details_level=2', 'the first level with collections')
  const empty = recordedEngine({ app: {}, collections: { collections: null } })
  t.strictSame(await new EngineSnapshots(empty.engine).uuids(undefined, 5_000), new Map())
  t.equal(empty.calls[0]?.timeoutMs, 5_000)
})

t.test('points are counted exactly, of one shard key or of all', async (t) => {
  const { cluster, first } = await engineNodes(t)
  const { url, engine } = first
  const snapshots = new EngineSnapshots(engine)
  await ask(url, 'PUT', '/collections/keyed', { sharding_method: 'custom', vectors: {} })
  for (const [shard_key, ids] of [
    ['a', [1, 2, 3]],
    [7, [4]],
  ] as const) {
    await ask(url, 'PUT', '/collections/keyed/shards', { shard_key })
    const points = ids.map((id) => ({ id, vector: {} }))
    await ask(url, 'PUT', '/collections/keyed/points?wait=true', { points, shard_key })
  }
  t.equal(await snapshots.exactCount('keyed'), 4)
  t.equal(await snapshots.exactCount('keyed', undefined, 'a'), 3)
  t.equal(await snapshots.exactCount('keyed', undefined, 7), 1)
  const strict = { enabled: true, search_allow_exact: false }
  await ask(url, 'PATCH', '/collections/keyed', { strict_mode_config: strict })
  t.equal(await snapshots.exactCount('keyed'), undefined, 'strict mode does not allow it')
  cluster.removeCollection('keyed')
  await t.rejects(snapshots.exactCount('keyed'), { code: 'EngineError', status: 404 })
})

t.test('the definition of a collection, its shards, and its aliases in order', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs', 2)
  for (const alias of ['b', 'c', 'a']) cluster.aliases.set(alias, 'docs')
  cluster.createCollection('other')
  cluster.aliases.set('0', 'other')
  const snapshots = new EngineSnapshots(first.engine)
  t.strictSame(await snapshots.aliases('docs'), ['a', 'b', 'c'])
  t.match(await snapshots.collection('docs'), {
    config: { params: { shard_number: 2 } },
    payload_schema: {},
  })
  const { local_shards } = await snapshots.collectionCluster('docs')
  t.strictSame(
    local_shards.map(({ shard_id }) => shard_id),
    [0, 1],
  )
})

t.test('the shard of this node is streamed for as long as bytes arrive', async (t) => {
  const { cluster, first, clients } = await engineNodes(t, 2)
  cluster.createCollection('docs', 2)
  t.match(await text(await new EngineSnapshots(first.engine).streamShard('docs', 0)), /^content/)
  const [, other] = clients
  if (other === undefined) throw new Error('there is one node')
  await t.rejects(new EngineSnapshots(other.engine).streamShard('docs', 0), {
    code: 'EngineError',
    status: 400,
  })
  const { engine, calls } = recordedEngine()
  await new EngineSnapshots(engine).streamShard('docs', 0)
  t.equal(calls[0]?.timeoutMs, MAX_TIMER_MS, 'its size is not known before')
})

t.test('a snapshot may take as long as its bytes need, or a day if they are unknown', async (t) => {
  t.equal(snapshotTimeoutMs(2 ** 40), longCallTimeoutMs(2 ** 40))
  t.equal(snapshotTimeoutMs(0), HOUR_MS)
  t.equal(snapshotTimeoutMs(undefined), 24 * HOUR_MS)
  const { engine, calls } = recordedEngine()
  await new EngineSnapshots(engine).download('docs', { name: 's', size: 2 ** 40, checksum: null })
  t.equal(calls[0]?.timeoutMs, longCallTimeoutMs(2 ** 40))
})
