/** How large the next page may be, from the pages before it. */
import t from 'tap'
import { MAX_BUFFERED_BYTES, PageSizer } from '../../../jobs/migration/page-reader.ts'

const MIB = 1024 * 1024

function limitsOf({ limit, byteLimit, maxBytes }: PageSizer) {
  return { limit, byteLimit, maxBytes }
}

t.test('only a single point with the whole budget is read whatever its size', async (t) => {
  const size = new PageSizer(100, 2 * MIB)
  const first = { limit: 1, byteLimit: 4 * MIB }
  t.strictSame(limitsOf(size), { ...first, maxBytes: 4 * MIB })
  t.ok(size.onTooLarge(first))
  const whole = { limit: 1, byteLimit: MAX_BUFFERED_BYTES }
  t.strictSame(limitsOf(size), { ...whole, maxBytes: Infinity })
  t.notOk(size.onTooLarge(whole), 'nothing is left to try')
})

t.test('several points are read up to the limit, also up to the whole budget', async (t) => {
  const size = new PageSizer(100, 20 * MIB)
  t.equal(size.byteLimit, MAX_BUFFERED_BYTES)
  size.observe({ points: [], count: 1, bytes: MIB })
  t.strictSame(limitsOf(size), {
    ...{ limit: 4, byteLimit: MAX_BUFFERED_BYTES },
    maxBytes: MAX_BUFFERED_BYTES,
  })
})
