/** A collection has one form, whichever node returned it: the forms are those of engine 1.18.3 in the contract. */
import t from 'tap'
import { canonicalConfig, canonicalIndexParams } from '../../jobs/canonical-config.ts'
import type { PlainObject } from '../../crds/engine/plain-object.ts'

for (const limit of [1.1, 1.5, 0.1, 1, 123.456, 16_777_216, 1e-10, 3.4e38]) {
  t.test(`a limit of ${limit} is the same after it was sent with 32 bits`, async (t) => {
    const config = (search_max_oversampling: number) => ({
      hnsw_config: { m: 16 },
      strict_mode_config: { enabled: true, search_max_oversampling },
    })
    t.strictSame(canonicalConfig(config(limit)), config(limit))
    t.strictSame(canonicalConfig(config(Math.fround(limit))), config(limit))
  })
}

t.test(
  'other values that need 64 bits, and a config without the limit, are not changed',
  async (t) => {
    for (const config of [
      { strict_mode_config: { search_max_oversampling: 1.123456789012 } },
      { strict_mode_config: { other: Math.fround(1.1) } },
      { strict_mode_config: { search_max_oversampling: null } },
      { strict_mode_config: null },
      { optimizer_config: { deleted_threshold: Math.fround(0.2) } },
    ]) {
      t.equal(JSON.stringify(canonicalConfig(config)), JSON.stringify(config))
    }
  },
)

t.test('empty metadata is none', async (t) => {
  const config = { params: {}, strict_mode_config: { search_max_oversampling: 1.1 } }
  const sent = { params: {}, strict_mode_config: { search_max_oversampling: Math.fround(1.1) } }
  t.strictSame(canonicalConfig({ ...sent, metadata: {} }), config)
  for (const metadata of [{ a: null }, null, []]) {
    t.strictSame(canonicalConfig({ ...config, metadata }), { ...config, metadata })
  }
})

for (const [what, stored, sent] of [
  ['one language', 'english', { languages: ['english'] }],
  ['a list of one language', { languages: ['english'], custom: [] }, { languages: ['english'] }],
  ['two languages', { languages: ['english', 'german'] }, { languages: ['english', 'german'] }],
  ['words', { languages: [], custom: ['a'] }, { custom: ['a'] }],
  ['one word with the name of a language', { custom: ['english'] }, { custom: ['english'] }],
  ['no words', { languages: [], custom: [] }, {}],
  ['lists that are null', { languages: null, custom: null }, {}],
] as const) {
  t.test(`stop words that are ${what} have one form`, async (t) => {
    const canonical = (stopwords: unknown) => canonicalIndexParams({ type: 'text', stopwords })
    t.strictSame(canonical(stored), canonical(sent))
    t.equal(canonical(stored)['type'], 'text')
  })
}

t.test('stop words that differ have different forms', async (t) => {
  const forms = [
    'english',
    'german',
    { languages: ['english', 'german'] },
    { languages: ['english'], custom: ['a'] },
    { custom: ['english'] },
    { custom: ['a'] },
    {},
  ].map((stopwords) => JSON.stringify(canonicalIndexParams({ type: 'text', stopwords })))
  t.equal(new Set(forms).size, forms.length)
})

t.test('an index without stop words is not changed', async (t) => {
  const params = { type: 'text', tokenizer: 'word' }
  t.equal(canonicalIndexParams(params), params)
  for (const none of [undefined, null])
    t.equal(canonicalIndexParams<PlainObject | null | undefined>(none), none)
})
