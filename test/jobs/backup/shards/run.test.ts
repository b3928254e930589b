/** `backup run` by shard without failures: objects in the bucket, the pods they came from, and reports. */
import { once } from 'node:events'
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { parseManifest } from '../../../../jobs/manifest-check.ts'
import { systemClock } from '../../../../jobs/clock.ts'
import { snapshotFiles } from '../../../doubles/engine/snapshots.ts'
import { UNAVAILABLE } from '../../../doubles/engine/misbehaviour.ts'
import { matchWhole } from '../../../match-whole.ts'
import { MIB } from '../fixture.ts'
import { assertComplete, shardKeyPattern, shardFixture, countStreams } from './fixture.ts'

t.test('each shard is in the bucket once, and the manifest lists all of them', async (t) => {
  const { engine, world, keys, manifest, result } = await shardFixture(t, {
    engineCollections: ['docs', 'my docs%'],
    nodes: 3,
    replicationFactor: 2,
    snapshotBytes: 9 * MIB,
  })
  engine.aliases.set('live', 'docs')
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  matchWhole(
    t,
    keys().filter((key) => key.endsWith('.snapshot')),
    ['docs', 'my docs%'].flatMap((name) => [0, 1, 2].map((id) => shardKeyPattern(name, id))),
  )
  matchWhole(t, parseManifest(manifest()), {
    manifestVersion: 2,
    method: 'Shard',
    nodeCount: 3,
    collections: [
      {
        name: 'docs',
        aliases: ['live'],
        replicationFactor: 2,
        exactPointsCount: 0,
        shards: [0, 1, 2].map((shardId) => ({ shardId })),
        snapshots: [0, 1, 2].map((shardId) => ({
          shardId,
          key: shardKeyPattern('docs', shardId),
          sha256: /^[0-9a-f]{64}$/,
          pointsCount: 0,
        })),
      },
      { name: 'my docs%', aliases: [] },
    ],
  })
  t.equal(snapshotFiles(engine).size, 0, 'no node made a file')
  t.match(await world.progress(), { state: 'Done', message: 'Backed up 2/2 collections' })
  matchWhole(t, await result(), {
    completed: 2,
    collections: [
      {
        name: 'docs',
        status: 'Completed',
        snapshots: [0, 1, 2].map((shard) => ({
          shard,
          snapshotName: new RegExp(`^docs-${shard}-[0-9a-f]{8}\\.snapshot$`),
          key: shardKeyPattern('docs', shard),
        })),
      },
      {
        name: 'my docs%',
        status: 'Completed',
        snapshots: [0, 1, 2].map((shard) => ({ shard, key: shardKeyPattern('my docs%', shard) })),
      },
    ],
  })
  const proof = await world.verify('s3://backups/nightly/b')
  t.equal(proof.code, EXIT.done, proof.log)
  t.match(proof.log, /all 6 objects are complete: 54 MiB/)
})

t.test('up to `parallelism` shards are streamed at once, never two from one pod', async (t) => {
  for (const parallelism of [1, 2, 3]) {
    const scene = await shardFixture(t, { nodes: 3, replicationFactor: 2, shards: 9, parallelism })
    const streams = countStreams(scene)
    t.equal((await scene.world.run()).code, EXIT.done)
    t.equal(streams.maxOpen(), parallelism)
    t.equal(streams.maxOpenPerPod(), 1)
    t.strictSame(streams.byPod(), [3, 3, 3], 'spread over the pods')
  }
})

t.test(
  'the memory of the Job limits how many large shards are streamed at the same time',
  async (t) => {
    for (const [gigabytes, most] of [
      [1, 4],
      [100, 4],
      [200, 3],
      [400, 1],
    ] as const) {
      const scene = await shardFixture(t, { nodes: 4, shards: 8, parallelism: 4 })
      for (const shard of scene.engine.collections.get('docs')?.shards ?? []) {
        shard.vectorBytes = gigabytes * 2 ** 30
      }
      const streams = countStreams(scene)
      const { code, log } = await scene.world.run({}, { memoryBytes: 512 * MIB })
      t.equal(code, EXIT.done, log)
      t.equal(streams.maxOpen(), most, `${gigabytes} GiB a shard`)
      t.equal(/reducing concurrent streams/.test(log), most < 4)
      await assertComplete(t, scene)
    }
  },
)

