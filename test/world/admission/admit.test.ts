import t from 'tap'
import { matchWhole } from '../../match-whole.ts'
import { admit } from './admit.ts'
import { Invalid } from './invalid.ts'
import type { Schema } from './structure.ts'

const apiVersion = 'test.dev/v1'

/** The stored form of a spec under a schema; `before` makes it an update. */
function admitted(spec: Schema, value: unknown, before?: unknown): unknown {
  const schema: Schema = { type: 'object', properties: { spec } }
  const crd = {
    spec: {
      group: 'test.dev',
      names: { kind: 'Thing' },
      versions: [{ name: 'v1', schema: { openAPIV3Schema: schema } }],
    },
  }
  const make = (content: unknown) => ({
    apiVersion,
    kind: 'Thing',
    metadata: { name: 'one', labels: { a: 'b' } },
    spec: content,
  })
  const old = before === undefined ? undefined : make(before)
  const { spec: stored, ...rest } = admit(crd, make(value), old) as unknown as { spec: unknown }
  t.strictSame(rest, { apiVersion, kind: 'Thing', metadata: { name: 'one', labels: { a: 'b' } } })
  return stored
}

function causes(spec: Schema, value: unknown, before?: unknown): unknown {
  try {
    return admitted(spec, value, before)
  } catch (error) {
    if (error instanceof Invalid) return error.causes.map((one) => `${one.field}: ${one.message}`)
    throw error
  }
}

const text: Schema = { type: 'string' }
const open: Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }

t.test('unknown fields are pruned, but not below a field that preserves them', async (t) => {
  const schema: Schema = { type: 'object', properties: { open, known: text } }
  const value = { known: 'a', unknown: 1, open: { any: { thing: [1] } } }
  t.strictSame(admitted(schema, value), { known: 'a', open: { any: { thing: [1] } } })
})

t.test('a map of any values is kept, and identity in an embedded resource', async (t) => {
  const map: Schema = { type: 'object', additionalProperties: true }
  t.strictSame(admitted(map, { a: 1, b: {} }), { a: 1, b: {} })
  const embedded: Schema = { type: 'object', 'x-kubernetes-embedded-resource': true }
  const value = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' }, spec: {} }
  t.strictSame(admitted(embedded, value), {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'a' },
  })
})

t.test('null is pruned, then defaulted; it stays where it is allowed', async (t) => {
  const schema: Schema = {
    type: 'object',
    properties: {
      a: { ...text, default: 'x' },
      b: text,
      c: { ...text, nullable: true },
      map: { type: 'object', additionalProperties: text },
    },
  }
  const value = { a: null, b: null, c: null, map: { k: null } }
  t.strictSame(admitted(schema, value), { a: 'x', c: null, map: {} })
})

t.test('defaults reach into objects, lists and maps', async (t) => {
  const item: Schema = { type: 'object', properties: { n: { type: 'integer', default: 1 } } }
  const schema: Schema = {
    type: 'object',
    properties: {
      object: { ...item, default: {} },
      list: { type: 'array', items: item },
      map: { type: 'object', additionalProperties: item },
    },
  }
  const value = { list: [{}, { n: 2 }], map: { a: {} } }
  t.strictSame(admitted(schema, value), {
    object: { n: 1 },
    list: [{ n: 1 }, { n: 2 }],
    map: { a: { n: 1 } },
  })
})

t.test('the given object is not changed, and shares nothing with the stored one', async (t) => {
  const given = Object.freeze({ unknown: 1, open: Object.freeze({ a: 1 }) })
  const stored = admitted({ type: 'object', properties: { open } }, given) as { open: object }
  t.strictSame(given, { unknown: 1, open: { a: 1 } })
  t.not(stored.open, given.open)
})

