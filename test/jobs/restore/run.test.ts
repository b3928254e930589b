/** `restore run` against doubles: restored data, reports, and failures. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask, placement } from './collection-state.ts'
import {
  isRecovery,
  createKeyedCollection,
  run,
  runToDone,
  restoreFixture,
  type RestoreFixture,
} from './restore-fixture.ts'

const RESTORE = { apiVersion: API_VERSION, kind: 'VecRestore', namespace: 'ns', name: 'r1' }

t.test('aliases, payload indexes, shard keys and replica placement are restored', async (t) => {
  const { urls, world, deleteCollections, assertRestored } = await restoreFixture(t, {
    collections: [],
    prepare: createKeyedCollection,
  })
  const placementBefore = await placement(urls, 'keyed')
  deleteCollections('keyed')
  const restore = await world.restore()
  await runToDone(t, restore)
  await assertRestored('keyed')
  t.strictSame(await placement(urls, 'keyed'), placementBefore)
  t.match(await restore.progress(), { state: 'Done', message: 'Restored 1/1' })
})

for (const replicationFactor of [1, 3]) {
  t.test(`spec.replicationFactor ${replicationFactor} applies to a backup by node`, async (t) => {
    const { urls, world, deleteCollections } = await restoreFixture(t)
    deleteCollections('docs')
    await runToDone(t, await world.restore({ replicationFactor }))
    for (const view of await placement(urls, 'docs')) {
      t.equal(view.length, 3 * replicationFactor, 'replicas of three shards')
    }
    const { config } = (await ask(urls[0] ?? '', 'GET', '/collections/docs')) as {
      config: { params: object }
    }
    t.match(config.params, { replication_factor: replicationFactor })
  })
}

t.test(
  'nodes recover one after another from presigned addresses, which no log and no report shows',
  async (t) => {
    const { world, deleteCollections, assertRestored, s3, nodes } = await restoreFixture(t)
    deleteCollections('docs')
    const recovers: string[] = []
    for (const [number, node] of nodes.entries()) {
      node.misbehave((request) => {
        if (isRecovery(request)) recovers.push(`node ${number}`)
        return undefined
      })
    }
    const restore = await world.restore()
    const log = await runToDone(t, restore)
    await assertRestored('docs')
    t.strictSame(recovers, ['node 0', 'node 1', 'node 2'], 'one after another')
    t.equal(
      s3.calls.filter(({ key }) => key.endsWith('.snapshot')).length,
      6,
      'a check and a download each',
    )
    t.notMatch(log, /X-Amz|Signature|secretsecret/)
    t.notMatch(JSON.stringify(await restore.progress()), /X-Amz|Signature/)
  },
)

t.test(
  'a restore is recorded with its backup while it reads the backup, and not longer',
  async (t) => {
    const { world, deleteCollections, s3, store } = await restoreFixture(t)
    deleteCollections('docs')
    const restore = await world.restore()
    await runToDone(t, restore)
    const isRecord = ({ key }: { key: string }) => key.startsWith('nightly/b/readers/')
    const [first] = s3.calls
    t.match(first, { operation: 'PutObject' })
    t.ok(first !== undefined && isRecord(first), 'before anything is read')
    t.strictSame(
      store()
        .keys()
        .filter((key) => isRecord({ key })),
      [],
    )
    t.match(s3.calls.at(-1), { operation: 'DeleteObjects' })
  },
)

interface Pod {
  progress: () => Promise<object | undefined>
  terminate: () => void
}

/** What happens to the pod of a restore during its first recovery, and whether its record stays in the bucket. */
const ENDS: [string, (fixture: RestoreFixture, pod: Pod) => unknown, boolean][] = [
  ['whose pod is stopped keeps its record for the next pod', (_, pod) => pod.terminate(), true],
  [
    'whose pod was replaced keeps the record of the next pod',
    async ({ world }, { progress }) => {
      const replaced = JSON.stringify({ ...(await progress()), runner: 'pod-2' })
      const annotations = { [ANNOTATIONS.progress]: replaced }
      await world.api.patch(RESTORE, { metadata: { annotations } })
    },
    true,
  ],
  [
    'that is being deleted leaves no record',
    async ({ world }, pod) => {
      await world.api.patch(RESTORE, { metadata: { finalizers: ['example.com/hold'] } })
      await world.api.delete(RESTORE)
      pod.terminate()
    },
    false,
  ],
]

