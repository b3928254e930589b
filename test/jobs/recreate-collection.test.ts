/** Bodies that make a collection like one that was read, of each form the engine shows. */
import t from 'tap'
import { fanOutBody, recreateBody } from '../../jobs/recreate-collection.ts'

const vector = { size: 4, distance: 'Dot' }

t.test('the one unnamed vector stays one, without what is unset', async (t) => {
  const live = { ...vector, hnsw_config: {}, quantization_config: null, on_disk: true }
  t.strictSame(recreateBody({ params: { vectors: live } }), {
    vectors: { ...vector, on_disk: true },
  })
})

t.test('a vector may be called "size"', async (t) => {
  const vectors = { size: vector, other: { ...vector, hnsw_config: { m: null } } }
  t.strictSame(recreateBody({ params: { vectors } }), { vectors: { size: vector, other: vector } })
})

t.test('fields that only PATCH accepts are left to PATCH', async (t) => {
  const fanOut = { read_fan_out_factor: 2, read_fan_out_delay_ms: 50 }
  t.strictSame(recreateBody({ params: { shard_number: 1, ...fanOut } }), { shard_number: 1 })
  t.strictSame(fanOutBody({ params: { shard_number: 1, ...fanOut } }), { params: fanOut })
})