t.test('a message names one cause, or a list of them', async (t) => {
  const schema: Schema = { type: 'object', required: ['a', 'b'] }
  t.throws(() => admitted({ ...schema, required: ['a'] }, {}), {
    message:
      /^Thing.test.dev "one" is invalid: \[spec.a: Required value, <nil>: Invalid value: null: some/,
  })
  const enough: Schema = { type: 'object', ...holds('false', 'it never is') }
  t.throws(() => admitted(enough, {}), {
    status: 422,
    message: 'Thing.test.dev "one" is invalid: spec: Invalid value: "object": it never is',
  })
})

function holds(rule: string, message?: string): Schema {
  return { 'x-kubernetes-validations': [{ rule, ...(message !== undefined && { message }) }] }
}

const REFUSED: [what: string, schema: Schema, value: unknown, cause: RegExp][] = [
  ['a number for an integer', { type: 'integer' }, 1.5, /must be of type integer: "number"/],
  ['a list for an object', { type: 'object' }, [], /must be of type object: "array"/],
  ['a null in a list', { type: 'array', items: text }, [null], /of type string: "null"/],
  ['no time', { ...text, format: 'date-time' }, '2025-01-31', /must be of type date-time/],
  ['too few fields', { ...open, minProperties: 1 }, {}, /should have at least 1 properties/],
  ['a rule without a message', { ...text, ...holds('false') }, 'a', /failed rule: false/],
  ['a rule that cannot be asked', { ...open, ...holds('self.a') }, {}, /evaluating rule: failed/],
]
for (const [what, schema, value, cause] of REFUSED) {
  t.test(`${what} is refused`, async (t) => {
    // Rules about a value of another type are not checked.
    const more = cause.source.includes('of type') ? [/some validation rules were not checked/] : []
    matchWhole(t, causes(schema, value), [cause, ...more])
  })
}

t.test('numbers, times and nullable fields are accepted', async (t) => {
  t.equal(admitted({ type: 'number', ...holds('self < 2.0') }, 1), 1)
  const time: Schema = { ...text, format: 'date-time' }
  const after: Schema = { ...time, ...holds("self > timestamp('2020-01-01T00:00:00Z')") }
  t.equal(admitted(after, '2025-01-31T12:00:00Z'), '2025-01-31T12:00:00Z')
})

t.test('a rule about what was before is asked only in an update', async (t) => {
  const fixed: Schema = { ...text, ...holds('self == oldSelf', 'it is fixed') }
  const schema: Schema = { type: 'object', properties: { a: fixed } }
  t.strictSame(causes(schema, { a: 'x' }), { a: 'x' })
  t.strictSame(causes(schema, { a: 'x' }, {}), { a: 'x' }, 'unset before')
  t.strictSame(causes(schema, { a: 'x' }, { a: 'y' }), [
    'spec.a: Invalid value: "string": it is fixed',
  ])
})

t.test('an item is the same as before only in a list of type map', async (t) => {
  const fixed: Schema = { ...text, ...holds('self == oldSelf', 'it is fixed') }
  const items: Schema = { type: 'object', properties: { key: text, value: fixed } }
  const list: Schema = { type: 'array', items }
  const map: Schema = {
    ...list,
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['key'],
  }
  const before = [
    { key: 'a', value: '1' },
    { key: 'b', value: '2' },
  ]
  const now = [
    { key: 'b', value: '3' },
    { key: 'c', value: '4' },
  ]
  t.strictSame(causes(list, now, before), now)
  t.strictSame(causes(map, now, before), ['spec[0].value: Invalid value: "string": it is fixed'])
})

t.test('sets are equal in any order', async (t) => {
  const list: Schema = { type: 'array', items: text, ...holds('self == oldSelf', 'it is fixed') }
  const set: Schema = { ...list, 'x-kubernetes-list-type': 'set' }
  t.strictSame(causes(set, ['a', 'b'], ['b', 'a']), ['a', 'b'])
  matchWhole(t, causes(list, ['a', 'b'], ['b', 'a']), [/it is fixed/])
})

t.test('rules do not see what the schema does not declare', async (t) => {
  const any: Schema = { 'x-kubernetes-preserve-unknown-fields': true }
  const schema: Schema = { type: 'object', properties: { any, open }, ...holds('!has(self.any)') }
  const value = { any: 0.5, open: { a: 1 } }
  t.strictSame(causes(schema, value), value)
})

t.test('a version the CRD does not have is a defect of the caller', async (t) => {
  const crd = { spec: { group: 'test.dev', names: { kind: 'Thing' }, versions: [] } }
  t.throws(() => admit(crd, { apiVersion, kind: 'Thing', metadata: { name: 'a' } }), {
    message: 'the CRD has no version test.dev/v1',
  })
})