t.test(
  'a shard that no memory of the Job is enough for is rejected with the numbers',
  async (t) => {
    const scene = await shardFixture(t, { nodes: 1, shards: 2 })
    for (const shard of scene.engine.collections.get('docs')?.shards ?? []) {
      shard.vectorBytes = 5e12
    }
    const { code, log } = await scene.world.run({}, { memoryBytes: 512 * MIB })
    t.equal(code, EXIT.failed)
    t.match(log, /may have 4.5 TiB and needs parts of 477 MiB .*limits.memory to 1.1 GiB or more/)
    t.strictSame(
      scene.keys().filter((key) => key.endsWith('.snapshot')),
      [],
    )
    t.equal(scene.store().uploads.size, 0)
  },
)

t.test('shards without a size in the engine’s telemetry are backed up', async (t) => {
  const scene = await shardFixture(t, { nodes: 2, shards: 4 })
  scene.nodes.forEach((node) => {
    node.misbehave(({ path, query }) =>
      // The question for sizes; that for the identity of a collection names no time limit.
      path[0] === 'telemetry' && 'timeout' in query ? UNAVAILABLE : undefined,
    )
  })
  const { code, log } = await scene.world.run({}, { memoryBytes: 512 * MIB })
  t.equal(code, EXIT.done, log)
  await assertComplete(t, scene)
})

t.test('under custom sharding the manifest has keys, ids and points of each key', async (t) => {
  const { engine, world, manifest } = await shardFixture(t, { engineCollections: [], nodes: 2 })
  engine.createCollection('docs')
  const docs = engine.collections.get('docs')
  if (docs === undefined) throw new Error('there is no collection')
  docs.config.params['sharding_method'] = 'custom'
  docs.shards = [
    { id: 1, key: 'a', peers: [engine.peer(0).id] },
    { id: 3, key: 7, peers: [engine.peer(1).id] },
  ]
  docs.points.push({ id: 1, vector: [1], payload: {}, shard_key: 'a' })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  matchWhole(t, parseManifest(manifest()).collections[0], {
    shardKeys: [
      { key: 'a', shardIds: [1], exactPointsCount: 1 },
      { key: 7, shardIds: [3], exactPointsCount: 0 },
    ],
    snapshots: [
      { shardId: 1, shardKey: 'a', nodeIndex: 0, pointsCount: 1 },
      { shardId: 3, shardKey: 7, nodeIndex: 1, pointsCount: 0 },
    ],
  })
})

t.test('an object of another program that appears in the folder is not deleted', async (t) => {
  const { world, store, s3, keys } = await shardFixture(t, { nodes: 1, snapshotBytes: 9 * MIB })
  const [foreign, stale] = ['shard-notes.txt', 'shard-9/docs-9-00000000.snapshot'].map(
    (name) => `nightly/b/docs/${name}`,
  )
  s3.misbehave(({ operation }) => {
    if (operation === 'CreateMultipartUpload')
      for (const key of [foreign, stale]) store().put(key ?? '', Buffer.from('x'))
    return undefined
  })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  t.ok(keys().includes(foreign ?? ''), 'it stays')
  t.notOk(keys().includes(stale ?? ''), 'an object of a shard that is gone does not')
})

t.test('a killed Job skips the shards that are whole', async (t) => {
  const scene = await shardFixture(t, {
    nodes: 2,
    shards: 4,
    parallelism: 1,
    snapshotBytes: 9 * MIB,
  })
  const { s3, store, world } = scene
  const reached = Promise.withResolvers<undefined>()
  const never = Promise.withResolvers<undefined>()
  let uploads = 0
  s3.misbehave(({ operation }) => {
    if (operation !== 'CompleteMultipartUpload' || ++uploads < 3) return undefined
    reached.resolve(undefined)
    return { after: never.promise }
  })
  const { child } = world.start()
  await reached.promise
  child.kill('SIGKILL')
  await once(child, 'close')
  never.resolve(undefined)
  s3.misbehave()
  t.equal(store().uploads.size, 1, 'it left an upload')
  s3.calls.length = 0
  const { code, log } = await world.run({}, { pod: 'pod-2', time: systemClock })
  t.equal(code, EXIT.done, log)
  const moved = s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload')
  t.equal(moved.length, 2, 'the one it was killed at, and the one that it had not begun')
  await assertComplete(t, scene)
})

t.test('SIGTERM aborts every upload that is open, and is a crash', async (t) => {
  const { s3, store, world } = await shardFixture(t, { snapshotBytes: 20 * MIB })
  const never = Promise.withResolvers<undefined>()
  const reached = Promise.withResolvers<undefined>()
  const begun = new Set<string>()
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'UploadPart') return undefined
    if (begun.add(key).size === 2) reached.resolve(undefined)
    return { after: never.promise }
  })
  const { child } = world.start()
  await reached.promise
  child.kill('SIGTERM')
  const [code] = (await once(child, 'close')) as [number]
  t.equal(code, EXIT.crash)
  t.equal(store().uploads.size, 0)
  never.resolve(undefined)
})
