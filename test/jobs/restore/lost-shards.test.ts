/** Restores of single shards (`spec.shards`) into a cluster that has lost a node, against doubles. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { ShardManifest } from '../../../crds/contract/manifest.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import { matchWhole } from '../../match-whole.ts'
import { startBucket, startEngine } from '../engine-and-bucket.ts'
import { instantClock } from '../job-world.ts'
import { ask, placement, readCollectionState } from './collection-state.ts'
import { MANIFEST, run, runToDone } from './restore-fixture.ts'
import { restoreWorld } from './restore-world.ts'

const POINTS = 40
/** The node that is lost. */
const LOST = 2

/** `docs` has one replica of each of its shards, is backed up, and node 2 is lost. */
async function lostNode(
  t: Test,
  { method = 'Shard', isSilent = false }: { method?: 'Shard' | 'Node'; isSilent?: boolean } = {},
) {
  const bucket = await startBucket<ShardManifest>(t, () => MANIFEST)
  const target = await startEngine(t, 3)
  const { engine, nodes, urls } = target
  const [first = ''] = urls
  engine.createCollection('docs', 6, 1)
  const points = Array.from({ length: POINTS }, (_, id) => ({ id, vector: {}, payload: { id } }))
  await ask(first, 'PUT', '/collections/docs/points?wait=true', { points })
  const world = await restoreWorld(t, { ports: target.ports, endpoint: bucket.s3.url, method })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, code === EXIT.done ? 'backed up' : log)
  const before = await readCollectionState([first], 'docs')
  const [view = []] = await placement(urls, 'docs')
  const ids = view.flatMap((replica) => {
    const [, id = '', node = ''] = /^(\d+) on (\d)/.exec(replica) ?? []
    return Number(node) === LOST ? [Number(id)] : []
  })
  if (!isSilent) await nodes[LOST]?.close()
  engine.unreachable.add(LOST)
  const remaining = urls.slice(0, LOST)
  const uploads: string[] = []
  for (const [ordinal, node] of nodes.slice(0, LOST).entries()) {
    node.misbehave(({ path }) => {
      if (path.at(-1) === 'upload') uploads.push(`${path[3]} on ${ordinal}`)
      return undefined
    })
  }
  return { ...target, ...bucket, world, before, ids, remaining, uploads }
}

type LostNode = Awaited<ReturnType<typeof lostNode>>

/** The error of the collection, or of the whole restore. */
async function errorOf({ world }: LostNode, spec: Partial<RestoreSpec>) {
  const restore = await world.restore(spec)
  const { code } = await run(restore)
  const { collections = [], error } = await restore.result()
  return { code, error: collections[0]?.error ?? error }
}

/** Replicas on the nodes that answer. */
async function replicas({ remaining }: LostNode) {
  const views = await placement(remaining, 'docs')
  return views.map((view) => view.filter((replica) => !replica.includes(' on -1 ')))
}

t.test('the named shards are restored on nodes without one, nothing else changes', async (t) => {
  const stage = await lostNode(t)
  const { world, ids, remaining, before, uploads } = stage
  t.equal(ids.length, 2)
  const others = await replicas(stage)
  const restore = await world.restore({ shards: [{ collection: 'docs', ids }] })
  const log = await runToDone(t, restore)
  for (const url of remaining) t.strictSame(await readCollectionState([url], 'docs'), before, url)
  t.equal(uploads.length, 2)
  t.strictSame(
    new Set(uploads.map((upload) => upload.split(' on ')[1])),
    new Set(['0', '1']),
    'each node takes one',
  )
  const [view = [], other] = await replicas(stage)
  t.strictSame(view, other)
  t.strictSame(
    view.filter((replica) => !ids.includes(Number(replica.split(' ')[0]))),
    others[0],
  )
  t.match(log, /shards of docs restored/)
  const { completed, total, collections } = await restore.result()
  t.strictSame([completed, total], [1, 1])
  t.equal(collections?.[0]?.status, 'Completed')
})

t.test('a shard with an Active replica is not restored', async (t) => {
  const stage = await lostNode(t)
  const held = [0, 1, 2, 3, 4, 5].find((id) => !stage.ids.includes(id)) ?? 0
  const { code, error } = await errorOf(stage, { shards: [{ collection: 'docs', ids: [held] }] })
  t.equal(code, EXIT.failed)
  t.match(
    error,
    new RegExp(
      `^shard ${held} of docs has an Active replica on node \\d: there is nothing to rest`,
    ),
  )
  t.strictSame(stage.uploads, [])
})