for (const [what, end, isRetained] of ENDS) {
  t.test(`a restore ${what}`, async (t) => {
    const fixture = await restoreFixture(t)
    const { world, deleteCollections, store, nodes } = fixture
    deleteCollections('docs')
    const restore = await world.restore()
    const controller = new AbortController()
    const pod = { progress: restore.progress, terminate: () => controller.abort() }
    for (const node of nodes) {
      node.misbehave((request) =>
        isRecovery(request) ? { until: Promise.resolve(end(fixture, pod)) } : undefined,
      )
    }
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    const records = () =>
      store()
        .keys()
        .filter((key) => key.startsWith('nightly/b/readers/'))
    t.equal(records().length, isRetained ? 1 : 0)
    if (!isRetained) return
    for (const node of nodes) node.misbehave()
    await runToDone(t, restore, { pod: 'pod-2' })
    t.strictSame(records(), [])
  })
}

t.test('a restore reports its progress: collection, nodes, bytes, points', async (t) => {
  const { world, deleteCollections } = await restoreFixture(t, {
    collections: ['a', 'b'],
    snapshotBytes: 20_480,
  })
  deleteCollections('a', 'b')
  const restore = await world.restore({ collectionMapping: { b: 'c' } })
  const { log } = await run(restore)
  t.match(log, /collection 2 of 2 \(c\), 1 of 3 nodes done: node 2: takes 20 KiB; .* of 120 KiB/)
  matchWhole(t, await restore.result(), {
    phase: 'Restoring',
    total: 2,
    completed: 2,
    failed: 0,
    bytes: 122_880,
    bytesTotal: 122_880,
    collections: [
      { name: 'a', status: 'Completed', bytes: 61_440, points: 10 },
      { name: 'c', originalName: 'b', status: 'Completed', points: 10 },
    ],
  })
})

t.test('an alias that points to another collection is unchanged, and a note says so', async (t) => {
  const { engine, world } = await restoreFixture(t, {
    collections: ['docs', 'other'],
    prepare: async ({ aliases }) => aliases.set('live', 'docs'),
  })
  engine.aliases.set('live', 'other')
  const restore = await world.restore({ collections: ['docs'] })
  t.equal((await run(restore)).code, EXIT.done)
  t.equal(engine.aliases.get('live'), 'other')
  const note = 'alias live points to other and was not changed'
  matchWhole(t, await restore.result(), { notes: [note] })
  t.match(await restore.progress(), { message: `Restored 1/1; ${note}` })
})

const ways: [string, (stage: RestoreFixture) => unknown][] = [
  [
    'is not allowed to fetch addresses',
    ({ nodes }) => {
      const body = JSON.stringify({ status: { error: 'Forbidden: URL recovery is disabled' } })
      const headers = { 'content-type': 'application/json' }
      for (const node of nodes) {
        node.misbehave(({ path }) =>
          path.at(-1) === 'recover' ? { status: 403, body, headers } : undefined,
        )
      }
    },
  ],
  [
    'is sent away by the store',
    ({ s3 }) =>
      s3.misbehave(({ query }) =>
        query.has('X-Amz-Signature') ? { status: 403, code: 'AccessDenied' } : undefined,
      ),
  ],
  [
    'gets no answer from the store',
    ({ s3 }) =>
      s3.misbehave(({ query }) => (query.has('X-Amz-Signature') ? { cut: 'in' } : undefined)),
  ],
]

for (const [what, arrange] of ways) {
  t.test(`a node that ${what} is sent its snapshots, and no file of them is left`, async (t) => {
    const stood = await restoreFixture(t, { snapshotBytes: 300_000 })
    stood.deleteCollections('docs')
    arrange(stood)
    const log = await runToDone(t, await stood.world.restore())
    await stood.assertRestored('docs')
    t.match(log, /node 2 cannot fetch from the bucket: uploading snapshots to it/)
    const [url = ''] = stood.urls
    t.strictSame(await ask(url, 'GET', '/collections/docs/snapshots'), [])
    t.notMatch(log, /X-Amz-Signature/)
  })
}

t.test('bytes that were altered in the bucket are rejected', async (t) => {
  const { world, store, deleteCollections, manifest, engine } = await restoreFixture(t)
  deleteCollections('docs')
  const [snapshot] = manifest().collections[0]?.snapshots ?? []
  const key = snapshot?.key ?? ''
  const bytes = Buffer.from(store().objects.get(key)?.body ?? '')
  bytes[4] = 88
  store().put(key, bytes)
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), { error: /[Cc]hecksum mismatch/ })
  t.equal(engine.collections.get('docs')?.points.length, 0)
})

