/** The ledger: which values a copy may have, given its time and what was acknowledged by then. */
import t from 'tap'
import { Ledger } from './ledger.ts'

const point = { collection: 'docs', id: 1 }

t.test(
  'a copy holds the last value acknowledged before it was begun, or one written since',
  async (t) => {
    const ledger = new Ledger()
    ledger.begin(point, 1).acknowledge()
    ledger.begin(point, 2).acknowledge()
    const from = ledger.now()
    ledger.begin(point, 3).acknowledge()
    const to = ledger.now()
    ledger.begin(point, 4).acknowledge()
    t.strictSame([...ledger.allowed(point, from, to)], [2, 3])
    t.strictSame([...ledger.allowed(point, to, to)], [3])
    t.strictSame([...ledger.allowed(point, ledger.now(), Infinity)], [4])
  },
)

t.test('a write in flight at the start may be in the copy or not', async (t) => {
  const ledger = new Ledger()
  ledger.begin(point, 1).acknowledge()
  const write = ledger.begin(point, 2)
  const from = ledger.now()
  write.acknowledge()
  t.strictSame([...ledger.allowed(point, from, ledger.now())], [1, 2])
})

t.test('a write of unknown outcome may show for ever, before and after later ones', async (t) => {
  const ledger = new Ledger()
  ledger.begin(point, 1).acknowledge()
  ledger.begin(point, 2)
  t.strictSame([...ledger.allowed(point, ledger.now(), ledger.now())], [1, 2])
  ledger.begin(point, 3).acknowledge()
  t.strictSame([...ledger.allowed(point, ledger.now(), ledger.now())], [3, 2])
  t.equal(ledger.isUncertain(point), true)
})

t.test('a deletion that was acknowledged stays one', async (t) => {
  const ledger = new Ledger()
  ledger.begin(point, 1).acknowledge()
  const before = ledger.now()
  ledger.begin(point, null).acknowledge()
  const now = ledger.now()
  t.strictSame([...ledger.allowed(point, now, now)], [null])
  t.strictSame([...ledger.allowed(point, before, now)], [1, null])
})

t.test('an id under another shard key, or in another collection, is another point', async (t) => {
  const ledger = new Ledger()
  ledger.begin({ ...point, key: 'a' }, 1).acknowledge()
  const now = ledger.now()
  t.strictSame([...ledger.allowed(point, now, now)], [null])
  t.strictSame([...ledger.allowed({ ...point, key: 'b' }, now, now)], [null])
  t.strictSame([...ledger.allowed({ ...point, collection: 'other', key: 'a' }, now, now)], [null])
  t.strictSame([...ledger.allowed({ ...point, key: 'a' }, now, now)], [1])
  t.equal(ledger.knows(point), false)
  t.equal(ledger.knows({ ...point, key: 'a' }), true)
  t.strictSame(ledger.names('docs'), [{ ...point, key: 'a' }])
})