t.test('after a restore the same one finds nothing to do, and overwrites nothing', async (t) => {
  const stage = await lostNode(t)
  const { world, ids, remaining } = stage
  const shards = [{ collection: 'docs', ids }]
  await runToDone(t, await world.restore({ shards }))
  const [first = ''] = remaining
  const points = [{ id: 500, vector: {}, payload: { late: true } }]
  await ask(first, 'PUT', '/collections/docs/points?wait=true', { points })
  const after = await readCollectionState([first], 'docs')
  stage.uploads.length = 0
  const { code, error } = await errorOf(stage, { shards })
  t.equal(code, EXIT.failed)
  t.match(error, /there is nothing to restore/)
  t.strictSame(stage.uploads, [])
  t.strictSame(await readCollectionState([first], 'docs'), after)
})

t.test(
  'requests that do not fit the backup or the target are rejected before anything changes',
  async (t) => {
    const stage = await lostNode(t)
    const cases: [string, NonNullable<RestoreSpec['shards']>, RegExp][] = [
      [
        'an unknown collection',
        [{ collection: 'nope', ids: [0] }],
        /^Collections not present in backup: nope/,
      ],
      [
        'an unknown shard',
        [{ collection: 'docs', ids: [0, 17] }],
        /^shards of collection docs not present in backup: 17/,
      ],
    ]
    for (const [title, shards, message] of cases) {
      const { code, error } = await errorOf(stage, { shards })
      t.equal(code, EXIT.failed, title)
      t.match(error, message, title)
    }
    const { engine, ids } = stage
    const shards = [{ collection: 'docs', ids }]
    const docs = engine.collections.get('docs')
    engine.removeCollection('docs')
    t.match(
      (await errorOf(stage, { shards })).error,
      /^collection docs does not exist: restore it as a whole/,
    )
    engine.createCollection('docs', 5, 1)
    t.match(
      (await errorOf(stage, { shards })).error,
      /with other shards or shard keys than in the backup/,
    )
    engine.removeCollection('docs')
    if (docs !== undefined) {
      docs.config.params['vectors'] = { size: 3, distance: 'Cosine' }
      engine.collections.set('docs', docs)
    }
    t.match(
      (await errorOf(stage, { shards })).error,
      /^collection docs is at the target with other vectors/,
    )
    t.strictSame(stage.uploads, [])
  },
)

t.test('shards that the engine does not count in time are restored all the same', async (t) => {
  const stage = await lostNode(t)
  const { world, ids, remaining, before, nodes } = stage
  t.equal(ids.length, 2)
  const body = '{"status":{"error":"Timeout error: Operation count timed out"},"time":30}'
  let counts = 0
  for (const node of nodes.slice(0, LOST)) {
    node.misbehave(({ path, body: request }) => {
      if (path.at(-1) !== 'count' || (request as { exact?: boolean }).exact !== true)
        return undefined
      counts += 1
      return { status: 408, body }
    })
  }
  const restore = await world.restore({ shards: [{ collection: 'docs', ids }] })
  await runToDone(t, restore)
  const { collections, notes = [] } = await restore.result()
  matchWhole(t, collections, [{ name: 'docs', status: 'Completed' }])
  t.match(notes[0], /^shard \d of docs was not counted exactly: no answer in 30 s$/)
  t.equal(notes.length, 2)
  t.equal(counts, 2, 'a count that takes long is not repeated')
  for (const node of nodes.slice(0, LOST)) node.misbehave(() => undefined)
  for (const url of remaining) t.strictSame(await readCollectionState([url], 'docs'), before, url)
})

