/** When a declared value equals a live one, and how a difference is reported. */
import t from 'tap'
import {
  formatDifference,
  diffValues,
  findDrift,
  immutableDifferences,
} from '../../../hooks/collection/reconcile-config.ts'
import { config, singleVector, type ConfigOverrides } from './config.ts'
import { collectionSpec, vector } from './stage.ts'

const SAME: [title: string, desired: unknown, live: unknown][] = [
  ['the same word', 'a', 'a'],
  ['nothing that is declared', undefined, 5],
  ['a null within an object, for "do not care"', { a: null }, { a: 5 }],
  ['an empty list and nothing', [], null],
  ['lists of the same members', [{ a: 1 }, 'b'], ['b', { a: 1 }, 'b']],
  ['an object that shows more', { a: 1 }, { a: 1, b: 2 }],
]
for (const [title, desired, live] of SAME) {
  t.test(`no difference: ${title}`, async (t) => {
    t.strictSame(diffValues('strictMode.x', desired, live), [])
  })
}

const OTHER: [title: string, desired: unknown, live: unknown][] = [
  ['an empty word and nothing', '', null],
  ['a list and nothing', ['a'], undefined],
  ['a list and one that has more', ['a'], ['a', 'b']],
  ['a list and a word', ['a'], 'a'],
  ['a number and the same one as text', 1, '1'],
  ['a fraction that was kept in 32 bits', 0.1, Math.fround(0.1)],
  ['false and true', false, true],
]
for (const [title, desired, live] of OTHER) {
  t.test(`a difference: ${title}`, async (t) => {
    t.strictSame(diffValues('strictMode.x', desired, live), [
      { path: 'strictMode.x', desired: desired, live },
    ])
  })
}

t.test('a quantile as text is not the number it reads as', async (t) => {
  const path = 'quantization.scalar.quantile'
  t.strictSame(diffValues(path, '0.99', 0.99), [{ path, desired: '0.99', live: 0.99 }])
})

t.test('a difference is reported with its innermost path and both values', async (t) => {
  const live = { strict_mode_config: {} }
  const strictMode = { limits: { a: { max: 2 } } }
  const [drift] = findDrift(collectionSpec({ strictMode }), config(live))
  t.strictSame(drift?.differences.map(formatDifference), [
    'strictMode.limits.a.max: desired 2, live unset',
  ])
  t.equal(
    formatDifference({ path: 'p', desired: { a: 1 }, live: null }),
    'p: desired {"a":1}, live unset',
  )
})

t.test('equal values are no drift', async (t) => {
  t.strictSame(findDrift(collectionSpec({ hnsw: { m: 16 } }), config({})), [])
  t.equal(findDrift(collectionSpec({ hnsw: { m: 17 } }), config({})).length, 1)
})

t.test('a quantization of another kind is reported as a whole', async (t) => {
  const binary = { quantization_config: { binary: {} } }
  const ignored = (quantization: Record<string, unknown>) =>
    findDrift(collectionSpec({ quantization }), config(binary)).flatMap(({ differences }) =>
      differences.map(formatDifference),
    )
  t.strictSame(ignored({ Disabled: {} }), ['quantization: desired Disabled, live {"binary":{}}'])
  t.strictSame(ignored({ binary: {}, scalar: {} }).length, 1, 'one kind of two is not there')
  t.strictSame(ignored({ binary: {} }), [])
})

const FIXED: [
  title: string,
  spec: Parameters<typeof collectionSpec>[0],
  live: ConfigOverrides,
  lines: string[],
][] = [
  // prettier-ignore
  [
    'the size of a named vector',
    { vectors: [{ ...vector, name: 'a', size: 8 }] },
    { params: { vectors: { a: { size: 4, distance: 'Cosine' } } } },
    ['vectors[a].size: desired 8, live 4'],
  ],
  [
    'a datatype that is there',
    { vectors: [{ ...vector, datatype: 'uint8' }] },
    singleVector({ datatype: 'uint8' }),
    [],
  ],
  [
    'custom sharding that is there',
    { shardingMethod: 'custom' },
    { params: { sharding_method: 'custom' } },
    [],
  ],
  ['no vectors at all', { vectors: [] }, { params: { vectors: {} } }, []],
]
for (const [title, spec, live, lines] of FIXED) {
  t.test(`what is fixed at creation: ${title}`, async (t) => {
    t.strictSame(
      immutableDifferences(collectionSpec(spec), config(live)).map(formatDifference),
      lines,
    )
  })
}

t.test('a spec that names no vectors wants none', async (t) => {
  const spec = collectionSpec()
  delete spec.vectors
  const none = config({ params: { vectors: undefined } })
  t.strictSame(immutableDifferences(spec, none), [])
  t.equal(immutableDifferences(collectionSpec({ vectors: [vector] }), none).length, 1)
})
