/** JSON that is cut where values begin and end, and never parsed. */
import fc from 'fast-check'
import t from 'tap'
import { objectSpans, arraySpans } from '../../../../jobs/clients/engine/json-scanner.ts'

function cut(text: string, start: number, end: number): string {
  return Buffer.from(text).toString('utf8', start, end)
}

/** Written in three ways: as machines write it, with indentation, and with spaces anywhere. */
function written(value: unknown): string[] {
  const plain = JSON.stringify(value)
  return [plain, JSON.stringify(value, undefined, 2), ` ${plain}\t`]
}

t.test('the items of any array are cut where they begin and end', async () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), (values) => {
      for (const text of written(values)) {
        const items = arraySpans(Buffer.from(text)).map(
          ({ start, end }) => JSON.parse(cut(text, start, end)) as unknown,
        )
        if (JSON.stringify(items) !== JSON.stringify(values)) return false
      }
      return true
    }),
  )
})

t.test('the fields of any object are found by their names', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      for (const text of written(object)) {
        const fields = [...objectSpans(Buffer.from(text))].map(
          ([name, { start, end }]) => [name, JSON.parse(cut(text, start, end)) as unknown] as const,
        )
        if (JSON.stringify(fields) !== JSON.stringify(Object.entries(object))) return false
      }
      return true
    }),
  )
})

t.test('a quote ends a text unless an odd number of backslashes stands before it', async () => {
  const text = fc.string({ unit: fc.constantFrom('\\', '"', 'a', '[', '}') })
  fc.assert(
    fc.property(fc.array(text), (texts) => {
      const json = JSON.stringify(texts)
      const cuts = arraySpans(Buffer.from(json)).map(({ start, end }) => json.slice(start, end))
      return JSON.stringify(texts) === `[${cuts.join(',')}]`
    }),
  )
})

t.test('a slice keeps every digit', async (t) => {
  const text = '[18446744073709551615,1.0,-0.0,1e+300,9007199254740993]'
  t.strictSame(
    arraySpans(Buffer.from(text)).map(({ start, end }) => cut(text, start, end)),
    ['18446744073709551615', '1.0', '-0.0', '1e+300', '9007199254740993'],
  )
})

for (const text of [
  '',
  '{}',
  '[1',
  '[1 2]',
  '["a',
  '["a\\"]',
  '[[1',
  '[{"a":[1',
  '[[[1,2',
  '[,]',
  '[{]',
  'null',
]) {
  t.test(`${JSON.stringify(text)} is no array`, async (t) => {
    t.throws(() => arraySpans(Buffer.from(text)), SyntaxError)
  })
}
for (const text of ['', '[]', '{"a"', '{"a" 1}', '{"a":}', '{"a":1 "b":2}']) {
  t.test(`${JSON.stringify(text)} is no object`, async (t) => {
    t.throws(() => objectSpans(Buffer.from(text)), SyntaxError)
  })
}

t.test('arrays of numbers, which are searched and not read, end where they end', async () => {
  const numbers = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }))
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: 'small' },
      numbers,
      fc.array(tie('tree')),
      fc.record({ a: tie('tree'), 'x]': fc.constant('[') }),
    ),
  }))
  fc.assert(
    fc.property(fc.array(tree), (trees) => {
      const text = JSON.stringify(trees)
      const cuts = arraySpans(Buffer.from(text)).map(({ start, end }) => text.slice(start, end))
      return cuts.join('|') === trees.map((value) => JSON.stringify(value)).join('|')
    }),
  )
})