t.test('shards are restored although other shard keys were created or deleted', async (t) => {
  const bucket = await startBucket<ShardManifest>(t, () => MANIFEST)
  const { engine, nodes, urls, ports } = await startEngine(t, 3)
  const [first = ''] = urls
  const vectors = { size: 2, distance: 'Dot' }
  const body = { vectors, sharding_method: 'custom', replication_factor: 1 }
  await ask(first, 'PUT', '/collections/tenants', body)
  const keys = ['a', 'b', 'c', 'd', 'e', 'f']
  const addKey = async (shard_key: string) => {
    await ask(first, 'PUT', '/collections/tenants/shards', { shard_key })
    const points = [{ id: 1, vector: [1, 2], payload: { shard_key } }]
    await ask(first, 'PUT', '/collections/tenants/points?wait=true', { points, shard_key })
  }
  for (const key of keys) await addKey(key)
  const world = await restoreWorld(t, { ports, endpoint: bucket.s3.url, method: 'Shard' })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, code === EXIT.done ? 'backed up' : log)
  await addKey('new')
  const lost = engine.peer(LOST).id
  const { shards = [] } = engine.collections.get('tenants') ?? {}
  const ofKey = (key: string) => shards.find((shard) => shard.key === key)
  const [lostKey = ''] = keys.filter((key) => ofKey(key)?.peers.includes(lost) === true)
  const [otherKey = ''] = keys.filter((key) => ofKey(key)?.peers.includes(lost) === false)
  await ask(first, 'POST', '/collections/tenants/shards/delete', { shard_key: otherKey })
  await nodes[LOST]?.close()
  const ids = [ofKey(lostKey)?.id ?? 0]
  await runToDone(t, await world.restore({ shards: [{ collection: 'tenants', ids }] }))
  const found = (await ask(first, 'POST', '/collections/tenants/points/scroll', {
    shard_key: lostKey,
  })) as { points: object[] }
  matchWhole(t, found.points, [{ id: 1, payload: { shard_key: lostKey } }])
})

t.test('a backup by node has no single shards', async (t) => {
  const stage = await lostNode(t, { method: 'Node' })
  const { error } = await errorOf(stage, { shards: [{ collection: 'docs', ids: stage.ids }] })
  t.equal(error, 'spec.shards needs a backup with spec.method Shard')
})

t.test('an upload that breaks off is repeated on the same node', async (t) => {
  const stage = await lostNode(t)
  const { world, s3, ids, remaining, before } = stage
  let cuts = 1
  s3.misbehave(({ operation, key }) =>
    operation === 'GetObject' && key.includes('/shard-') && cuts-- > 0 ? { cut: 'out' } : undefined,
  )
  const log = await runToDone(t, await world.restore({ shards: [{ collection: 'docs', ids }] }))
  t.match(log, /broke off/)
  for (const url of remaining) t.strictSame(await readCollectionState([url], 'docs'), before, url)
})

t.test('a pod that replaces a killed one continues after the shards that are done', async (t) => {
  const stage = await lostNode(t)
  const { world, ids, remaining, before, nodes } = stage
  const restore = await world.restore({ shards: [{ collection: 'docs', ids }] })
  const stop = new AbortController()
  let count = 0
  for (const node of nodes.slice(0, LOST)) {
    node.misbehave(({ path }) => {
      if (path.at(-1) !== 'upload' || (count += 1) < 2) return undefined
      stop.abort(new Error('killed'))
      return { cut: 'before' }
    })
  }
  t.not((await restore.run({ signal: stop.signal, pod: 'one' })).code, EXIT.done)
  const second = new Set<string>()
  for (const node of nodes.slice(0, LOST)) {
    node.misbehave(({ path }) => {
      if (path.at(-1) === 'upload') second.add(String(path[3]))
      return undefined
    })
  }
  t.equal((await restore.run({ pod: 'two' })).code, EXIT.done)
  t.equal(second.size, 1, 'the first shard is not restored again')
  for (const url of remaining) t.strictSame(await readCollectionState([url], 'docs'), before, url)
})

t.test('a node that returns within five minutes keeps its newer points', async (t) => {
  const stage = await lostNode(t, { isSilent: true })
  const { world, ids, nodes, uploads } = stage
  const restore = await world.restore({ shards: [{ collection: 'docs', ids }] })
  let asked = 0
  nodes[LOST]?.misbehave(() => ((asked += 1) < 40 ? { cut: 'before' } : undefined))
  t.equal((await run(restore)).code, EXIT.failed)
  const { collections = [] } = await restore.result()
  t.match(collections[0]?.error, /has an Active replica on node 2: there is nothing to restore$/)
  t.ok(asked >= 40, 'it was waiting')
  t.strictSame(uploads, [])
})

