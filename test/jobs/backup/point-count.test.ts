/** Points and aliases in a manifest when clients write during the backup. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { aliasChanges } from '../../../jobs/backup/source-cluster.ts'
import { manifestCounts, type ShardCounts } from '../../../jobs/backup/point-count.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import type { EngineCluster } from '../../doubles/engine/cluster.ts'
import { answerAs } from '../../doubles/engine/node.ts'
import { restartCreations } from '../../doubles/engine/snapshots.ts'
import { backupFixture } from './fixture.ts'

/** As a client would, at this very moment. */
function write(engine: EngineCluster, verb: 'PUT' | 'POST delete', body: object): Promise<unknown> {
  const [method = '', ...rest] = verb.split(' ')
  const path = ['collections', 'docs', 'points', ...rest]
  return answerAs(engine, 0, { method, path, query: { wait: 'true' }, body })
}

function points(...ids: number[]) {
  return ids.map((id) => ({ id, vector: {}, payload: {} }))
}

function isSnapshot({ method, path }: EngineRequest): boolean {
  return (
    (method === 'POST' && path.at(-1) === 'snapshots') ||
    (method === 'GET' && path.at(-1) === 'snapshot')
  )
}

const TEN = points(...Array.from({ length: 10 }, (_, id) => id))

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}: without writes the points of each shard are recorded`, async (t) => {
    const { engine, world, manifest } = await backupFixture(t, { method, replicationFactor: 2 })
    await write(engine, 'PUT', { points: TEN })
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log)
    const [docs] = manifest().collections
    t.equal(docs?.exactPointsCount, 10)
    const counts = docs?.shards.map(({ exactPointsCount = -1 }) => exactPointsCount) ?? []
    t.equal(counts.length, 2)
    t.equal((counts[0] ?? 0) + (counts[1] ?? 0), 10)
  })

  t.test(
    `by ${method}: replicas with different points are named, and each count is recorded`,
    async (t) => {
      const { engine, world, manifest } = await backupFixture(t, { method, replicationFactor: 2 })
      await write(engine, 'PUT', { points: TEN })
      const [shard] = engine.collections.get('docs')?.shards ?? []
      if (shard === undefined) throw new Error('there is no shard')
      shard.lost = { 1: 2 }
      const { code, log } = await world.run()
      t.equal(code, EXIT.done, log)
      const [docs] = manifest().collections
      const [differing, equal] = docs?.shards ?? []
      const whole = 10 - (equal?.exactPointsCount ?? 0)
      t.strictSame(differing?.replicaPointsCounts, [
        { nodeIndex: 0, pointsCount: whole },
        { nodeIndex: 1, pointsCount: whole - 2 },
      ])
      t.equal(equal?.replicaPointsCounts, undefined)
      // By shard there is one snapshot: that of the replica it was streamed from.
      const from = docs?.snapshots[0]?.nodeIndex
      const streamed = from === 1 ? whole - 2 : whole
      t.equal(differing?.exactPointsCount, method === 'Shard' ? streamed : undefined)
      t.equal(docs?.exactPointsCount, undefined)
      t.match(await world.progress(), {
        message: `Backed up 1/1 collections; the replicas of shard 0 of docs differ: ${whole} points on node 0, ${whole - 2} on node 1`,
      })
    },
  )

  t.test(
    `by ${method}: a point that is replaced during the backup leaves no count to compare with`,
    async (t) => {
      const { engine, nodes, world, manifest } = await backupFixture(t, { method })
      await write(engine, 'PUT', { points: TEN })
      let snapshots = 0
      for (const node of nodes) {
        node.misbehave((request) => {
          if (isSnapshot(request) && (snapshots += 1) === 1) {
            void write(engine, 'POST delete', { points: [3] })
          } else if (snapshots === 2 && request.path.at(-1) === 'count') {
            void write(engine, 'PUT', { points: points(3) })
          }
          return undefined
        })
      }
      const { code, log } = await world.run()
      t.equal(code, EXIT.done, log)
      t.equal(engine.collections.get('docs')?.points.length, 10, 'as many as before')
      const [docs] = manifest().collections
      t.equal(docs?.exactPointsCount, undefined)
      const counted = docs?.shards.filter(({ exactPointsCount }) => exactPointsCount !== undefined)
      t.equal(counted?.length, 1, 'the other shard took no write')
    },
  )
}

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}: a shard whose node was restarted has no count`, async (t) => {
    const { engine, nodes, world, manifest } = await backupFixture(t, { method })
    await write(engine, 'PUT', { points: TEN })
    const shards = engine.collections.get('docs')?.shards ?? []
    const saved = shards.map(({ operations }) => operations)
    let isRestarted = false
    // After the snapshots. A node saves the number of a write now and then, and counts on from there.
    const restart = async () => {
      await write(engine, 'PUT', { points: points(100, 101, 102, 103) })
      for (const [ordinal, shard] of shards.entries()) {
        if (saved[ordinal] !== undefined) shard.operations = saved[ordinal]
        restartCreations(engine, ordinal)
      }
    }
    for (const node of nodes) {
      node.misbehave(({ path }) => {
        if (path.at(-1) !== 'count' || isRestarted) return undefined
        isRestarted = true
        void restart()
        return undefined
      })
    }
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log)
    t.equal(engine.collections.get('docs')?.points.length, 14)
    const [docs] = manifest().collections
    const counts = docs?.shards.map(({ exactPointsCount }) => exactPointsCount)
    t.strictSame([docs?.exactPointsCount, ...(counts ?? [])], [undefined, undefined, undefined])
  })

  t.test(
    `by ${method}: a snapshot of an earlier pod has no count, for clients wrote in between`,
    async (t) => {
      const { engine, s3, world, manifest } = await backupFixture(t, { method, parallelism: 1 })
      await write(engine, 'PUT', { points: TEN })
      const killed = new AbortController()
      let whole = 0
      s3.misbehave(({ operation, key }) => {
        if (operation === 'PutObject' && key.endsWith('.snapshot') && (whole += 1) === 2) {
          killed.abort(new Error('the pod is ended'))
        }
        return undefined
      })
      t.not((await world.run({}, { signal: killed.signal })).code, EXIT.done)
      s3.misbehave()
      await write(engine, 'PUT', { points: points(...TEN.map(({ id }) => id + 10)) })
      const { code, log } = await world.run({}, { pod: 'pod-2' })
      t.equal(code, EXIT.done, log)
      t.match(log, /already in the bucket/)
      const [docs] = manifest().collections
      t.equal(docs?.exactPointsCount, undefined)
      const counted = docs?.shards.filter(({ exactPointsCount }) => exactPointsCount !== undefined)
      t.equal(counted?.length, 1, 'the shard that this pod took')
    },
  )
}

