/** Answers of the engine are checked where they arrive: what is read of them has its type. */
import { Value } from '@sinclair/typebox/value'
import type { TSchema } from '@sinclair/typebox'
import t from 'tap'
import { Aliases, CollectionInfo, ShardReplicas } from '../../../crds/engine/collections.ts'

const config = { params: {}, hnsw_config: {}, optimizer_config: {} }
const info = { status: 'green', config, payload_schema: {} }
const shard = { shard_id: 0, state: 'Active' }
const replicas = { local_shards: [shard], remote_shards: [shard] }
const alias = { alias_name: 'a', collection_name: 'c' }

const RESPONSES: [name: string, schema: TSchema, taken: object[], refused: object[]][] = [
  [
    'of a collection',
    CollectionInfo,
    [
      info,
      { ...info, points_count: null, indexed_vectors_count: 3, segments_count: 1 },
      { ...info, config: { ...config, quantization_config: null, strict_mode_config: {} } },
      { ...info, payload_schema: { a: { data_type: 'keyword', params: null } } },
      { ...info, payload_schema: { a: { data_type: 'text', params: { type: 'text' } } } },
    ],
    [
      {},
      { ...info, status: 1 },
      { ...info, points_count: '7' },
      { ...info, indexed_vectors_count: 0.5 },
      { ...info, segments_count: {} },
      { ...info, config: {} },
      { ...info, config: { ...config, params: null } },
      { ...info, config: { ...config, quantization_config: 'Disabled' } },
      { ...info, payload_schema: { a: {} } },
      { ...info, payload_schema: { a: { data_type: 'text', params: 'text' } } },
    ],
  ],
  [
    'of aliases',
    Aliases,
    [{ aliases: [] }, { aliases: [alias] }],
    [{}, { aliases: {} }, { aliases: [{}] }, { aliases: [{ ...alias, alias_name: 1 }] }],
  ],
  [
    'of the copies of shards',
    ShardReplicas,
    [replicas, { local_shards: [], remote_shards: [] }],
    [
      {},
      { local_shards: [shard] },
      { ...replicas, local_shards: [{}] },
      { ...replicas, remote_shards: [{ ...shard, shard_id: '0' }] },
      { ...replicas, remote_shards: [{ ...shard, state: 1 }] },
    ],
  ],
]

for (const [name, schema, valid, invalid] of RESPONSES) {
  t.test(`an answer ${name} is taken when what is read of it is there`, async (t) => {
    for (const response of valid) t.ok(Value.Check(schema, response), JSON.stringify(response))
  })
  t.test(`an answer ${name} in which a field has another form is rejected`, async (t) => {
    for (const response of invalid) t.notOk(Value.Check(schema, response), JSON.stringify(response))
  })
}
