/** Restores of backups by shard against doubles: to any number of nodes, and with failures. */
import t, { type Test } from 'tap'
import { matchWhole } from '../../match-whole.ts'
import { ask, placement } from './collection-state.ts'
import {
  createKeyedCollection,
  shardRestoreFixture,
  type ShardRestoreFixture,
} from './shard-restore-fixture.ts'
import { runToDone } from './restore-fixture.ts'

async function succeeds(t: Test, { restore }: ShardRestoreFixture, spec = {}) {
  const made = await restore(spec)
  const log = await runToDone(t, made)
  return { made, log }
}

/** How many nodes hold a copy of each shard, by id. */
async function copiesOf(
  { urls }: ShardRestoreFixture,
  name: string,
): Promise<Record<string, number>> {
  const [first = []] = await placement(urls, name)
  const ids = first.map((copy) => copy.split(' ')[0] ?? '')
  return Object.fromEntries(
    [...new Set(ids)].map((id) => [id, ids.filter((one) => one === id).length]),
  )
}

for (const into of [1, 2, 5, 3]) {
  t.test(`a backup of three nodes is restored into ${into}, with its replicas`, async (t) => {
    const stood = await shardRestoreFixture(t, { into, prepare: createKeyedCollection })
    const { made, log } = await succeeds(t, stood)
    for (const name of ['docs', 'keyed']) await stood.compare(t, name)
    const two = Math.min(2, into)
    t.strictSame(await copiesOf(stood, 'docs'), { 0: two, 1: two, 2: two, 3: two })
    t.strictSame(await copiesOf(stood, 'keyed'), { 1: two, 2: 1 }, 'a key has its own number again')
    matchWhole(t, await made.result(), {
      completed: 2,
      collections: [{ points: 30 }, { points: 6 }],
    })
    const fewer = /docs has 1 copies of each shard, not 2: there are 1 nodes/
    if (into === 1) t.match(log, fewer)
    else t.notMatch(log, fewer)
  })
}

t.test('spec.replicationFactor asks for another number of copies', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 5 })
  await succeeds(t, stood, { replicationFactor: 3 })
  await stood.compare(t)
  t.strictSame(await copiesOf(stood, 'docs'), { 0: 3, 1: 3, 2: 3, 3: 3 })
})

t.test('several shards at once, and never two on one node', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 3, shards: 7, replicationFactor: 1 })
  const busy = new Map<number, number>()
  const most = { onNode: 0, atOnce: 0 }
  // The first one waits for another, however slow the machine is; alone, it goes on after a while.
  const { promise: together, resolve: joined } = Promise.withResolvers<unknown>()
  const limit = setTimeout(() => joined(undefined), 10_000)
  t.teardown(() => clearTimeout(limit))
  for (const [ordinal, node] of stood.nodes.entries()) {
    node.misbehave(({ path }) => {
      if (path[2] !== 'shards' || path.at(-1) !== 'upload') return undefined
      busy.set(ordinal, (busy.get(ordinal) ?? 0) + 1)
      most.onNode = Math.max(most.onNode, busy.get(ordinal) ?? 0)
      most.atOnce = Math.max(
        most.atOnce,
        [...busy.values()].reduce((sum, one) => sum + one, 0),
      )
      if (most.atOnce > 1) joined(undefined)
      void together.then(() => busy.set(ordinal, 0))
      return { until: together }
    })
  }
  await succeeds(t, stood)
  await stood.compare(t)
  t.equal(most.onNode, 1)
  t.ok(most.atOnce > 1, `${most.atOnce} at once`)
})

t.test('each shard is sent to one node only, evenly by bytes', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2, shards: 6, replicationFactor: 1 })
  const taken: string[] = []
  for (const [ordinal, node] of stood.nodes.entries()) {
    node.misbehave(({ path }) => {
      if (path.at(-1) === 'upload' && path[2] === 'shards') taken.push(`${path[3]} on ${ordinal}`)
      return undefined
    })
  }
  await succeeds(t, stood)
  const [first = []] = await placement(stood.urls, 'docs')
  t.strictSame(
    taken.toSorted(),
    first.map((copy) => copy.replace(' Active', '')),
  )
  for (const node of [0, 1]) {
    t.equal(taken.filter((one) => one.endsWith(`on ${node}`)).length, 3, `node ${node}`)
  }
})

t.test('over a collection in use, with other points and more copies', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 3 })
  stood.engine.createCollection('docs', 4, 3)
  const points = [{ id: 70, vector: {}, payload: { late: true } }]
  await ask(stood.urls[0] ?? '', 'PUT', '/collections/docs/points?wait=true', { points })
  const { log } = await succeeds(t, stood)
  await stood.compare(t)
  t.match(log, /collection docs exists and will be replaced/)
  t.strictSame(await copiesOf(stood, 'docs'), { 0: 2, 1: 2, 2: 2, 3: 2 })
})

t.test('nodes receive their shards, download nothing, and no file is left', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2, snapshotBytes: 200_000 })
  let cuts = 1
  let downloads = 0
  stood.s3.misbehave(({ query, operation, key }) => {
    if (query.has('X-Amz-Signature')) downloads += 1
    const isRead = operation === 'GetObject' && key.includes('/shard-1/')
    return isRead && cuts-- > 0 ? { cut: 'out' } : undefined
  })
  const { made, log } = await succeeds(t, stood)
  await stood.compare(t)
  t.equal(downloads, 0)
  t.match(log, /shard-1\/.* broke off/, 'a broken upload is repeated')
  t.notMatch(log, /X-Amz-Signature/)
  for (const url of stood.urls) {
    t.strictSame(await ask(url, 'GET', '/collections/docs/snapshots'), [])
  }
  const { bytes, bytesTotal } = await made.result()
  t.equal(bytes, bytesTotal, 'every byte is reported once')
})
