import t from 'tap'
import { fromPaths, valueAt, withoutNulls, ownValue } from '../../../crds/engine/plain-object.ts'

t.test('values are put at their paths; the last one at a path counts', async (t) => {
  t.strictSame(
    fromPaths([
      { path: ['a', 'b'], value: 1 },
      { path: ['a', 'c'], value: 2 },
      { path: ['a', 'b'], value: 3 },
    ]),
    { a: { b: 3, c: 2 } },
  )
})

t.test('a field named as JavaScript names the prototype is an ordinary field', async (t) => {
  const whole = fromPaths([{ path: ['__proto__'], value: 1 }])
  t.strictSame(Object.getOwnPropertyDescriptor(whole, '__proto__'), {
    ...{ value: 1, writable: true, enumerable: true, configurable: true },
  })
  t.equal(Object.getPrototypeOf(whole), Object.prototype)
})

t.test('only own fields of objects are read', async (t) => {
  t.equal(ownValue({ a: 1 }, 'a'), 1)
  t.equal(ownValue({}, 'constructor'), undefined)
  for (const value of [null, [1], 'text', undefined]) t.equal(ownValue(value, 'length'), undefined)
  t.equal(valueAt({ a: { b: 1 } }, ['a', 'b']), 1)
  t.equal(valueAt({ a: 1 }, ['a', 'b', 'c']), undefined)
})

t.test('null declares nothing, and an object of undeclared values counts as absent', async (t) => {
  t.strictSame(withoutNulls({ a: null, b: 0, c: false }), { b: 0, c: false })
  for (const value of [undefined, {}, { a: null }]) t.equal(withoutNulls(value), undefined)
})
