/** The order of ids, and what of a page comes before one. */
import t from 'tap'
import { comparePointIds, isPointId, truncatePage } from '../../../../jobs/clients/engine/points.ts'

const IN_ORDER = [
  ...['0', '9', '10', '9007199254740992', '9007199254740993', '18446744073709551615'],
  '"00000000-0000-4000-8000-000000000000"',
  '"0fffffff-0000-4000-8000-00000000000a"',
  '"a0000000-0000-4000-8000-000000000001"',
]

t.test('numbers come before UUIDs, each in ascending order, also beyond 2^53', async (t) => {
  t.strictSame(IN_ORDER.toReversed().toSorted(comparePointIds), IN_ORDER)
  t.strictSame(
    IN_ORDER.map((id) => comparePointIds(id, id)),
    IN_ORDER.map(() => 0),
  )
  t.ok(IN_ORDER.every(isPointId))
})

for (const text of [
  '-1',
  '1.0',
  '1e3',
  '01',
  '"1"',
  '"A0000000-0000-4000-8000-000000000001"',
  '',
]) {
  t.test(`the order of an id ${text} is not known`, async (t) => t.notOk(isPointId(text)))
}

t.test('the bytes before an id are cut out of a page', async (t) => {
  const items = IN_ORDER.map((id) => `{"payload":{"id":0},"id":${id}}`)
  const text = `[${items.join(', ')}]`
  const page = { points: [Buffer.from(text)], bytes: text.length, count: items.length, next: '"f"' }
  for (const [count, until] of IN_ORDER.entries()) {
    const expected = `[${items.slice(0, count).join(', ')}]`
    const { points, ...rest } = truncatePage(page, until)
    t.equal(Buffer.concat(points).toString(), expected)
    t.strictSame(rest, { bytes: expected.length, count })
  }
})
