import t from 'tap'
import type { IndexInfo, PayloadIndex } from '../../../crds/engine/collections.ts'
import {
  findDuplicateField,
  indexDifferences,
  indexPlan,
} from '../../../hooks/collection/reconcile-indexes.ts'
import { matchWhole } from '../../match-whole.ts'

const NONE: ReadonlySet<string> = new Set()

/** The live forms are those of the real engine 1.18.3. */
const SAME: [string, PayloadIndex['type'], object, IndexInfo][] = [
  ['the bare type', 'keyword', {}, { data_type: 'keyword' }],
  ['a flag that is off by default', 'keyword', { is_tenant: false }, { data_type: 'keyword' }],
  [
    'flags that are on by default',
    'integer',
    { lookup: true, range: true, enable_hnsw: true },
    {
      data_type: 'integer',
      params: { type: 'integer', lookup: null, range: null, is_principal: null },
    },
  ],
  [
    'is_principal false against null',
    'integer',
    { is_principal: false },
    { data_type: 'integer', params: { type: 'integer', is_principal: null } },
  ],
  [
    'text defaults',
    'text',
    { tokenizer: 'word', lowercase: true, phrase_matching: false, ascii_folding: false },
    { data_type: 'text', params: { type: 'text', tokenizer: 'word' } },
  ],
  ['text defaults, shown without params', 'text', { tokenizer: 'word' }, { data_type: 'text' }],
  [
    'a short language name',
    'text',
    { stopwords: 'en' },
    { data_type: 'text', params: { type: 'text', tokenizer: 'word', stopwords: 'english' } },
  ],
  [
    'one language, and lists that hold nothing else',
    'text',
    { stopwords: 'en' },
    { data_type: 'text', params: { stopwords: { languages: ['english'] } } },
  ],
  [
    'lists of stop words, as sets',
    'text',
    { stopwords: { languages: ['de', 'en'], custom: ['b', 'a', 'a'] } },
    {
      data_type: 'text',
      params: { stopwords: { languages: ['english', 'german'], custom: ['a', 'b'] } },
    },
  ],
  [
    'custom stop words only',
    'text',
    { stopwords: { custom: ['a'] } },
    { data_type: 'text', params: { stopwords: { custom: ['a'] } } },
  ],
  [
    'a stemmer',
    'text',
    { stemmer: { type: 'snowball', language: 'en' } },
    { data_type: 'text', params: { stemmer: { type: 'snowball', language: 'english' } } },
  ],
  ['a declared null', 'text', { min_token_len: null }, { data_type: 'text' }],
  ['a type within params', 'text', { type: 'text' }, { data_type: 'text' }],
]

for (const [title, type, params, live] of SAME) {
  t.test(`an index as declared is left alone: ${title}`, async (t) => {
    t.strictSame(indexDifferences({ field: 'f', type, params: { ...params } }, live), [])
  })
}

const OTHER: [string, PayloadIndex['type'], object, IndexInfo, string][] = [
  ['type', 'integer', {}, { data_type: 'keyword' }, 'type'],
  ['a flag', 'keyword', { is_tenant: true }, { data_type: 'keyword' }, 'params.is_tenant'],
  [
    'a flag that is on by default',
    'integer',
    { range: false },
    { data_type: 'integer', params: { range: null } },
    'params.range',
  ],
  [
    'tokenizer',
    'text',
    { tokenizer: 'prefix' },
    { data_type: 'text', params: { tokenizer: 'word' } },
    'params.tokenizer',
  ],
  [
    'another language',
    'text',
    { stopwords: 'de' },
    { data_type: 'text', params: { stopwords: 'english' } },
    'params.stopwords.languages',
  ],
  [
    'lists of other languages',
    'text',
    { stopwords: { languages: ['de'], custom: ['a'] } },
    { data_type: 'text', params: { stopwords: { languages: ['english'], custom: ['a'] } } },
    'params.stopwords.languages',
  ],
  [
    'other stop words of the same languages',
    'text',
    { stopwords: { languages: ['en'], custom: ['a'] } },
    { data_type: 'text', params: { stopwords: { languages: ['english'], custom: ['b'] } } },
    'params.stopwords.custom',
  ],
  [
    'the short name of a language outside stop words and stemmers',
    'text',
    { other: { language: 'en' } },
    { data_type: 'text', params: { other: { language: 'english' } } },
    'params.other.language',
  ],
  [
    'another stemmer',
    'text',
    { stemmer: { type: 'snowball', language: 'de' } },
    { data_type: 'text', params: { stemmer: { type: 'snowball', language: 'english' } } },
    'params.stemmer.language',
  ],
]

for (const [title, type, params, live, path] of OTHER) {
  t.test(`an index that differs is re-made: ${title}`, async (t) => {
    const index = { field: 'f', type, params: { ...params } }
    t.strictSame(
      indexDifferences(index, live).map((difference) => difference.path),
      [`payloadIndexes[f].${path}`],
    )
    const plan = indexPlan([index], { f: live }, { managed: ['f'], ignored: NONE })
    t.strictSame(plan.remake, [index])
  })
}

const keyword = (field: string): PayloadIndex => ({ field, type: 'keyword', params: {} })

t.test(
  'payload indexes are announced before they are created, so that no crash loses whose they are',
  async (t) => {
    const first = indexPlan([keyword('"a"')], {}, { managed: [], ignored: NONE })
    matchWhole(t, first, { announce: [keyword('"a"')], create: [], managed: ['a'] })
    const second = indexPlan([keyword('"a"')], {}, { managed: ['a'], ignored: NONE })
    matchWhole(t, second, { announce: [], create: [keyword('"a"')], managed: ['a'] })
  },
)

t.test('an index is removed only if this resource made it', async (t) => {
  const live = { mine: { data_type: 'keyword' }, theirs: { data_type: 'keyword' } }
  const plan = indexPlan([], live, { managed: ['mine', 'gone'], ignored: NONE })
  t.strictSame(plan.remove, ['mine'])
  t.strictSame(plan.managed, [])
})

t.test(
  'an index of others that fits is not managed; one that differs is announced, then replaced',
  async (t) => {
    const live = { a: { data_type: 'keyword' }, b: { data_type: 'integer' } }
    const desired = [keyword('a'), keyword('b')]
    const first = indexPlan(desired, live, { managed: [], ignored: NONE })
    matchWhole(t, first, { announce: [keyword('b')], create: [], remake: [], managed: ['b'] })
    const second = indexPlan(desired, live, { managed: ['b'], ignored: NONE })
    matchWhole(t, second, { announce: [], create: [], remake: [keyword('b')], managed: ['b'] })
  },
)

t.test('a parameter that was ignored before is not tried again', async (t) => {
  const index: PayloadIndex = { field: 'a', type: 'keyword', params: { foo: 1 } }
  const live = { a: { data_type: 'keyword' } }
  const first = indexPlan([index], live, { managed: ['a'], ignored: NONE })
  t.strictSame(first.remake, [index])
  const ignored = new Set(['payloadIndexes[a].params.foo'])
  const plan = indexPlan([index], live, { managed: ['a'], ignored })
  t.strictSame(plan.remake, [])
  t.strictSame(plan.ignored, ['payloadIndexes[a].params.foo'])
})

t.test('two fields that are one to the engine are found', async (t) => {
  t.strictSame(findDuplicateField([keyword('a'), keyword('b'), keyword('"a"')]), ['a', '"a"'])
  t.equal(findDuplicateField([keyword('a'), keyword('b')]), undefined)
})
