/** Numbers that JavaScript would change are written again as they were read. */
import t from 'tap'
import {
  isExactNumber,
  isSameNumber,
  parseExactJson,
  roundedNumber,
} from '../../../crds/engine/exact-json.ts'
import { isPlainObject, isSameJson } from '../../../crds/engine/plain-object.ts'

t.test('numbers are written again as they were read', (t) => {
  for (const text of [
    '{"metadata":{"a":9007199254740993,"b":-9223372036854775808,"c":18446744073709551615}}',
    '{"metadata":{"a":1.0,"b":-0.0,"c":[1e16,{"d":2.5}],"e":"1.0, 12345678901234567890"}}',
    '{"full_scan_threshold":18446744073709551615,"m":16,"deleted_threshold":0.2}',
    '[9007199254740993]',
    '{"__proto__":{"metadata":{"a":1.0}}}',
  ])
    t.equal(JSON.stringify(parseExactJson(text)), text)
  t.end()
})

t.test('outside of metadata a number that JavaScript holds is one', (t) => {
  const text = '{"quantile":1.0,"size":1e2,"metadata":{"ratio":1.0},"sizes":[9007199254740993,2.0]}'
  const { metadata, sizes, ...rest } = parseExactJson(text) as {
    sizes: unknown[]
    metadata: { ratio: unknown }
  }
  t.strictSame(rest, { quantile: 1, size: 100 })
  t.ok(isExactNumber(sizes[0]))
  t.equal(sizes[1], 2)
  t.ok(isExactNumber(metadata.ratio))
  t.end()
})

t.test('text that is no JSON is rejected, and what is nested too deep is read as usual', (t) => {
  t.throws(() => parseExactJson('{"a":1.0,}'), SyntaxError)
  t.throws(() => parseExactJson('{"a":}'), SyntaxError)
  const depth = 200_000
  const text = `${'['.repeat(depth)} 9007199254740993${']'.repeat(depth)}`
  let value: unknown = parseExactJson(text)
  while (Array.isArray(value)) value = (value as unknown[])[0]
  t.equal(value, 2 ** 53)
  t.end()
})

t.test('such a number is no object, and equals the same number', (t) => {
  const numbers = (text: string) => (parseExactJson(`{"metadata":[${text}]}`) as Numbers).metadata
  const [large, next, whole] = numbers('9007199254740993,9007199254740995,1.0')
  t.notOk(isPlainObject(large))
  if (!isExactNumber(large) || !isExactNumber(whole)) throw new Error('numbers are rounded')
  t.equal(roundedNumber(large), 2 ** 53)
  for (const other of [next, 2 ** 53, '9007199254740993', null])
    t.notOk(isSameNumber(large, other), JSON.stringify(other))
  t.ok(isSameNumber(large, numbers('9007199254740993')[0]))
  t.ok(isSameNumber(whole, 1))
  t.ok(isSameJson({ a: [whole], b: { c: large } }, { b: { c: large }, a: [1] }))
  t.ok(isSameJson(1, whole))
  t.notOk(isSameJson([large], [next]))
  t.notOk(isSameJson([1], [1, 2]))
  t.notOk(isSameJson({ a: 1 }, { b: 1 }))
  t.notOk(isSameJson({ a: 1 }, { a: 1, b: 2 }))
  t.notOk(isSameJson({ a: 1 }, [1]))
  t.ok(isSameJson(null, null))
  t.end()
})

interface Numbers {
  metadata: unknown[]
}
