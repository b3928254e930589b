/** The steps of a resharding, which another process than the engine has to take. */
import t, { type Test } from 'tap'
import { EngineResharding } from '../../../../jobs/clients/engine/resharding.ts'
import { EngineShards } from '../../../../jobs/clients/engine/shards.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ask } from '../../restore/collection-state.ts'
import { engineNodes, outlastsEngine, recordedEngine } from './engine-stage.ts'

const POINTS = 40

/** `docs` of one shard on the first of two nodes. */
async function stage(t: Test) {
  const { cluster, clients, first } = await engineNodes(t, 2)
  cluster.reshardingEnabled = true
  cluster.createCollection('docs', 1)
  const points = Array.from({ length: POINTS }, (_, id) => ({ id, vector: {} }))
  await ask(first.url, 'PUT', '/collections/docs/points?wait=true', { points })
  const [from = 0, to = 0] = clients.map(({ peer }) => peer)
  const [resharding, other] = clients.map(({ engine }) => new EngineResharding(engine))
  const [shards, otherShards] = clients.map(({ engine }) => new EngineShards(engine))
  if (resharding === undefined || shards === undefined) throw new Error('there is no node')
  if (other === undefined || otherShards === undefined) throw new Error('there is one node')
  return { cluster, from, to, resharding, other, shards, otherShards }
}

t.test('a shard is added: it gets its points, and the former shard loses them', async (t) => {
  const { cluster, from, to, resharding, other, shards, otherShards } = await stage(t)
  await resharding.start('docs', { uuid: 'u', direction: 'up', peer: to })
  matchWhole(t, (await shards.placement('docs'))?.resharding_operations, [
    { uuid: 'u', direction: 'up', shard_id: 1, peer_id: to },
  ])
  const moving = await resharding.countBelonging('docs', { shard: 0, to: 1 })
  const remaining = await resharding.countBelonging('docs', { shard: 0, to: 0 })
  t.ok(moving > 0 && remaining > 0)
  t.equal(moving + remaining, POINTS)
  await resharding.stream({ collection: 'docs', shard: 0, toShard: 1, from, to })
  t.equal(await otherShards.countPoints('docs', 1), moving)
  await resharding.finishMigration('docs', 1, to)
  await resharding.commitRead('docs')
  await resharding.commitRead('docs')
  await resharding.commitWrite('docs')
  t.equal(await resharding.clean('docs', 0), true)
  await t.rejects(other.clean('docs', 0), { code: 'EngineError', status: 404 })
  await resharding.finish('docs')
  t.equal(await shards.countPoints('docs', 0), remaining)
  t.equal((await shards.placement('docs'))?.resharding_operations?.length ?? 0, 0)
  t.equal(cluster.collections.get('docs')?.shards.length, 2)
})

t.test('a resharding is aborted until points are read from the new shards', async (t) => {
  const { cluster, from, to, resharding } = await stage(t)
  const begin = async () => {
    await resharding.start('docs', { uuid: 'u', direction: 'up', peer: to })
    await resharding.stream({ collection: 'docs', shard: 0, toShard: 1, from, to })
  }
  await begin()
  t.equal(await resharding.abort('docs'), true)
  t.equal(cluster.collections.get('docs')?.shards.length, 1)
  await begin()
  await resharding.finishMigration('docs', 1, to)
  await resharding.commitRead('docs')
  t.equal(await resharding.abort('docs'), false, 'it has to be completed')
  t.equal(cluster.collections.get('docs')?.shards.length, 2)
  await resharding.commitWrite('docs')
  await resharding.finish('docs')
  await t.rejects(resharding.abort('docs'), { status: 400, message: /not in progress/ })
  cluster.removeCollection('docs')
  await t.rejects(resharding.abort('docs'), { code: 'EngineError', status: 404 })
})

t.test('a cleanup that the engine has not completed has to be asked for again', async (t) => {
  const { engine, calls } = recordedEngine({ status: 'acknowledged' })
  t.equal(await new EngineResharding(engine).clean('a b', 3), false)
  const [call] = calls
  t.match(call?.path, /^\/collections\/a%20b\/shards\/3\/cleanup\?wait=true&/)
  t.ok(outlastsEngine(call), 'the engine gives up before the client')
})

t.test('a step that all nodes agree on waits longer than the engine itself', async (t) => {
  const { engine, calls } = recordedEngine()
  const resharding = new EngineResharding(engine)
  const streamed = { collection: 'docs', shard: 0, toShard: 1, from: 2, to: 3 }
  await resharding.start('docs', { uuid: 'u', direction: 'down', peer: 3 })
  await resharding.stream(streamed)
  await resharding.finishMigration('docs', 1, 3)
  await resharding.commitRead('docs')
  await resharding.commitWrite('docs')
  await resharding.finish('docs')
  await resharding.abort('docs')
  t.strictSame(
    calls.map(({ sent }) => JSON.parse(sent) as object),
    [
      { start_resharding: { uuid: 'u', direction: 'down', peer_id: 3 } },
      {
        replicate_shard: {
          ...{ shard_id: 0, to_shard_id: 1, from_peer_id: 2, to_peer_id: 3 },
          method: 'resharding_stream_records',
        },
      },
      { finish_migrating_points: { shard_id: 1, peer_id: 3 } },
      { commit_read_hash_ring: {} },
      { commit_write_hash_ring: {} },
      { finish_resharding: {} },
      { abort_resharding: {} },
    ],
  )
  for (const call of calls) t.ok(outlastsEngine(call), call.sent)
})
