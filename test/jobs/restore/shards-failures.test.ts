/** Failures of a restore by shard: invalid manifests, kills, and changes of the target. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { ShardManifest } from '../../../crds/contract/manifest.ts'
import { matchWhole } from '../../match-whole.ts'
import { placement } from './collection-state.ts'
import {
  createKeyedCollection,
  shardRestoreFixture,
  type ShardRestoreFixture,
} from './shard-restore-fixture.ts'
import { run, runToDone } from './restore-fixture.ts'

type Snapshots = ShardManifest['collections'][number]['snapshots']

interface Rejection {
  title: string
  change: (snapshots: Snapshots) => unknown
  error: RegExp
}

const MANIFESTS: Rejection[] = [
  {
    title: 'a manifest with a shard missing',
    change: (snapshots) => snapshots.splice(2, 1),
    error: /^manifest\.json: collection docs has no snapshot of shard 2$/,
  },
  {
    title: 'a manifest with a duplicate shard',
    change: (snapshots) => snapshots.push({ ...snapshots[1] } as Snapshots[number]),
    error: /^manifest\.json: collection docs has two snapshots of shard 1$/,
  },
  {
    title: 'a manifest with two shards swapped',
    change: ([first, second]) => {
      if (first !== undefined && second !== undefined) {
        Object.assign(first, { shardId: 1 })
        Object.assign(second, { shardId: 0 })
      }
    },
    error:
      /^manifest\.json: collection docs has .*\/shard-0\/docs-0-[0-9a-f]{8}\.snapshot as the snapshot of shard 1$/,
  },
  {
    title: 'a shard larger than the disks of a node',
    change: ([first]) => Object.assign(first ?? {}, { sizeBytes: 2 ** 50 }),
    error: /docs-0-[0-9a-f]{8}\.snapshot has \d+ bytes, not the \d+ of the manifest$/,
  },
]

for (const { title, change, error } of MANIFESTS) {
  t.test(`${title} is rejected without a change`, async (t) => {
    const stood = await shardRestoreFixture(t)
    stood.rewrite(({ collections: [docs] }) => change(docs?.snapshots ?? []))
    const before = JSON.stringify(stood.engine)
    const restore = await stood.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(await restore.result(), { error })
    t.equal(JSON.stringify(stood.engine), before)
  })
}

/** Swaps the objects of two shards. */
function swapObjects({ store, manifest }: ShardRestoreFixture): void {
  const [first = '', second = ''] = manifest().collections[0]?.snapshots.map(({ key }) => key) ?? []
  const [one, other] = [first, second].map((key) => store().objects.get(key)?.body)
  store().put(first, Buffer.from(other ?? ''))
  store().put(second, Buffer.from(one ?? ''))
}

t.test('two objects swapped in the bucket: the hash is not that of the shard', async (t) => {
  const stood = await shardRestoreFixture(t, { snapshotBytes: 20_000 })
  swapObjects(stood)
  const restore = await stood.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), {
    error:
      /\/shard-[01]\/docs-[01]-\w+\.snapshot is not the object that was backed up: its bytes differ$/,
  })
  const taken = stood.engine.collections.get('docs')?.points.map(({ shard }) => shard)
  t.notOk(taken?.includes(0) ?? true)
  t.notOk(taken?.includes(1) ?? true)
})

t.test('two objects swapped with their hashes: the count is not that of the shard', async (t) => {
  const stood = await shardRestoreFixture(t, { snapshotBytes: 20_000 })
  swapObjects(stood)
  stood.rewrite(({ collections: [docs] }) => {
    const [first, second] = docs?.snapshots ?? []
    if (first === undefined || second === undefined) return
    const { sha256 } = first
    Object.assign(first, { sha256: second.sha256 })
    Object.assign(second, { sha256 })
  })
  const restore = await stood.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), {
    error: /^shard [01] of docs has \d+ points on node [0-2], but its snapshot holds \d+$/,
  })
})

t.test('a shard that was written to while it was backed up may have another count', async (t) => {
  const stood = await shardRestoreFixture(t)
  stood.rewrite(({ collections: [docs] }) => {
    if (docs === undefined) return
    delete docs.exactPointsCount
    for (const shard of docs.shards) delete shard.exactPointsCount
    Object.assign(docs.snapshots[0] ?? {}, { pointsCount: 99 })
  })
  const restore = await stood.restore()
  await runToDone(t, restore)
  matchWhole(t, await restore.result(), {
    notes: [/^shard 0 of docs has \d+ points; about 99 were backed up$/],
  })
  await stood.compare(t)
})

t.test('another count under a shard key is a note that names the key', async (t) => {
  const stood = await shardRestoreFixture(t, { prepare: createKeyedCollection })
  stood.rewrite(({ collections }) => {
    const keys = collections.find(({ name }) => name === 'keyed')?.shardKeys ?? []
    Object.assign(keys[0] ?? {}, { exactPointsCount: 99 })
  })
  const restore = await stood.restore()
  t.equal((await run(restore)).code, EXIT.done)
  matchWhole(t, await restore.result(), {
    notes: ['shard key "a" of keyed has 3 points; 99 were counted when it was backed up'],
    completed: 2,
  })
})

