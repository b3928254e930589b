/** Collections of every kind that a restore must recover: auto and custom sharding, replication factors 1 and 2. */
import { ask } from './collection-state.ts'

export const NAMES = ['auto', 'keyed', 'my docs%', 'empty']

export async function fill(urls: string[]) {
  const [url = ''] = urls
  await ask(url, 'PUT', '/collections/auto?timeout=60', {
    vectors: {
      a: { size: 4, distance: 'Cosine', on_disk: true },
      b: { size: 8, distance: 'Dot', hnsw_config: { m: 8 } },
    },
    sparse_vectors: { text: {}, other: { index: { on_disk: true }, modifier: 'idf' } },
    shard_number: 4,
    replication_factor: 2,
    write_consistency_factor: 2,
    quantization_config: { scalar: { type: 'int8', always_ram: true } },
    optimizers_config: { indexing_threshold: 5000 },
    strict_mode_config: { enabled: true, max_query_limit: 5000 },
    metadata: { owner: 'search', nothing: null },
  })
  await ask(url, 'PATCH', '/collections/auto', { params: { read_fan_out_factor: 1 } })
  await index(url, 'auto', 'n', { type: 'integer', lookup: true, range: true })
  await index(url, 'auto', 'tag', 'keyword')
  await index(url, 'auto', 'body', { type: 'text', tokenizer: 'word', lowercase: true })
  for (let from = 0; from < 3000; from += 500) {
    const points = Array.from({ length: 500 }, (_, offset) => autoPoint(from + offset))
    await ask(url, 'PUT', '/collections/auto/points?wait=true', `{"points":[${points.join()}]}`)
  }
  await ask(url, 'PUT', '/collections/keyed?timeout=60', {
    vectors: { size: 3, distance: 'Euclid' },
    sharding_method: 'custom',
    shard_number: 1,
    replication_factor: 2,
  })
  const keys = ['a', 'gone', 7, '7'] as const
  for (const shard_key of keys) {
    await ask(url, 'PUT', '/collections/keyed/shards?timeout=60', {
      shard_key,
      shards_number: shard_key === 7 ? 2 : 1,
    })
  }
  await ask(url, 'POST', '/collections/keyed/shards/delete?timeout=60', { shard_key: 'gone' })
  for (const shard_key of ['a', 7, '7']) {
    const points = Array.from({ length: 300 }, (_, id) => ({
      id,
      vector: [id, id / 3, -id],
      payload: { key: String(shard_key), id },
    }))
    await ask(url, 'PUT', '/collections/keyed/points?wait=true', { shard_key, points })
  }
  await ask(url, 'PUT', `/collections/${encodeURIComponent('my docs%')}?timeout=60`, {
    vectors: {
      size: 2,
      distance: 'Manhattan',
      multivector_config: { comparator: 'max_sim' },
    },
    shard_number: 3,
  })
  const points = Array.from({ length: 200 }, (_, id) => ({
    id,
    vector: [
      [id, 1],
      [2, id],
    ],
  }))
  await ask(url, 'PUT', `/collections/${encodeURIComponent('my docs%')}/points?wait=true`, {
    points,
  })
  await ask(url, 'PUT', '/collections/empty?timeout=60', { vectors: { size: 2, distance: 'Dot' } })
  await ask(url, 'POST', '/collections/aliases?timeout=60', {
    actions: [
      { create_alias: { collection_name: 'auto', alias_name: 'live' } },
      { create_alias: { collection_name: 'keyed', alias_name: 'per tenant' } },
    ],
  })
}

function index(url: string, name: string, field_name: string, field_schema: unknown) {
  return ask(url, 'PUT', `/collections/${name}/index?wait=true`, { field_name, field_schema })
}

/** Ids beyond 2^53, UUIDs, payloads of every kind, and points without some of their vectors. */
function autoPoint(n: number): string {
  const id =
    n % 10 === 9
      ? `"${n.toString(16).padStart(8, '0')}-0000-4000-8000-000000000001"`
      : n % 10 === 8
        ? String(9_007_199_254_740_993n + BigInt(n) * 2n)
        : String(n)
  const vector = {
    a: [n, 1, 2, 3].map((value) => value / 7),
    ...(n % 3 === 0 && { b: Array.from({ length: 8 }, (_, i) => i + n / 9) }),
    ...(n % 2 === 0 && { text: { indices: [1, n + 2], values: [0.5, n / 11] } }),
  }
  const payload = {
    n,
    tag: `t${n % 5}`,
    body: `Grüße 😀 number ${n}`,
    deep: { list: [n, null, 1.5] },
  }
  return `{"id":${id},"vector":${JSON.stringify(vector)},"payload":${JSON.stringify(payload)}}`
}
