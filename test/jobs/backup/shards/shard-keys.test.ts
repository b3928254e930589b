/** `backup run` by shard while the shards of a shard key change. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { ask } from '../../restore/collection-state.ts'
import { onStream, shardFixture } from './fixture.ts'

t.test('a shard is streamed again if its shard key has got another shard since', async (t) => {
  const fixture = await shardFixture(t, { engineCollections: [], nodes: 2 })
  const { engine, world, nodes, manifest } = fixture
  const url = `http://127.0.0.1:${nodes[0]?.port}`
  const vectors = { size: 2, distance: 'Dot' }
  await ask(url, 'PUT', '/collections/keyed', { vectors, sharding_method: 'custom' })
  for (const shard_key of ['a', 'b']) {
    await ask(url, 'PUT', '/collections/keyed/shards', { shard_key })
    const points = Array.from({ length: 20 }, (_, id) => ({ id, vector: [id, 1] }))
    await ask(url, 'PUT', '/collections/keyed/points?wait=true', { points, shard_key })
  }
  const collection = engine.collections.get('keyed')
  const [a, b] = collection?.shards ?? []
  t.ok(a?.key === 'a' && b?.key === 'b')
  const streamed: number[] = []
  onStream(fixture, (shard) => {
    streamed.push(shard)
    // The points that belong to it move from the first shard of its key.
    if (streamed.length === 2 && collection !== undefined && a !== undefined)
      collection.shards = [...collection.shards, { ...a, id: 3 }]
    return undefined
  })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log.slice(-3000))
  const [keyed] = manifest().collections
  t.strictSame(
    keyed?.shards.map(({ shardId, shardKey }) => [shardId, shardKey]),
    [
      [1, 'a'],
      [2, 'b'],
      [3, 'a'],
    ],
  )
  const count = (id: number) => streamed.filter((shard) => shard === id).length
  t.strictSame([count(1), count(2), count(3)], [2, 1, 1])
})
