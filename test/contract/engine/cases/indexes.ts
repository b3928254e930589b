/** Payload indexes: facts section 4. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'

type Read = { result?: { payload_schema: Record<string, unknown> } }

function schemaOf(answer: unknown): Record<string, unknown> {
  return (answer as Read).result?.payload_schema ?? {}
}

/** The schema on every node, once it has this many indexes. */
async function schema(stage: Stage, fits: (schema: Record<string, unknown>) => boolean) {
  for (let node = 0; node < stage.nodes; node += 1) {
    const { body } = await stage.awaited('/collections/docs', (seen) => fits(schemaOf(seen)), {
      node,
    })
    if (node === 0) stage.note('payload_schema', schemaOf(body))
  }
}

function put(stage: Stage, name: string, schema: unknown, wait = false) {
  const body = { field_name: name, field_schema: schema }
  return stage.call('PUT', `/collections/docs/index?wait=${wait}`, { body })
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
      await created(stage, 'docs')
      for (const [name, requested] of Object.entries(SCHEMAS)) await put(stage, name, requested)
      await schema(stage, (live) => Object.keys(live).length === Object.keys(SCHEMAS).length)
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