for (const kill of [0, 1, 2, 3]) {
  t.test(`killed at shard ${kill + 1} of 4: restored shards are not fetched again`, async (t) => {
    const stood = await shardRestoreFixture(t, { into: 2 })
    const restore = await stood.restore()
    const controller = new AbortController()
    let recoveries = 0
    for (const node of stood.nodes) {
      node.misbehave(({ path }) => {
        if (path[2] !== 'shards' || path.at(-1) !== 'upload') return undefined
        if ((recoveries += 1) === kill + 1) controller.abort(new Error('SIGTERM'))
        return undefined
      })
    }
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    const { current } = await restore.result()
    t.match(current, { collection: 'docs', shards: 4, isOurs: true })
    const back = current?.shardsDone ?? []
    t.ok(back.length <= kill, `${back.length} are restored`)
    for (const node of stood.nodes) node.misbehave()
    stood.s3.calls.length = 0
    await runToDone(t, restore, { pod: 'pod-2' })
    await stood.compare(t)
    const again = stood.s3.calls.filter(
      ({ operation, key }) =>
        operation === 'GetObject' && back.some((id) => key.includes(`/shard-${id}/`)),
    )
    t.strictSame(again, [])
  })
}

t.test(
  'killed while it created the other replicas: none is created twice, and there are none in excess',
  async (t) => {
    const stood = await shardRestoreFixture(t, { into: 3 })
    const restore = await stood.restore()
    const controller = new AbortController()
    let recoveries = 0
    let copies = 0
    for (const node of stood.nodes) {
      node.misbehave(({ method, path }) => {
        if (path.at(-1) === 'upload' && path[2] === 'shards') recoveries += 1
        if (recoveries < 4 || method !== 'POST' || path[2] !== 'cluster') return undefined
        if ((copies += 1) === 2) controller.abort(new Error('SIGTERM'))
        return undefined
      })
    }
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    t.equal((await restore.result()).current?.shardsDone?.length, 4)
    for (const node of stood.nodes) node.misbehave()
    await runToDone(t, restore, { pod: 'pod-2' })
    await stood.compare(t)
    const [first = []] = await placement(stood.urls, 'docs')
    t.equal(first.length, 8)
  },
)

t.test('the recovery of a node that restarts during it is retried', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2 })
  let cuts = 2
  stood.nodes[1]?.misbehave(({ path }) =>
    path[2] === 'shards' && path.at(-1) === 'upload' && cuts-- > 0 ? { cut: 'before' } : undefined,
  )
  const log = await runToDone(t, await stood.restore())
  t.match(log, /retrying recovery/)
  await stood.compare(t)
})

t.test('a shard that leaves its node during the restore is not replicated there', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2, shards: 4, replicationFactor: 1 })
  let isMoved = false
  stood.nodes[0]?.misbehave(({ path }) => {
    if (isMoved || path[2] !== 'shards' || path.at(-1) !== 'upload') return undefined
    isMoved = true
    // The node is drained.
    const { shards = [] } = stood.engine.collections.get('docs') ?? {}
    const [, other] = stood.engine.peers()
    const still = shards.findLast(
      ({ id, peers }) => id !== Number(path[3]) && peers[0] !== other?.id,
    )
    if (still !== undefined && other !== undefined) still.peers = [other.id]
    return undefined
  })
  const restore = await stood.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), { error: /^shard \d of docs is no longer on node 0$/ })
  const [first = []] = await placement(stood.urls, 'docs')
  t.equal(first.length, 4, 'one copy of each')
})

t.test('a shard that another client moves after its restore is waited for', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2, shards: 4, replicationFactor: 1 })
  let uploads = 0
  for (const node of stood.nodes) {
    node.misbehave(({ path }) => {
      if (path[2] !== 'shards' || path.at(-1) !== 'upload') return undefined
      uploads += 1
      if (uploads < 4) return undefined
      const { shards = [] } = stood.engine.collections.get('docs') ?? {}
      const [peer, other] = stood.engine.peers()
      const moved = shards.find(({ id, peers }) => id !== Number(path[3]) && peers[0] === peer?.id)
      if (moved !== undefined && other !== undefined) moved.peers = [other.id]
      return undefined
    })
  }
  const restore = await stood.restore()
  const { code, log } = await run(restore)
  t.equal(code, EXIT.failed)
  t.match(log, /waiting until the nodes agree .*reason=shard \d is on nodes 1, not on node 0 alone/)
})

t.test('a restore waits for a scaling target until its peers are its pods', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 3 })
  const ghost = stood.engine.join(3)
  const peers = stood.engine.peers.bind(stood.engine)
  let looks = 0
  stood.nodes[0]?.misbehave(({ path }) => {
    if (path[0] !== 'cluster' || (looks += 1) < 3) return undefined
    stood.engine.peers = () => peers().filter(({ id }) => id !== ghost.id)
    return undefined
  })
  const log = await runToDone(t, await stood.restore())
  t.match(log, /the nodes know of 4 peers, but the target has 3 pods: remove the other peers/)
  await stood.compare(t)
})
