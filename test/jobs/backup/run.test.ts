/** `backup run` without failures: objects in the bucket, reports, and resuming after a kill. */
import { once } from 'node:events'
import t from 'tap'
import { EXIT, JOB_ENV, encodePlan } from '../../../crds/contract/job.ts'
import { parseManifest } from '../../../jobs/manifest-check.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { filesOf, setMaking, snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock, runJob } from '../job-world.ts'
import { MIB, backupFixture } from './fixture.ts'

t.test(
  'each node of each collection is in the bucket, and the manifest is written last',
  async (t) => {
    const { engine, world, keys, manifest, s3, result } = await backupFixture(t, {
      engineCollections: ['docs', 'my docs%'],
      replicationFactor: 2,
      snapshotBytes: 9 * MIB,
    })
    engine.aliases.set('live', 'docs')
    engine.collections.get('docs')?.points.push({ id: 1, vector: [1], payload: {} })
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log)
    t.strictSame(
      keys()
        .filter((key) => key.endsWith('.snapshot'))
        .map((key) => key.replace(/-\d.*$/, '')),
      [
        'nightly/b/docs/node-0/docs',
        'nightly/b/docs/node-1/docs',
        'nightly/b/my docs%25/node-0/my docs%25',
        'nightly/b/my docs%25/node-1/my docs%25',
      ].map((key) => key.replace(/-\d.*$/, '')),
    )
    const writes = s3.calls.filter(({ operation }) => operation === 'PutObject')
    t.equal(writes[0]?.key, 'nightly/b/owner.json')
    // Only its owner is read again after it.
    const reads = new Set(['GetObject', 'HeadObject'])
    const last = s3.calls.findLast(({ operation }) => !reads.has(operation))
    t.equal(last?.key, 'nightly/b/manifest.json')
    matchWhole(t, parseManifest(manifest()), {
      manifestVersion: 1,
      backupName: 'b',
      uid: world.uid,
      cluster: { name: 'a', namespace: 'ns' },
      nodeCount: 2,
      engineVersion: '1.18.3',
      collections: [
        {
          name: 'docs',
          exactPointsCount: 1,
          aliases: ['live'],
          config: { params: { replication_factor: 2 } },
          shards: [
            { shardId: 0, nodes: [0, 1] },
            { shardId: 1, nodes: [0, 1] },
          ],
          snapshots: [
            { nodeIndex: 0, sizeBytes: 9 * MIB, localShards: [{ shardId: 0 }, { shardId: 1 }] },
            { nodeIndex: 1, sizeBytes: 9 * MIB },
          ],
        },
        { name: 'my docs%', aliases: [] },
      ],
    })
    t.equal(snapshotFiles(engine).size, 0, 'no file is left in the engine')
    t.match(await world.progress(), { state: 'Done', message: 'Backed up 2/2 collections' })
    t.match(await result(), { total: 2, completed: 2, failed: 0, bytes: 36 * MIB })
    const proof = await world.verify('s3://backups/nightly/b')
    t.equal(proof.code, EXIT.done, proof.log)
    t.match(proof.log, /all 4 objects are complete: 36 MiB/)
  },
)

t.test('a node without shards of a collection is recorded as such', async (t) => {
  const { engine, world, manifest } = await backupFixture(t, { engineCollections: [] })
  engine.createCollection('docs', 1)
  t.equal((await world.run()).code, EXIT.done)
  matchWhole(t, manifest().collections[0]?.snapshots, [
    { localShards: [{ shardId: 0 }] },
    { localShards: [] },
  ])
})

t.test('a cluster without collections has a backup without collections', async (t) => {
  const { world, manifest, result } = await backupFixture(t, { engineCollections: [] })
  t.equal((await world.run()).code, EXIT.done)
  t.strictSame(manifest().collections, [])
  t.match(await world.progress(), {
    message: 'Backed up 0/0 collections: the cluster has none',
  })
  t.match(await result(), { total: 0, completed: 0 })
})