t.test('a node that only the Job cannot reach is not lost', async (t) => {
  const stage = await lostNode(t)
  const { engine, ids, uploads } = stage
  const shards = [{ collection: 'docs', ids }]
  engine.unreachable.clear()
  const { code, error } = await errorOf(stage, { shards })
  t.equal(code, EXIT.failed)
  t.match(error, /^node 2 is not lost: it does not answer this Job, but other nodes reach it, /)
  t.strictSame(uploads, [])
})

t.test('a node that others reach again while its shard is uploaded is not lost', async (t) => {
  const stage = await lostNode(t)
  const { engine, s3, ids, uploads } = stage
  s3.misbehave(({ operation, key }) => {
    if (operation === 'GetObject' && key.endsWith('.snapshot')) engine.unreachable.clear()
    return undefined
  })
  const { code, error } = await errorOf(stage, { shards: [{ collection: 'docs', ids }] })
  t.equal(code, EXIT.failed)
  t.match(error, /^node 2 is not lost: it does not answer this Job, but other nodes reach it, /)
  t.strictSame(uploads, [])
})

t.test('a node that refuses the API key is not lost', async (t) => {
  const stage = await lostNode(t, { isSilent: true })
  const { ids, nodes, uploads } = stage
  nodes[LOST]?.misbehave(() => ({ status: 401, body: 'Invalid API key or JWT' }))
  const { code, error } = await errorOf(stage, { shards: [{ collection: 'docs', ids }] })
  t.equal(code, EXIT.failed)
  t.match(error, /^node 2 is not lost: it answers, .* answered 401: Invalid API key or JWT$/)
  t.strictSame(uploads, [])
})

t.test('a node that returns while its shard is uploaded keeps its newer points', async (t) => {
  const stage = await lostNode(t, { isSilent: true })
  const { world, s3, ids, nodes, uploads, remaining } = stage
  const [first = ''] = remaining
  const points = [{ id: 1, vector: {}, payload: { isNewer: true } }]
  await ask(first, 'PUT', '/collections/docs/points?wait=true', { points })
  const newer = await readCollectionState([first], 'docs')
  const placed = await replicas(stage)
  let isBack = false
  nodes[LOST]?.misbehave(() => (isBack ? undefined : { cut: 'before' }))
  s3.misbehave(({ operation, key }) => {
    if (operation === 'GetObject' && key.endsWith('.snapshot')) isBack = true
    return undefined
  })
  const restore = await world.restore({ shards: [{ collection: 'docs', ids }] })
  t.equal((await run(restore)).code, EXIT.failed)
  const { collections = [] } = await restore.result()
  t.match(collections[0]?.error, /has an Active replica on node 2: there is nothing to restore$/)
  t.ok(isBack)
  t.strictSame(uploads, [])
  t.strictSame(await replicas(stage), placed)
  t.strictSame(await readCollectionState([first], 'docs'), newer)
})

t.test(
  'a node that was back during a long upload is not away because it restarts again',
  async (t) => {
    const stage = await lostNode(t, { isSilent: true })
    const { world, ids, nodes, uploads } = stage
    t.equal(ids.length, 2)
    const clock = instantClock(() => new Promise((resolve) => setTimeout(resolve, 2)))
    let laterMs = 0
    const time = { ...clock, monotonicMs: () => clock.monotonicMs() + laterMs }
    for (const node of nodes.slice(0, LOST)) {
      node.misbehave(({ path }) => {
        if (path.at(-1) !== 'upload') return undefined
        uploads.push(String(path[3]))
        laterMs = 3_600_000
        return undefined
      })
    }
    // It is away until the first shard is restored, and then only for as long as a restart takes.
    let asked = 0
    nodes[LOST]?.misbehave(() => {
      if (laterMs > 0) asked += 1
      return asked < 40 ? { cut: 'before' } : undefined
    })
    const restore = await world.restore({ shards: [{ collection: 'docs', ids }] })
    t.equal((await run(restore, { time })).code, EXIT.failed)
    const { collections = [] } = await restore.result()
    t.match(collections[0]?.error, /has an Active replica on node 2: there is nothing to restore$/)
    t.equal(uploads.length, 1, 'only the shard that was lost for long enough')
  },
)
