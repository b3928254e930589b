import t, { Test } from 'tap'
import { matchWhole } from './match-whole.ts'

/** Whether a comparison passes, in a test of its own. */
function matches(found: unknown, pattern: unknown): boolean {
  const own = new Test({ name: 'own' })
  own.resume()
  return matchWhole(own, found, pattern)
}

t.test('fields that the pattern does not name are left out, at every depth', async (t) => {
  const found = { a: 1, b: { c: 'text', d: [{ e: 1, f: 2 }] } }
  t.ok(matches(found, { b: { c: 'text', d: [{ e: 1 }] } }))
  t.ok(matches(found, { a: Number, b: { c: /^te/ } }))
  t.ok(matches(found, { a: 1, b: Object }))
  t.ok(matches({ at: new Map([[1, 2]]) }, { at: new Map([[1, 2]]) }))
  t.ok(matches({}, { a: undefined }))
  t.ok(matches({ a: Object.create(null) as object }, { a: {} }))
})

for (const [what, found, pattern] of [
  ['a longer list', { a: [1, 2] }, { a: [1] }],
  ['a shorter list', [1], [1, 2]],
  ['a list that is not empty', { a: [1] }, { a: [] }],
  ['another order', [1, 2], [2, 1]],
  ['longer text', { a: 'text and more' }, { a: 'text' }],
  ['text instead of a number', { a: '3' }, { a: 3 }],
  ['other text', { a: 'text' }, { a: /^x/ }],
  ['a number where text is matched', { a: 12 }, { a: /1/ }],
  ['a field that is missing', {}, { a: 1 }],
  ['a field that must not be there', { a: 1 }, { a: undefined }],
  ['an object that is not empty', { a: { b: 1 } }, { a: {} }],
  ['another type', { a: '1' }, { a: Number }],
  ['a list instead of an object', { a: [] }, { a: Object }],
  ['nothing', undefined, { a: 1 }],
  ['null', { a: null }, { a: { b: undefined } }],
  ['another map', new Map([[1, 2]]), new Map([[1, 3]])],
] as const) {
  t.test(`${what} does not match`, async (t) => {
    t.equal(matches(found, pattern), false)
  })
}
