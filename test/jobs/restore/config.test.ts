/** After a restore over a collection it has the configuration of the backup, or a note names the difference. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import {
  differences,
  indexDifferences,
  patchBody,
  type Config,
} from '../../../jobs/restore/config.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask } from './collection-state.ts'
import { run, runToDone, restoreFixture, type RestoreFixture } from './restore-fixture.ts'

const BODY = {
  vectors: { a: { size: 2, distance: 'Dot' }, b: { size: 3, distance: 'Cosine' } },
  sparse_vectors: { text: {} },
  shard_number: 3,
}

/** The configuration in the backup. */
const RECORDED = {
  ...BODY,
  vectors: {
    a: { ...BODY.vectors.a, on_disk: true, hnsw_config: { m: 24 } },
    b: { ...BODY.vectors.b, quantization_config: { scalar: { type: 'int8' } } },
  },
  sparse_vectors: { text: { modifier: 'idf' } },
  write_consistency_factor: 2,
  replication_factor: 2,
  on_disk_payload: false,
  hnsw_config: { m: 32, ef_construct: 200 },
  optimizers_config: { indexing_threshold: 5000, deleted_threshold: 0.3 },
  quantization_config: { binary: { always_ram: true } },
  strict_mode_config: { enabled: true, max_query_limit: 500 },
  metadata: { owner: 'search', tier: 1 },
}

/** The configuration at the target. */
const CHANGED = {
  ...BODY,
  vectors: {
    a: { ...BODY.vectors.a, on_disk: false, hnsw_config: { m: 8 } },
    b: { ...BODY.vectors.b, quantization_config: { binary: {} } },
  },
  replication_factor: 3,
  hnsw_config: { m: 4 },
  optimizers_config: { indexing_threshold: 1, max_optimization_threads: 2 },
  quantization_config: { scalar: { type: 'int8' } },
  strict_mode_config: { enabled: true, max_query_limit: 10 },
  metadata: { owner: 'another team', secret: 'x' },
}

async function madeAs(url: string, body: object, fields: string[]): Promise<void> {
  await ask(url, 'PUT', '/collections/docs', body)
  for (const field_name of fields) {
    const index = { field_name, field_schema: 'keyword' }
    await ask(url, 'PUT', '/collections/docs/index?wait=true', index)
  }
}

async function configStage(t: Parameters<typeof restoreFixture>[0]): Promise<RestoreFixture> {
  const prepare = (_: unknown, url: string) => madeAs(url, RECORDED, ['tag'])
  return restoreFixture(t, { collections: [], prepare })
}

t.test(
  'a restore over a collection with another configuration sets the one of the backup',
  async (t) => {
    const stood = await configStage(t)
    stood.deleteCollections('docs')
    await madeAs(stood.urls[0] ?? '', CHANGED, [])
    const restore = await stood.world.restore()
    const log = await runToDone(t, restore)
    await stood.assertRestored('docs')
    t.match(log, /applying the configuration of the backup/)
    t.equal((await restore.result()).notes, undefined)
  },
)

t.test('without a difference nothing is set', async (t) => {
  const stood = await configStage(t)
  const restore = await stood.world.restore()
  const log = await runToDone(t, restore)
  t.notMatch(log, /applying the configuration of the backup/)
  t.equal((await restore.result()).notes, undefined)
})

t.test(
  'differences that PATCH cannot change are named, and so is an index that is not in the backup',
  async (t) => {
    const stood = await configStage(t)
    stood.deleteCollections('docs')
    const wal_config = { wal_capacity_mb: 64 }
    const optimizers_config = { ...RECORDED.optimizers_config, max_segment_size: 7000 }
    await madeAs(stood.urls[0] ?? '', { ...RECORDED, wal_config, optimizers_config }, ['other'])
    const restore = await stood.world.restore()
    await runToDone(t, restore)
    const named = [
      'docs differs from the backup in optimizer_config.max_segment_size (7000, not null)',
      'wal_config.wal_capacity_mb (64, not 32)',
      'the payload index of "other" (not in the backup)',
    ]
    t.strictSame((await restore.result()).notes, [named.join(', ')])
    t.match(await restore.progress(), { message: `Restored 1/1; ${named.join(', ')}` })
  },
)

