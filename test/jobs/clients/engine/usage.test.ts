/** What a node reports about its memory and its shards, and about slow queries. */
import t from 'tap'
import { nodeUsage, unindexedFields } from '../../../../jobs/clients/engine/usage.ts'
import { engineNodes, outlastsEngine, recordedEngine } from './engine-stage.ts'

t.test('a node reports its memory, its cores, and the shards that it holds', async (t) => {
  const { cluster, clients } = await engineNodes(t, 2)
  cluster.createCollection('docs', 2)
  const [shard, elsewhere] = cluster.collections.get('docs')?.shards ?? []
  if (shard !== undefined) shard.vectorBytes = 4096
  t.not(shard?.peers[0], elsewhere?.peers[0])
  cluster.residentBytes = 12345
  const usages = await Promise.all(clients.map(({ engine }) => nodeUsage(engine)))
  const [usage, other] = usages
  t.match(usage, { residentBytes: 12345, cores: 2 })
  t.match(usage?.params.get('docs'), { shard_number: 2 })
  const empty = { collection: 'docs', payloadBytes: 0, points: 0 }
  t.strictSame(usage?.shards, [{ ...empty, shard: 0, vectorBytes: 4096 }])
  t.strictSame(other?.shards, [{ ...empty, shard: 1, vectorBytes: 0 }])
})

t.test('values that the engine does not report are absent or zero', async (t) => {
  const local = { vectors_size_bytes: 5, payloads_size_bytes: null }
  const { engine, calls } = recordedEngine({
    app: { system: null },
    memory: { resident_bytes: null },
    collections: {
      collections: [
        { id: 'a', shards: null },
        { id: 'b', config: { params: { x: 1 } }, shards: [{ id: 3, local }, { id: 4 }] },
      ],
    },
  })
  t.strictSame(await nodeUsage(engine), {
    params: new Map<string, object>([
      ['a', {}],
      ['b', { x: 1 }],
    ]),
    shards: [{ collection: 'b', shard: 3, vectorBytes: 5, payloadBytes: 0, points: 0 }],
  })
  t.match(calls[0]?.path, /\?details_level=3&/, 'the first level with shards')
  t.ok(outlastsEngine(calls[0]), 'the engine gives up before the client')
  const oldest = recordedEngine({ collections: {} })
  t.strictSame(await nodeUsage(oldest.engine), { params: new Map(), shards: [] })
})

t.test('fields that slow queries filter by, and that have no index', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs')
  const docs = cluster.collections.get('docs')
  if (docs !== undefined) docs.slowFields = ['a/b', 'line\nbreak', 'tag']
  if (docs !== undefined) docs.payloadSchema = { tag: { data_type: 'keyword' } }
  t.strictSame(await unindexedFields(first.engine), [
    { collection: 'docs', field: 'a/b' },
    { collection: 'docs', field: 'line\nbreak' },
  ])
  const issues = ['TOO_MANY/docs/x', 'OF UNINDEXED_FIELD/docs/x', 'UNINDEXED_FIELD/docs/', '']
  const other = recordedEngine({ issues: issues.map((id) => ({ id })) })
  t.strictSame(await unindexedFields(other.engine), [], 'other issues are not about an index')
})