t.test('one failed collection does not stop the others', async (t) => {
  const { world, store, deleteCollections, manifest, assertRestored, engine } =
    await restoreFixture(t, {
      collections: ['a', 'b', 'c'],
    })
  deleteCollections('a', 'b', 'c')
  const second = manifest().collections[1]?.snapshots[1]?.key ?? ''
  store().objects.delete(second)
  const restore = await world.restore()
  const { code } = await run(restore)
  t.equal(code, EXIT.failed)
  t.match(await restore.progress(), { state: 'Failed', message: 'Restored 2/3' })
  matchWhole(t, await restore.result(), {
    error: `s3://backups/${second} is missing`,
    collections: [{ name: 'a' }, { name: 'b', status: 'Failed' }, { name: 'c' }],
  })
  for (const name of ['a', 'c']) await assertRestored(name)
  t.notOk(engine.collections.has('b'), 'it was not changed')
})

t.test(
  'a restored collection that is deleted before the end of the restore is not Completed',
  async (t) => {
    const { world, deleteCollections, assertRestored, engine, nodes } = await restoreFixture(t, {
      collections: ['a', 'b'],
    })
    deleteCollections('a', 'b')
    nodes[0]?.misbehave((request) => {
      if (isRecovery(request) && request.path.includes('b')) engine.removeCollection('a')
      return undefined
    })
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    matchWhole(t, await restore.result(), {
      error: 'collection a was deleted during the restore',
      collections: [
        { name: 'a', status: 'Failed' },
        { name: 'b', status: 'Completed' },
      ],
    })
    await assertRestored('b')
  },
)

t.test(
  'after a pod was terminated the next pod resumes with the next node that is not done',
  async (t) => {
    const { world, deleteCollections, assertRestored, nodes, s3 } = await restoreFixture(t)
    deleteCollections('docs')
    const restore = await world.restore()
    const controller = new AbortController()
    nodes[2]?.misbehave((request) => {
      if (isRecovery(request)) controller.abort(new Error('SIGTERM'))
      return undefined
    })
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    t.match(await restore.result(), { current: { collection: 'docs', nodesDone: 2, isOurs: true } })
    nodes[2]?.misbehave()
    s3.calls.length = 0
    await runToDone(t, restore, { pod: 'pod-2' })
    await assertRestored('docs')
    const fetched = s3.calls.filter(
      ({ operation, key }) => operation === 'GetObject' && /node-[01]/.test(key),
    )
    t.strictSame(fetched, [], 'completed work is not repeated')
  },
)

t.test(
  'after a pod was terminated while it created the collection, the next pod recreates it',
  async (t) => {
    const { world, deleteCollections, assertRestored, nodes } = await restoreFixture(t)
    deleteCollections('docs')
    const restore = await world.restore()
    const controller = new AbortController()
    nodes[0]?.misbehave(({ method, path }) => {
      if (method !== 'PUT' || path.at(-1) !== 'docs') return undefined
      controller.abort(new Error('SIGTERM'))
      return { cut: 'after' }
    })
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    nodes[0]?.misbehave()
    const log = await runToDone(t, restore, { pod: 'pod-2' })
    t.match(log, /deleting the incomplete collection of an earlier attempt/)
    await assertRestored('docs')
  },
)

t.test('the recovery of a node that is killed during it is retried', async (t) => {
  const { world, deleteCollections, assertRestored, nodes } = await restoreFixture(t)
  deleteCollections('docs')
  let left = 2
  nodes[1]?.misbehave(({ path }) =>
    path.at(-1) === 'recover' && left-- > 0 ? { cut: 'before' } : undefined,
  )
  await runToDone(t, await world.restore())
  await assertRestored('docs')
})

t.test('a disagreement between nodes that outlasts 30 s is repaired, and reported', async (t) => {
  const { world, engine, assertRestored } = await restoreFixture(t, { replicationFactor: 1 })
  const [shard] = engine.collections.get('docs')?.shards ?? []
  const stranger = engine.peers().find(({ id }) => !shard?.peers.includes(id))
  if (shard !== undefined) shard.phantoms = { 1: [stranger?.id ?? 0] }
  const restore = await world.restore()
  await runToDone(t, restore)
  const note = `nodes disagreed about a copy of shard 0 of docs on node ${stranger?.ordinal}: dropped`
  matchWhole(t, await restore.result(), { notes: [note] })
  await assertRestored('docs')
})