t.test(
  'an engine that numbers no writes has counts that are likely, and none proven',
  async (t) => {
    const reading = (...counts: number[]): ShardCounts => ({
      points: new Map(counts.entries()),
      writes: new Map(),
    })
    const shards = [0, 1].map((shardId) => ({ shardId, nodes: [0] }))
    const shardKeys = [
      { key: 'a', shardIds: [0] },
      { key: 'b', shardIds: [1] },
    ]
    t.strictSame(manifestCounts({ shards, shardKeys: [] }, reading(4, 5), reading(4, 5)), {
      shards,
      shardKeys: [],
      exactPointsCount: 9,
    })
    t.strictSame(manifestCounts({ shards, shardKeys }, reading(4, 5), reading(4, 6)), {
      shards,
      shardKeys: [{ key: 'a', shardIds: [0], exactPointsCount: 4 }, shardKeys[1]],
    })
  },
)

for (const [from, to] of [
  ['v1', 'v2'],
  ['v2', 'v1'],
] as const) {
  t.test(`an alias that moves from ${from} to ${to} meanwhile is recorded once`, async (t) => {
    const { engine, nodes, world, manifest } = await backupFixture(t, {
      engineCollections: ['v1', 'v2'],
    })
    engine.aliases.set('live', from)
    // Between the first collection and the second.
    nodes[0]?.misbehave(({ method, path }) => {
      if (method === 'POST' && path.join('/') === 'collections/v2/snapshots') {
        engine.aliases.set('live', to)
      }
      return undefined
    })
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log)
    t.strictSame(manifest().aliases, [{ alias: 'live', collection: to }])
    t.strictSame(
      manifest().collections.map(({ name, aliases }) => [name, aliases]),
      [
        ['v1', to === 'v1' ? ['live'] : []],
        ['v2', to === 'v2' ? ['live'] : []],
      ],
    )
    t.match(await world.progress(), {
      message: `Backed up 2/2 collections; alias live moved from ${from} to ${to}`,
    })
  })
}

t.test('the collection of an alias that is created during the backup is named', async (t) => {
  const { engine, nodes, world, manifest } = await backupFixture(t, { engineCollections: ['v1'] })
  engine.aliases.set('live', 'v1')
  nodes[0]?.misbehave(({ method, path }) => {
    if (method !== 'POST' || path.join('/') !== 'collections/v1/snapshots') return undefined
    engine.createCollection('v2', 1, 1)
    engine.aliases.set('live', 'v2')
    return undefined
  })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  t.strictSame(
    manifest().collections.map(({ name }) => name),
    ['v1'],
  )
  t.match(await world.progress(), {
    message:
      'Backed up 1/1 collections; alias live moved from v1 to v2; the collections of these aliases are not in this backup: live of v2',
  })
})

t.test('aliases that were created or deleted meanwhile are named', async (t) => {
  const one = { alias: 'a', collection: 'docs' }
  t.strictSame(aliasChanges([one], [one]), [])
  t.strictSame(aliasChanges([one], []), ['alias a of docs was deleted'])
  t.strictSame(aliasChanges([], [one]), ['alias a was created on docs'])
})

t.test('the aliases of all collections are listed by name', async (t) => {
  const { engine, world, manifest } = await backupFixture(t, { engineCollections: ['v1', 'v2'] })
  for (const [alias, to] of [
    ['b', 'v1'],
    ['c', 'v2'],
    ['a', 'v2'],
  ] as const) {
    engine.aliases.set(alias, to)
  }
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  t.strictSame(manifest().aliases, [
    { alias: 'a', collection: 'v2' },
    { alias: 'b', collection: 'v1' },
    { alias: 'c', collection: 'v2' },
  ])
})
