/**
 * That what is read is one node's own copy, and that a defect planted there is found: on engine doubles
 * always, and on real engines where ENGINE_BIN names one.
 */
import t, { type Test } from 'tap'
import { realSubject } from '../contract/engine/real.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { startEngineNode } from '../doubles/engine/node.ts'
import { ask, pathOf } from './ask.ts'
import { Ledger } from './ledger.ts'
import { compare } from './oracle.ts'
import { pointOf, VECTORS, type StoredPoint } from './point.ts'
import { readReplicas, settle } from './replicas.ts'

const bin = process.env['ENGINE_BIN']
const STABLE_MS = 30_000
const IDS = Array.from({ length: 50 }, (_, index) => index + 1)

t.test('a node double that has lost points differs from the other, which has them', async (t) => {
  const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const nodes = await Promise.all([0, 1].map((ordinal) => startEngineNode({ ordinal, cluster })))
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))
  const urls = nodes.map(({ port }) => `http://127.0.0.1:${port}`)
  const { judged } = await written(urls, 'docs')
  t.strictSame(await judged(), [])
  const [shard] = cluster.find('docs')?.shards ?? []
  if (shard === undefined) throw new Error('there is no shard')
  shard.lost = { 1: 2 }
  t.strictSame(await judged(), [
    'lost 49 on node 1',
    'lost 50 on node 1',
    'replicas differ 49',
    'replicas differ 50',
  ])
})

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to plant on a real replica', { skip: true })
} else {
  t.test('on real engines', { timeout: 300_000 }, async (t) => planted(t, bin))
}

/** One shard with a copy on each of two nodes. */
async function written(urls: readonly string[], collection: string) {
  const [url = ''] = urls
  const ledger = new Ledger()
  const body = { ...VECTORS, shard_number: 1, replication_factor: 2 }
  await ask(url, 'PUT', `${pathOf(collection)}?timeout=60`, body)
  const points = IDS.map((id) => pointOf(id, 1))
  await ask(url, 'PUT', `${pathOf(collection)}/points?wait=true`, { points })
  for (const id of IDS) ledger.begin({ collection, id }, 1).acknowledge()
  const judged = async () => {
    const now = ledger.now()
    const replicas = await readReplicas(urls, collection)
    return compare({ ledger, collection, from: now, to: now }, replicas)
      .map(({ kind, id, node }) =>
        kind === 'replicas differ' ? `${kind} ${id}` : `${kind} ${id} on node ${node ?? ''}`,
      )
      .toSorted()
  }
  return { ledger, judged }
}

async function planted(t: Test, engine: string) {
  const subject = await realSubject(engine, { size: 'three', service: {} }, { nodes: 2 })
  t.teardown(() => subject.close())
  const { urls } = subject

  await t.test(
    'a read of a shard that a node does not have is refused, not passed on',
    async (t) => {
      await ask(urls[0] ?? '', 'PUT', `${pathOf('one')}?timeout=60`, {
        ...VECTORS,
        shard_number: 1,
      })
      const answers = await Promise.allSettled(
        urls.map((url) =>
          ask(url, 'POST', `${pathOf('one')}/shards/0/points/scroll`, { limit: 1 }),
        ),
      )
      t.strictSame(answers.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
      const refused = answers.find(({ status }) => status === 'rejected')
      t.match(refused, { reason: { message: /Local shard 0 not found/ } })
    },
  )

  const plant = (collection: string, points: StoredPoint[]) => replace(urls, collection, points)
  const cases: [string, (points: Map<number, StoredPoint>) => void, string[]][] = [
    ['nothing', () => undefined, []],
    ['a lost point', (points) => points.delete(7), ['lost 7 on node 1', 'replicas differ 7']],
    [
      'a phantom',
      (points) => points.set(99, pointOf(99, 1)),
      ['phantom 99 on node 1', 'replicas differ 99'],
    ],
    [
      'a stale point',
      (points) => points.set(8, pointOf(8, 0)),
      ['replicas differ 8', 'wrong version 8 on node 1'],
    ],
    [
      'a vector that was changed',
      (points) => points.set(9, { ...pointOf(9, 1), vector: pointOf(10, 1).vector }),
      ['changed 9 on node 1', 'replicas differ 9'],
    ],
  ]
  for (const [index, [what, change, found]] of cases.entries()) {
    await t.test(`${what} on the replica of node 1 alone`, async (t) => {
      const collection = `docs-${index}`
      const { judged } = await written(urls, collection)
      t.equal(await settle(() => urls, collection, STABLE_MS), undefined)
      t.strictSame(await judged(), [])
      const points = new Map(IDS.map((id) => [id, pointOf(id, 1)]))
      change(points)
      await plant(collection, [...points.values()])
      t.strictSame(await judged(), found)
    })
  }
}

/** Gives node 1 a replica with these points, while the one of node 0 stays as it is. */
async function replace(urls: readonly string[], collection: string, points: StoredPoint[]) {
  const [, url = ''] = urls
  const forge = `${collection}-forge`
  // Both nodes have a copy, so node 1 can give one away.
  const body = { ...VECTORS, shard_number: 1, replication_factor: 2 }
  await ask(url, 'PUT', `${pathOf(forge)}?timeout=60`, body)
  await ask(url, 'PUT', `${pathOf(forge)}/points?wait=true`, { points })
  const shard = await fetch(`${url}${pathOf(forge)}/shards/0/snapshot`)
  const form = new FormData()
  form.append('snapshot', await shard.blob(), 'shard.snapshot')
  const upload = `${url}${pathOf(collection)}/shards/0/snapshots/upload?priority=no_sync&wait=true`
  const answer = await fetch(upload, { method: 'POST', body: form })
  if (!answer.ok) throw new Error(`the replica was not planted: ${await answer.text()}`)
  const why = await settle(() => urls, collection, STABLE_MS)
  if (why !== undefined) throw new Error(`the planted replica does not settle: ${why}`)
}