/** A node that is killed during its recovery returns without a shard that the others report as Active there. */
function forgetShards(
  { engine, nodes }: Awaited<ReturnType<typeof restoreFixture>>,
  ordinal: number,
) {
  let isKilled = false
  nodes[ordinal]?.misbehave(({ path }) => {
    if (path.at(-1) !== 'recover' || isKilled) return undefined
    const own = shardsOf(engine).filter(({ peers }) => peers.includes(engine.peer(ordinal).id))
    if (own.length === 0) return undefined
    isKilled = true
    for (const shard of own) shard.forgottenBy = [ordinal]
    return { cut: 'before' }
  })
  return () => isKilled
}

t.test(
  'after a node lost a shard before any shard is restored, the collection is recreated',
  async (t) => {
    const stood = await restoreFixture(t)
    stood.deleteCollections('docs')
    forgetShards(stood, 0)
    const log = await runToDone(t, await stood.world.restore())
    t.match(log, /recreating collection/)
    await stood.assertRestored('docs')
  },
)

t.test(
  'after a node lost a shard once others are restored, the restore fails and deletes nothing',
  async (t) => {
    const stood = await restoreFixture(t)
    const { engine, nodes } = stood
    const shardId = shardsOf(engine).find(({ peers }) => !peers.includes(engine.peer(0).id))?.id
    stood.deleteCollections('docs')
    // The double places new shards at random: node 1 gets the shard that node 0 does not bring back.
    nodes[0]?.misbehave(({ path }) => {
      const shard = shardsOf(engine).find(({ id }) => id === shardId)
      if (path.at(-1) === 'recover' && shard !== undefined) shard.peers = [engine.peer(1).id]
      return undefined
    })
    const wasKilled = forgetShards(stood, 1)
    const restore = await stood.world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.ok(wasKilled(), 'node 1 lost a shard')
    t.match((await restore.result()).error, /^docs: the nodes disagree about shard \d on node 1/)
    t.ok(stood.engine.collections.has('docs'), 'clients may have written to the restored shards')
  },
)

t.test(
  'after a node lost a shard of a collection that existed before, the restore fails and says what to do',
  async (t) => {
    const stood = await restoreFixture(t)
    const wasKilled = forgetShards(stood, 1)
    const restore = await stood.world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(
      (await restore.result()).error,
      /^docs: the nodes disagree about shard \d on node 1: nodes 0, 2 report Active, node 1 reports absent, and there is no progress: delete the collection, or restore it under another name with collectionMapping, and create the VecRestore again$/,
    )
    t.ok(wasKilled(), 'node 1 lost a shard')
    t.ok(stood.engine.collections.has('docs'), 'this restore did not create the collection')
  },
)

function shardsOf(engine: Awaited<ReturnType<typeof restoreFixture>>['engine']) {
  return engine.collections.get('docs')?.shards ?? []
}

t.test('a restore over a collection in use leaves the points of the backup', async (t) => {
  const { world, urls, currentState: now, stateBefore: before } = await restoreFixture(t)
  const points = [{ id: 70, vector: {}, payload: { late: true } }]
  await ask(urls[0] ?? '', 'PUT', '/collections/docs/points?wait=true', { points })
  await ask(urls[0] ?? '', 'POST', '/collections/docs/points/delete?wait=true', { points: [1, 2] })
  const log = await runToDone(t, await world.restore())
  t.strictSame(await now('docs'), before('docs'))
  t.match(log, /collection docs exists and will be replaced/)
})

t.test('the same VecRestore can run again', async (t) => {
  const { world, deleteCollections, assertRestored } = await restoreFixture(t)
  deleteCollections('docs')
  for (const round of [1, 2]) {
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.done, `round ${round}`)
    await assertRestored('docs')
  }
})

t.test('a count from several moments proves nothing, and a note shows it', async (t) => {
  const { world, deleteCollections, rewrite } = await restoreFixture(t)
  deleteCollections('docs')
  rewrite(({ collections: [docs] }) => {
    if (docs === undefined) return
    delete docs.exactPointsCount
    docs.pointsCount = 12
  })
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.done)
  matchWhole(t, await restore.result(), { notes: ['docs has 10 points; about 12 were recorded'] })
})