t.test('only the collections the spec names are backed up, and an alias is none', async (t) => {
  const { engine, world, manifest, result } = await backupFixture(t, {
    engineCollections: ['a', 'b', 'c'],
    collections: ['b', 'live', 'gone'],
  })
  engine.aliases.set('live', 'c')
  t.equal((await world.run()).code, EXIT.failed)
  t.strictSame(
    manifest().collections.map(({ name }) => name),
    ['b'],
  )
  t.match(await result(), {
    completed: 1,
    failed: 2,
    error: 'there is no collection live: it was deleted, or is an alias',
  })
})

t.test('a killed Job resumes: complete objects are not uploaded again', async (t) => {
  const { engine, world, store, s3, manifest } = await backupFixture(t, {
    engineCollections: ['a', 'b'],
    snapshotBytes: 20 * MIB,
  })
  const stuck = Promise.withResolvers<undefined>()
  const reached = Promise.withResolvers<undefined>()
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'UploadPart' || !key.includes('/b/node-1/')) return undefined
    reached.resolve(undefined)
    return { after: stuck.promise }
  })
  const { child } = world.start()
  await reached.promise
  child.kill('SIGKILL')
  await once(child, 'close')
  t.equal(store().uploads.size, 1, 'it left an upload')
  t.equal(filesOf(engine, 1, 'b').length, 1, 'and a file of the engine')
  stuck.resolve(undefined)
  s3.misbehave()
  s3.calls.length = 0
  const { code, log } = await world.run({}, { pod: 'pod-2', time: systemClock })
  t.equal(code, EXIT.done, log)
  t.match(log, /collection a is already in the bucket/)
  const moved = s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload')
  t.equal(moved.length, 1)
  t.match(moved[0]?.key, /\/b\/node-1\//)
  t.equal(store().uploads.size, 0)
  t.equal(snapshotFiles(engine).size, 0)
  t.strictSame(
    manifest().collections.map(({ name }) => name),
    ['a', 'b'],
  )
  t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
})

t.test('SIGTERM aborts the upload, deletes the engine’s file, and exits as a crash', async (t) => {
  const { engine, world, store, s3 } = await backupFixture(t, { snapshotBytes: 20 * MIB })
  const never = Promise.withResolvers<undefined>()
  const reached = Promise.withResolvers<undefined>()
  s3.misbehave(({ operation }) => {
    if (operation !== 'UploadPart') return undefined
    reached.resolve(undefined)
    return { after: never.promise }
  })
  const { child, log } = world.start()
  await reached.promise
  child.kill('SIGTERM')
  const [code] = (await once(child, 'close')) as [number]
  t.equal(code, EXIT.crash)
  t.match(await log, /WARNING terminated by a signal/)
  t.equal(store().uploads.size, 0)
  t.equal(snapshotFiles(engine).size, 0)
  t.match(await world.progress(), { state: 'Started' })
  never.resolve(undefined)
})

t.test('SIGTERM while the engine creates a snapshot deletes it once it exists', async (t) => {
  const { engine, nodes, world } = await backupFixture(t)
  const reached = Promise.withResolvers<undefined>()
  nodes[0]?.misbehave(({ method, path }) => {
    if (method !== 'POST' || path.at(-1) !== 'snapshots') return undefined
    reached.resolve(undefined)
    return { delayMs: 300 }
  })
  const controller = new AbortController()
  const running = world.run({}, { signal: controller.signal, time: systemClock })
  await reached.promise
  controller.abort(new Error('SIGTERM'))
  t.equal((await running).code, EXIT.crash)
  t.equal(snapshotFiles(engine).size, 0)
})

t.test(
  'a file that may belong to a call whose response was lost is not deleted, and the report names it',
  async (t) => {
    const { engine, nodes, world } = await backupFixture(t, { nodes: 1 })
    // The engine creates the file and the response is lost: it may also be a file of a user.
    let calls = 0
    nodes[0]?.misbehave(({ method, path }) =>
      method === 'POST' && path.at(-1) === 'snapshots' && calls++ === 0
        ? { cut: 'after' }
        : undefined,
    )
    // Our clock and the engine's differ by less than the tolerance.
    const time = { ...instantClock(), now: () => new Date() }
    const { code, log } = await world.run({}, { time })
    t.equal(code, EXIT.done, log)
    t.match(log, /retrying snapshot/)
    const [left = ''] = filesOf(engine, 0, 'docs').map(({ name }) => name)
    t.equal(snapshotFiles(engine).size, 1)
    t.match(await world.progress(), {
      state: 'Done',
      message: `Backed up 1/1 collections; still on nodes, to be deleted there: of ${left} on node 0, the one you did not make`,
    })
  },
)