t.test(
  'a configuration that the engine rejects is noted and does not fail the restore',
  async (t) => {
    const stood = await configStage(t)
    stood.deleteCollections('docs')
    await madeAs(stood.urls[0] ?? '', { ...RECORDED, on_disk_payload: true }, ['tag'])
    const body = JSON.stringify({ status: { error: 'Wrong input: not that' } })
    const headers = { 'content-type': 'application/json' }
    stood.nodes[0]?.misbehave((request) =>
      request.method === 'PATCH' && JSON.stringify(request.body).includes('on_disk_payload')
        ? { status: 400, body, headers }
        : undefined,
    )
    const restore = await stood.world.restore()
    await runToDone(t, restore)
    matchWhole(t, await restore.result(), {
      notes: ['docs differs from the backup in params.on_disk_payload (true, not false)'],
    })
  },
)

for (const [where, limit] of [
  ['over a collection', 2],
  ['into a new collection', 1],
] as const) {
  t.test(`indexes are restored ${where} whose strict mode allows ${limit}`, async (t) => {
    const prepare = async (_: unknown, url: string) => {
      await madeAs(url, BODY, ['tag', 'other'])
      const strict_mode_config = { enabled: true, max_payload_index_count: limit }
      await ask(url, 'PATCH', '/collections/docs', { strict_mode_config })
    }
    const stood = await restoreFixture(t, { collections: [], prepare })
    if (where === 'into a new collection') stood.deleteCollections('docs')
    const restore = await stood.world.restore()
    await runToDone(t, restore)
    await stood.assertRestored('docs')
    t.equal((await restore.result()).notes, undefined)
  })
}

t.test('an index whose creation was not answered is not created again at the limit', async (t) => {
  const stood = await restoreFixture(t, {
    collections: [],
    prepare: (_, url) =>
      madeAs(url, { ...BODY, strict_mode_config: { enabled: true, max_payload_index_count: 1 } }, [
        'tag',
      ]),
  })
  stood.deleteCollections('docs')
  let lost = 1
  stood.nodes[0]?.misbehave(({ method, path }) =>
    method === 'PUT' && path[2] === 'index' && lost-- > 0 ? { cut: 'after' } : undefined,
  )
  await runToDone(t, await stood.world.restore())
  t.ok(lost <= 0)
  await stood.assertRestored('docs')
})

for (const [where, prepare] of [
  ['in a collection that is created', undefined],
  [
    'over a collection that has others',
    '{"metadata":{"id":9007199254740992,"ratio":2.0,"other":7}}',
  ],
] as const) {
  t.test(`numbers of a configuration are restored as users wrote them ${where}`, async (t) => {
    const metadata =
      '{"id":9007199254740993,"ratio":1.0,"whole":1,"nested":[{"least":-9223372036854775808}]}'
    const limits = '{"max_points_count":18446744073709551615}'
    const body = `{"vectors":{"size":2,"distance":"Dot"},"metadata":${metadata},"strict_mode_config":${limits}}`
    const { urls, world, deleteCollections } = await restoreFixture(t, {
      collections: [],
      prepare: (_, url) => ask(url, 'PUT', '/collections/docs', body),
    })
    const [url = ''] = urls
    if (prepare === undefined) deleteCollections('docs')
    else await ask(url, 'PATCH', '/collections/docs', prepare)
    const restore = await world.restore()
    await runToDone(t, restore)
    const text = await (await fetch(`${url}/collections/docs`)).text()
    t.ok(text.includes(`"metadata":${metadata}`), text)
    t.ok(text.includes(`"strict_mode_config":${limits}`), text)
    t.match(await restore.progress(), { message: 'Restored 1/1' }, 'without a note')
  })
}

t.test('vectors of another size or datatype are rejected before any change', async (t) => {
  for (const a of [
    { size: 4, distance: 'Dot' },
    { size: 2, distance: 'Dot', datatype: 'float16' },
  ]) {
    const stood = await configStage(t)
    stood.deleteCollections('docs')
    await madeAs(stood.urls[0] ?? '', { ...RECORDED, vectors: { ...RECORDED.vectors, a } }, [])
    const before = JSON.stringify(stood.engine)
    const restore = await stood.world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(await restore.result(), {
      error: /^collection docs is at the target with other vectors/,
    })
    t.equal(JSON.stringify(stood.engine), before)
  }
})

