/** The writer repeats what it does not know: points whose replicas differ are written again. */
import t from 'tap'
import { Dice } from '../faults/machine/dice.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { UNAVAILABLE } from '../doubles/engine/misbehaviour.ts'
import { startEngineNode } from '../doubles/engine/node.ts'
import { ask, pathOf } from './ask.ts'
import { Ledger } from './ledger.ts'
import { versionOf, type StoredPoint } from './point.ts'
import { PLAIN, Traffic } from './traffic.ts'

const ELECTING = {
  ...UNAVAILABLE,
  status: 500,
  body: '{"status":{"error":"Service internal error: leader is not established within 10s"},"time":10}',
}

t.test(
  'rewrite repeats the last upsert and the last deletion until they are acknowledged',
  async (t) => {
    const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
    const node = await startEngineNode({ ordinal: 0, cluster })
    t.teardown(() => node.close())
    const url = `http://127.0.0.1:${node.port}`
    const ledger = new Ledger()
    const dice = new Dice(1)
    const traffic = new Traffic({ ledger, dice, urls: () => [url], replicas: 1, shards: 1 })
    await traffic.fill(20)
    const [upserted, deleted] = ledger.names(PLAIN)
    if (upserted === undefined || deleted === undefined) throw new Error('no points')
    ledger.begin(upserted, 999)
    ledger.begin(deleted, null)
    let calls = 0
    node.misbehave(() => (++calls === 1 ? UNAVAILABLE : undefined))

    await traffic.rewrite([upserted, deleted, { collection: PLAIN, id: 987_654 }])

    t.equal(calls, 3, 'one refused, one for each point that was ever written')
    const ids = [upserted.id, deleted.id]
    const body = { ids, with_payload: true, with_vector: true }
    const points = (await ask(url, 'POST', `${pathOf(PLAIN)}/points`, body)) as StoredPoint[]
    t.strictSame(
      points.map((point) => [point.id, versionOf(point)]),
      [[upserted.id, 999]],
    )
    const now = ledger.now()
    t.strictSame(ledger.last(upserted), 999)
    t.notOk(
      ledger.live(PLAIN).some(({ id }) => id === deleted.id),
      'its deletion is acknowledged',
    )
    t.ok(ledger.allowed(upserted, now, now).has(999))
  },
)

for (const [failures, acknowledged] of [
  [1, true],
  [2, false],
] as const) {
  t.test(`a write that fails ${failures} times and is repeated once`, async (t) => {
    const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
    const node = await startEngineNode({ ordinal: 0, cluster })
    t.teardown(() => node.close())
    const url = `http://127.0.0.1:${node.port}`
    const ledger = new Ledger()
    const traffic = new Traffic({
      ...{ ledger, dice: new Dice(1), urls: () => [url], replicas: 1, shards: 1 },
      repeatsWrites: true,
    })
    await traffic.only(PLAIN)
    let calls = 0
    node.misbehave(({ method }) =>
      method !== 'GET' && (calls += 1) <= failures ? UNAVAILABLE : undefined,
    )
    traffic.start()
    while (ledger.names(PLAIN).length === 0) await new Promise((go) => setTimeout(go, 5))
    await traffic.stop()
    const [first] = ledger.names(PLAIN)
    if (first === undefined) throw new Error('nothing was written')
    t.equal(ledger.isUncertain(first), !acknowledged)
    t.match(traffic.writes, { failed: acknowledged ? 1 : Number })
    t.equal(traffic.failedTwice.writes > 0, !acknowledged)
  })
}

t.test('a queued write is acknowledged once a later call has waited for its shards', async (t) => {
  const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const node = await startEngineNode({ ordinal: 0, cluster })
  t.teardown(() => node.close())
  const url = `http://127.0.0.1:${node.port}`
  const ledger = new Ledger()
  const dice = new Dice(1)
  const traffic = new Traffic({
    ...{ ledger, dice, urls: () => [url], replicas: 1, shards: 1 },
    queuedPart: 1,
  })
  await traffic.fill(20)
  const first = ledger.names(PLAIN).length
  // Longer than this test: only a call that waits gets them applied.
  cluster.applyMs = 600_000
  let isConfirmed = false
  node.misbehave(({ path, query }) =>
    path.at(-1) === 'delete' && query['wait'] === 'true' && !isConfirmed ? UNAVAILABLE : undefined,
  )
  traffic.start()
  while (traffic.queued.written < 7) await new Promise((go) => setTimeout(go, 5))
  t.strictSame(traffic.queued.confirmed, 0)
  const open = ledger.names(PLAIN).slice(first)
  t.ok(open.length > 0)
  t.ok(open.every((name) => ledger.isUncertain(name)))

  isConfirmed = true
  await traffic.stop()
  t.ok(traffic.queued.written >= 7)
  t.equal(traffic.queued.confirmed, traffic.queued.written)
  const live = ledger.live(PLAIN)
  const ids = live.map(({ id }) => id)
  const body = { ids, with_payload: true, with_vector: true }
  const points = (await ask(url, 'POST', `${pathOf(PLAIN)}/points`, body)) as StoredPoint[]
  t.strictSame(
    points.map((point) => versionOf(point)),
    live.map((name) => ledger.last(name)),
  )
  const all = { exact: true }
  const { count } = (await ask(url, 'POST', `${pathOf(PLAIN)}/points/count`, all)) as {
    count: number
  }
  t.equal(count, live.length, 'queued deletions are applied as well')
})

t.test('a collection is created once the nodes have elected a leader', async (t) => {
  const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const node = await startEngineNode({ ordinal: 0, cluster })
  t.teardown(() => node.close())
  const url = `http://127.0.0.1:${node.port}`
  const ledger = new Ledger()
  const options = { ledger, dice: new Dice(1), urls: () => [url], replicas: 1, shards: 1 }
  let changes = 0
  node.misbehave(({ method }) => (method === 'PUT' && ++changes === 1 ? ELECTING : undefined))
  await new Traffic(options).fill(20)
  t.ok(ledger.names(PLAIN).length > 0)

  cluster.collections.clear()
  node.misbehave(({ method }) => (method === 'PUT' ? UNAVAILABLE : undefined))
  await t.rejects(new Traffic(options).fill(20), /answered 503/, 'any other failure is one')
})

for (const cut of ['before', 'meanwhile'] as const) {
  t.test(`collections are created although connections end (${cut})`, async (t) => {
    const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
    const node = await startEngineNode({ ordinal: 0, cluster })
    t.teardown(() => node.close())
    const url = `http://127.0.0.1:${node.port}`
    const ledger = new Ledger()
    let calls = 0
    node.misbehave(({ method, path }) =>
      method === 'GET' || path.includes('points') || calls++ % 2 > 0 ? undefined : { cut },
    )
    const options = { ledger, dice: new Dice(1), urls: () => [url], replicas: 1, shards: 1 }
    await new Traffic(options).fill(20)
    t.ok(ledger.names(PLAIN).length > 0)
    t.ok(calls > 6, 'each change was repeated')
  })
}