t.test('a snapshot file that existed before belongs to a user and is not deleted', async (t) => {
  const { engine, world } = await backupFixture(t, { nodes: 1 })
  const name = 'docs-1-2020-01-01-00-00-00.snapshot'
  const file = { name, creation_time: '', size: 1, checksum: '', content: Buffer.from('x') }
  snapshotFiles(engine).set(`0/docs/${name}`, file)
  t.equal((await world.run()).code, EXIT.done)
  t.strictSame([...snapshotFiles(engine).keys()], [`0/docs/${name}`])
})

t.test('a replaced pod stops without a report', async (t) => {
  const { world, s3, result } = await backupFixture(t, {
    engineCollections: ['a', 'b'],
    snapshotBytes: 20 * MIB,
  })
  let second: Promise<{ code: number }> | undefined
  s3.misbehave(({ operation, key }) => {
    if (operation === 'UploadPart' && key.includes('/b/') && second === undefined) {
      s3.misbehave()
      second = runJob(['backup', 'run', 'ns/b'], {
        ...world.env,
        [JOB_ENV.podUid]: 'pod-2',
        [JOB_ENV.plan]: encodePlan(world.plan, 'spec'),
      })
      return { after: second }
    }
    return undefined
  })
  const first = await world.run()
  t.equal((await second)?.code, EXIT.done)
  t.equal(first.code, EXIT.crash)
  t.match(first.log, /pod pod-2 works on this run: this pod stops/)
  t.match(await result(), { completed: 2 })
})

t.test('shards that move during the backup are backed up again from their new node', async (t) => {
  const { engine, nodes, world, manifest } = await backupFixture(t)
  const shard = engine.collections.get('docs')?.shards[1]
  let isMoved = false
  nodes[1]?.misbehave(({ method }) => {
    if (method === 'POST' && !isMoved && shard !== undefined) {
      isMoved = true
      shard.peers = [engine.peer(0).id]
    }
    return undefined
  })
  const { code, log } = await world.run({}, { time: instantClock() })
  t.equal(code, EXIT.done, log)
  t.match(log, /collection changed during the backup, starting over/)
  matchWhole(t, manifest().collections[0]?.shards, [{ nodes: [0] }, { nodes: [0] }])
  matchWhole(t, manifest().collections[0]?.snapshots[0]?.localShards, [
    { shardId: 0 },
    { shardId: 1 },
  ])
})

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}: the bytes that are sent are counted while they are sent`, async (t) => {
    const { world } = await backupFixture(t, { method, nodes: 1, snapshotBytes: 9 * MIB })
    let now = Date.parse('2030-01-01T00:00:00Z')
    const later = () => (now += 60_000)
    // Each look at a clock is a minute later than the one before: every line is due.
    const time = { ...instantClock(), now: () => new Date(later()), monotonicMs: later }
    const { code, log } = await world.run({}, { time })
    t.equal(code, EXIT.done, log)
    const lines = log.slice(0, log.search(/uploaded nightly/)).split('\n')
    const sent = lines.flatMap(
      (line) => /collection=\S+ number=1 bytes=(\d+)/.exec(line)?.[1] ?? [],
    )
    t.ok(sent.length > 1, log)
    t.ok(Math.max(...sent.map(Number)) > MIB, sent.join())
  })
}

t.test(
  'a snapshot without a checksum of the engine has that of the bytes that were sent',
  async (t) => {
    const { engine, world, manifest } = await backupFixture(t, { nodes: 1 })
    setMaking(engine, { hasNoChecksum: true })
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log)
    const [snapshot] = manifest().collections[0]?.snapshots ?? []
    t.notOk(snapshot !== undefined && 'checksum' in snapshot)
    t.match(snapshot?.sha256, /^[0-9a-f]{64}$/)
    t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
  },
)
