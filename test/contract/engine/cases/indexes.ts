/** Payload indexes: facts section 4. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { VECTORS, created } from './making.ts'

type Read = { result?: { payload_schema: Record<string, unknown> } }

function schemaOf(answer: unknown): Record<string, unknown> {
  return (answer as Read).result?.payload_schema ?? {}
}

/** The schema that a node with the shard shows, once every node has this many indexes. */
async function schema(stage: Stage, fits: (schema: Record<string, unknown>) => boolean) {
  const holder = (await holders(stage, 'docs')).indexOf(true)
  for (let node = 0; node < stage.nodes; node += 1) {
    const { body } = await stage.awaited('/collections/docs', (seen) => fits(schemaOf(seen)), {
      node,
    })
    if (node === holder) stage.note('payload_schema', schemaOf(body))
  }
}

/** Whether each node has a shard of the collection. */
async function holders(stage: Stage, name: string): Promise<boolean[]> {
  const nodes = Array.from({ length: stage.nodes }, (_, node) => node)
  const answers = await Promise.all(
    nodes.map((node) => stage.ask('GET', `/collections/${name}/cluster`, { node })),
  )
  return answers.map(
    ({ body }) => (body as { result: { local_shards: unknown[] } }).result.local_shards.length > 0,
  )
}

function put(stage: Stage, name: string, schema: unknown, wait = false) {
  const body = { field_name: name, field_schema: schema }
  return stage.call('PUT', `/collections/docs/index?wait=${wait}`, { body })
}

/** Calls a node with the shard: values that another node passes on to it may change on the way. */
async function putOnHolder(stage: Stage, name: string, schema: unknown, wait = false) {
  const node = (await holders(stage, 'docs')).indexOf(true)
  const body = { field_name: name, field_schema: schema }
  const path = `/collections/docs/index?wait=${wait}`
  const { status, body: answer } = await stage.ask('PUT', path, { body, node })
  stage.note(name, { schema, status, answer })
}

const SCHEMAS: Record<string, unknown> = {
  keyword: 'keyword',
  integer: 'integer',
  float: 'float',
  geo: 'geo',
  text: 'text',
  bool: 'bool',
  datetime: 'datetime',
  uuid: 'uuid',
  keyword_object: { type: 'keyword' },
  tenant: { type: 'keyword', is_tenant: true, on_disk: true, enable_hnsw: false },
  unknown_param: { type: 'keyword', typo: 1 },
  integer_object: { type: 'integer' },
  range_only: { type: 'integer', range: true, lookup: false, is_principal: true },
  float_object: { type: 'float', on_disk: true },
  datetime_object: { type: 'datetime', is_principal: false },
  uuid_object: { type: 'uuid', is_tenant: false },
  geo_object: { type: 'geo', on_disk: true },
  bool_object: { type: 'bool', on_disk: false },
  text_object: { type: 'text' },
  text_full: {
    type: 'text',
    tokenizer: 'prefix',
    min_token_len: 2,
    max_token_len: 20,
    lowercase: false,
    phrase_matching: true,
    ascii_folding: true,
    on_disk: true,
    stopwords: 'en',
    stemmer: { type: 'snowball', language: 'de' },
  },
  text_stopwords: {
    type: 'text',
    tokenizer: 'multilingual',
    stopwords: { languages: ['german', 'en'], custom: ['b', 'a'] },
    enable_hnsw: true,
  },
}

