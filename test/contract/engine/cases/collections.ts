/** Making, reading and deleting collections: facts sections 2 and 3. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { VECTORS, created, info } from './making.ts'

const FULL = {
  vectors: {
    x: {
      size: 4,
      distance: 'Cosine',
      hnsw_config: { m: 8 },
      quantization_config: { scalar: { type: 'int8', quantile: 0.9 } },
      on_disk: false,
      datatype: 'float16',
      multivector_config: { comparator: 'max_sim' },
    },
    y: { size: 3, distance: 'Manhattan', datatype: 'float32' },
    z: { size: 65_536, distance: 'Euclid', datatype: 'uint8', on_disk: true },
  },
  sparse_vectors: {
    s: { modifier: 'idf', index: { on_disk: true, full_scan_threshold: 100, datatype: 'float16' } },
    t: { modifier: 'none', index: {} },
    u: {},
  },
  shard_number: 2,
  sharding_method: 'auto',
  replication_factor: 2,
  write_consistency_factor: 2,
  on_disk_payload: false,
  hnsw_config: { m: 32, payload_m: 4, typo: 3 },
  wal_config: { wal_capacity_mb: 8 },
  optimizers_config: { max_optimization_threads: 'auto', indexing_threshold: 5, typo: 1 },
  quantization_config: {
    binary: { encoding: 'one_bit', query_encoding: 'default', always_ram: false },
  },
  strict_mode_config: { enabled: true, max_query_limit: 5, typo: 1 },
  metadata: { a: 1 },
  // PATCH only: PUT ignores it.
  read_fan_out_factor: 2,
}

const REFUSED: [string, unknown][] = [
  ['a size of 0', { vectors: { size: 0, distance: 'Cosine' } }],
  ['a size of 65537', { vectors: { size: 65_537, distance: 'Cosine' } }],
  ['an unknown distance', { vectors: { size: 4, distance: 'cosine' } }],
  ['no distance', { vectors: { size: 4 } }],
  ['an unknown datatype', { vectors: { size: 4, distance: 'Dot', datatype: 'float64' } }],
  ['an empty quantization', { quantization_config: {} }],
  ['an unknown quantization', { quantization_config: { ternary: {} } }],
  ['an unknown scalar type', { quantization_config: { scalar: { type: 'int9' } } }],
  ['a quantile of 2', { quantization_config: { scalar: { type: 'int8', quantile: 2 } } }],
  ['an unknown compression', { quantization_config: { product: { compression: 'x7' } } }],
  ['an unknown modifier', { sparse_vectors: { s: { modifier: 'x' } } }],
  ['an unknown sharding method', { sharding_method: 'x' }],
  [
    'one name for a dense and a sparse vector',
    { vectors: { d: { size: 4, distance: 'Dot' } }, sparse_vectors: { d: {} } },
  ],
  ['an empty sparse name', { sparse_vectors: { '': {} } }],
  ['a threshold of 2', { optimizers_config: { deleted_threshold: 2 } }],
  ['a log of 0 MB', { wal_config: { wal_capacity_mb: 0 } }],
  ['a full scan threshold of 1', { hnsw_config: { full_scan_threshold: 1 } }],
  ['few vectors to vacuum', { optimizers_config: { vacuum_min_vector_number: 5 } }],
  [
    'a per-vector ef_construct of 1',
    { vectors: { size: 4, distance: 'Dot', hnsw_config: { ef_construct: 1 } } },
  ],
  ['strict mode with words', { strict_mode_config: { enabled: 'yes' } }],
  ['threads as a word', { optimizers_config: { max_optimization_threads: 'many' } }],
]

export const COLLECTIONS: Case[] = [
  {
    title: 'a collection of one unnamed vector shows defaults, null or nothing for what is not set',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      await stage.call('PUT', '/collections/docs?timeout=20', { body: VECTORS })
      await info(stage, 'docs')
      await stage.call('GET', '/collections')
    },
  },
  {
    title: 'every field of PUT is shown as it was sent, unknown ones are dropped',
    async play(stage) {
      await stage.call('PUT', '/collections/full?timeout=20', { body: FULL })
      await info(stage, 'full')
    },
  },
  {
    title: 'empty objects change nothing, and an empty strict mode is stored',
    async play(stage) {
      const body = {
        hnsw_config: {},
        optimizers_config: {},
        wal_config: {},
        strict_mode_config: {},
        sparse_vectors: { s: { index: {} } },
      }
      await stage.call('PUT', '/collections/empty?timeout=20', { body })
      await info(stage, 'empty')
      await stage.call('PUT', '/collections/typo?timeout=20', {
        body: { strict_mode_config: { typo: 1 } },
      })
      await info(stage, 'typo')
    },
  },
  {
    title: 'null means unset in PUT, and names with _kb or without the s are read too',
    async play(stage) {
      const body = {
        ...VECTORS,
        hnsw_config: { m: null, full_scan_threshold_kb: 77 },
        optimizer_config: { indexing_threshold_kb: 78, max_segment_size_kb: 79 },
        quantization: { scalar: { type: 'int8' } },
        shard_number: null,
        strict_mode_config: null,
        wal_config: null,
      }
      await stage.call('PUT', '/collections/docs?timeout=20', { body })
      await info(stage, 'docs')
    },
  },
  {
    title:
      'a bad value is rejected with its path, or with the name of the type that it does not match',
    async play(stage) {
      for (const [what, body] of REFUSED) {
        const { status, body: answer } = await stage.ask('PUT', '/collections/bad', { body })
        stage.note(what, { status, answer })
      }
      await stage.call('GET', '/collections')
    },
  },
  {
    title: 'names may hold spaces, percent signs and Unicode, not slashes or colons',
    async play(stage) {
      const names = [
        'b %ü',
        'ünï/x',
        'a:b',
        'a|b',
        'a"b',
        'a*b',
        'a?b',
        'a<b',
        'a\\b',
        'x'.repeat(255),
        'x'.repeat(256),
        ' ',
      ]
      for (const name of names) {
        const path = `/collections/${encodeURIComponent(name)}`
        const { status, body } = await stage.ask('PUT', `${path}?timeout=20`, { body: {} })
        stage.note(name, { status, body })
      }
      await stage.call('GET', '/collections')
      await stage.call('GET', `/collections/${encodeURIComponent('b %ü')}/exists`)
      await stage.call('DELETE', `/collections/${encodeURIComponent('b %ü')}`)
    },
  },
  {
    title: 'vector names may hold any characters',
    async play(stage) {
      const names = ['a.b', 'ü 1', '__proto__', 'size', 'x'.repeat(200), 'x'.repeat(201), 'a/b']
      for (const [index, name] of names.entries()) {
        const vectors = JSON.parse(
          `{${JSON.stringify(name)}:{"size":2,"distance":"Dot"}}`,
        ) as object
        const { status, body } = await stage.ask('PUT', `/collections/v${index}?timeout=20`, {
          body: { vectors },
        })
        stage.note(name, { status, body })
      }
    },
  },
  {
    title: 'creating an existing collection is 409, reading a missing one 404, /exists always 200',
    async play(stage) {
      await created(stage, 'docs')
      await stage.call('PUT', '/collections/docs', { body: VECTORS })
      await stage.call('GET', '/collections/none')
      await stage.call('PATCH', '/collections/none', { body: {} })
      await stage.call('GET', '/collections/none/cluster')
      await stage.call('GET', '/collections/none/aliases')
      await stage.call('GET', '/collections/none/exists')
      await stage.call('GET', '/collections/docs/exists')
    },
  },
  {
    title: 'DELETE of a missing collection is 200 with false',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      await created(stage, 'docs')
      await stage.call('DELETE', '/collections/docs?timeout=15')
      await stage.call('DELETE', '/collections/docs?timeout=15')
      for (let node = 0; node < stage.nodes; node += 1) {
        await stage.until(
          '/collections/docs',
          (body) => 'status' in (body as object) && !('result' in (body as object)),
          { node },
        )
      }
    },
  },
  {
    title: 'a per-vector hnsw_config without a known field waits its whole timeout, and is applied',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      const vectors = (hnsw: object) => ({
        vectors: { size: 4, distance: 'Dot', hnsw_config: hnsw },
      })
      await timed(stage, 'PUT', '/collections/empty?timeout=1', vectors({}))
      await stage.until('/collections/empty', (body) => 'result' in (body as object))
      await timed(stage, 'PUT', '/collections/typo?timeout=1', vectors({ typo: 1 }))
      await created(stage, 'docs')
      await timed(stage, 'PATCH', '/collections/docs?timeout=1', {
        vectors: { '': { hnsw_config: {}, on_disk: true } },
      })
      await stage.until('/collections/docs', (body) =>
        JSON.stringify(body).includes('"on_disk":true'),
      )
      await timed(stage, 'PATCH', '/collections/docs?timeout=1', {
        vectors: { '': { hnsw_config: { typo: 1 } } },
      })
      await timed(stage, 'PATCH', '/collections/docs?timeout=15', { vectors: { '': {} } })
    },
  },
]

/** Notes the answer, and for an error whether it took the whole second of the timeout. */
async function timed(stage: Stage, method: string, path: string, body: object): Promise<void> {
  const start = Date.now()
  const { status, body: answer } = await stage.ask(method, path, { body })
  const took = Date.now() - start >= 1000 ? 'its whole timeout' : 'less than its timeout'
  stage.note(`${method} ${path}`, { with: body, status, answer, ...(status !== 200 && { took }) })
}