t.test('an unset value equals null, and an open object may have more fields', async (t) => {
  const config = (parts: object): Config => ({
    params: { vectors: { size: 2, distance: 'Dot' } },
    ...parts,
  })
  const none = [
    [{ quantization_config: null }, {}],
    [{ strict_mode_config: {} }, {}],
    [{ hnsw_config: { m: 16 } }, { hnsw_config: { m: 16, newer: true } }],
    [{ metadata: { a: null } }, { metadata: {} }],
  ] as const
  for (const [recorded, live] of none) {
    t.strictSame(differences(config(recorded), config(live)), [], JSON.stringify(recorded))
  }
  const patches = [
    [
      {},
      { quantization_config: { binary: {}, scalar: { type: 'int8' } } },
      { quantization_config: 'Disabled' },
    ],
    [{}, { strict_mode_config: { enabled: true } }, { strict_mode_config: { enabled: false } }],
    [{ metadata: { a: 1 } }, { metadata: { b: 2 } }, { metadata: { a: 1, b: null } }],
    [
      { optimizer_config: { max_optimization_threads: null } },
      { optimizer_config: { max_optimization_threads: 3 } },
      { optimizers_config: { max_optimization_threads: 'auto' } },
    ],
    [{ wal_config: { wal_capacity_mb: 32 } }, { wal_config: { wal_capacity_mb: 64 } }, undefined],
  ] as const
  for (const [recorded, live, body] of patches) {
    t.strictSame(patchBody(differences(config(recorded), config(live))), body)
  }
  const sparse = (modifier: string | null): Config => ({
    params: { sparse_vectors: { text: { modifier, index: { on_disk: true } }, other: null } },
  })
  t.strictSame(differences(sparse('idf'), sparse(null)), [
    {
      path: ['params', 'sparse_vectors', 'text', 'modifier'],
      ...{ recorded: 'idf', live: null },
      patch: { path: ['sparse_vectors', 'text', 'modifier'], value: 'idf' },
    },
  ])
  const single = (on_disk: boolean): Config => ({
    params: { vectors: { size: 2, distance: 'Dot', on_disk } },
  })
  t.strictSame(patchBody(differences(single(true), single(false))), {
    vectors: { '': { on_disk: true } },
  })
})

t.test('the memory of vectors and payloads is that of the backup', async (t) => {
  const config = (vector: object, params: object): Config => ({
    params: { vectors: { a: { size: 2, distance: 'Dot', ...vector } }, ...params },
  })
  const recorded = config({ memory: 'cold' }, { payload: { memory: 'cached' } })
  const found = differences(recorded, config({}, {}))
  t.strictSame(patchBody(found), {
    params: { payload: { memory: 'cached' } },
    vectors: { a: { memory: 'cold' } },
  })
  t.strictSame(
    differences(config({}, {}), recorded).map(({ path, live }) => [path.join('.'), live]),
    [
      ['params.vectors.a.memory', 'cold'],
      ['params.payload.memory', 'cached'],
    ],
  )
})

t.test('values that only the way between two nodes has changed do not differ', async (t) => {
  const config = (search_max_oversampling: number): Config => ({
    params: { vectors: { size: 2, distance: 'Dot' } },
    strict_mode_config: { enabled: true, search_max_oversampling },
  })
  t.strictSame(differences(config(1.1), config(Math.fround(1.1))), [])
  t.strictSame(differences(config(Math.fround(1.1)), config(1.1)), [])
  t.strictSame(patchBody(differences(config(Math.fround(1.1)), config(1.2))), {
    strict_mode_config: { search_max_oversampling: 1.1 },
  })
  const index = (stopwords: unknown) => ({ type: 'text', tokenizer: 'word', stopwords })
  const recorded = { body: { dataType: 'text', params: index('english') } }
  const live = (stopwords: unknown) => ({
    body: { data_type: 'text', params: index(stopwords), points: 0 },
  })
  t.strictSame(indexDifferences(recorded, live({ languages: ['english'] })), [])
  t.equal(indexDifferences(recorded, live({ languages: ['german'] })).length, 1)
})

t.test(
  'payload indexes that differ from the backup are named with what is different',
  async (t) => {
    const recorded = {
      same: { dataType: 'keyword', params: { type: 'keyword', is_tenant: null } },
      gone: { dataType: 'keyword' },
      type: { dataType: 'keyword' },
      params: { dataType: 'keyword', params: { type: 'keyword', is_tenant: true } },
    }
    const live = {
      same: { data_type: 'keyword', params: { type: 'keyword' } },
      type: { data_type: 'integer' },
      params: { data_type: 'keyword', params: { type: 'keyword', is_tenant: false } },
      added: { data_type: 'keyword' },
    }
    t.strictSame(indexDifferences(recorded, live), [
      'the payload index of "gone" (missing)',
      'the payload index of "type" (another one)',
      'the payload index of "params" (another one)',
      'the payload index of "added" (not in the backup)',
    ])
  },
)