export const INDEXES: Case[] = [
  {
    title: 'every type of index, bare or with parameters, is shown in its normal form',
    async play(stage) {
      // Of several shards, one on another node may answer first, and shows its values in the form that is sent.
      await created(stage, 'docs', { ...VECTORS, shard_number: 1 })
      for (const [name, requested] of Object.entries(SCHEMAS)) {
        await putOnHolder(stage, name, requested)
      }
      await schema(stage, (live) => Object.keys(live).length === Object.keys(SCHEMAS).length)
    },
  },
  {
    title:
      'a node without a shard of a collection shows stop words as lists that are not empty, no empty metadata, and one limit with 32 bits',
    sizes: ['three'],
    async play(stage) {
      await created(stage, 'docs', {
        ...VECTORS,
        shard_number: 1,
        hnsw_config: { m: 8, payload_m: 0, on_disk: false },
        quantization_config: { scalar: { type: 'int8', quantile: 0.9 } },
        optimizers_config: { deleted_threshold: 0.3, max_segment_size: null },
        strict_mode_config: { enabled: false, max_query_limit: 5, search_max_oversampling: 1.1 },
        metadata: {},
      })
      const schemas: Record<string, unknown> = {
        ...SCHEMAS,
        text_no_words: { type: 'text', stopwords: { languages: [], custom: [] } },
        text_languages: { type: 'text', stopwords: { languages: ['en', 'de'] } },
        text_words: { type: 'text', stopwords: { languages: [], custom: ['b', 'a'] } },
      }
      for (const [name, requested] of Object.entries(schemas))
        await putOnHolder(stage, name, requested, true)
      const isHolder = await holders(stage, 'docs')
      for (const [who, node] of [
        ['with the shard', isHolder.indexOf(true)],
        ['without it', isHolder.indexOf(false)],
      ] as const) {
        const { body } = await stage.awaited(
          '/collections/docs',
          (seen) => Object.keys(schemaOf(seen)).length === Object.keys(schemas).length,
          { node },
        )
        const { config, payload_schema } = (body as { result: Record<string, unknown> }).result
        stage.note(who, { config, payload_schema })
      }
    },
  },
  {
    title: 'a bad schema of an index is refused',
    async play(stage) {
      await created(stage, 'docs')
      await put(stage, 'f', 'nope')
      await put(stage, 'f', { type: 'nope' })
      await put(stage, 'f', {})
      await put(stage, 'f', { type: 'keyword', on_disk: 'x' })
      await put(stage, 'f', { type: 'integer', lookup: false, range: false })
      await put(stage, 'f', { type: 'text', tokenizer: 'nope' })
      await put(stage, 'f', { type: 'text', stopwords: 'klingon' })
      await stage.call('PUT', '/collections/docs/index', { body: { field_name: 'f' } })
      await stage.call('PUT', '/collections/docs/index', { body: { field_schema: 'keyword' } })
      await stage.call('PUT', '/collections/none/index', {
        body: { field_name: 'f', field_schema: 'keyword' },
      })
      await schema(stage, () => true)
    },
  },
  {
    title: 'fields are JSON paths, shown with quotes only where they are needed',
    async play(stage) {
      await created(stage, 'docs')
      const fields = ['a.b', 'a."c"', '"x y".z', 'list[].x', 'ü', 'a-b_c', '"plain"', 'list[0]']
      for (const field of fields) await put(stage, field, 'keyword', true)
      for (const field of ['', 'a b', '.a', 'a..b', 'a[', '[].a', 'a/b', 'a%b']) {
        const body = { field_name: field, field_schema: 'keyword' }
        const { status, body: answer } = await stage.ask('PUT', '/collections/docs/index', { body })
        stage.note(field, { status, answer })
      }
      await schema(stage, (live) => Object.keys(live).length >= 8)
    },
  },
  {
    title: 'creating the same index again changes nothing, another type or parameter replaces it',
    async play(stage) {
      await created(stage, 'docs')
      await put(stage, 'f', 'keyword', true)
      await put(stage, 'f', 'keyword', true)
      await schema(stage, ({ f }) => f !== undefined)
      await put(stage, 'f', { type: 'keyword' }, true)
      await schema(stage, ({ f }) => f !== undefined)
      await put(stage, 'f', { type: 'keyword', is_tenant: true }, true)
      await schema(stage, ({ f }) => JSON.stringify(f).includes('is_tenant'))
      await put(stage, 'f', 'integer', true)
      await schema(stage, ({ f }) => JSON.stringify(f).includes('integer'))
    },
  },
  {
    title:
      'at the limit of strict mode no index is created, not even an existing one; it may be lowered',
    async play(stage) {
      await created(stage, 'docs')
      const limit = (max_payload_index_count: number) =>
        stage.call('PATCH', '/collections/docs', {
          body: { strict_mode_config: { enabled: true, max_payload_index_count } },
        })
      await limit(2)
      await put(stage, 'a', 'keyword', true)
      await put(stage, 'b', 'keyword', true)
      await schema(stage, ({ b }) => b !== undefined)
      await put(stage, 'b', 'keyword', true)
      await put(stage, 'c', 'keyword', true)
      await limit(3)
      await put(stage, 'b', 'keyword', true)
      await put(stage, 'c', 'keyword', true)
      await schema(stage, ({ c }) => c !== undefined)
      await limit(1)
    },
  },
  {
    title: 'DELETE of an index is 200 whether it exists or not',
    async play(stage) {
      await created(stage, 'docs')
      await put(stage, '"x y".c', 'keyword', true)
      await put(stage, 'kept', 'keyword', true)
      const path = `/collections/docs/index/${encodeURIComponent('"x y".c')}?wait=true`
      await stage.call('DELETE', path)
      await stage.call('DELETE', path)
      await stage.call('DELETE', '/collections/none/index/f')
      await schema(stage, (live) => Object.keys(live).length === 1)
    },
  },
]
