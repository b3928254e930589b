/** Ids that are kept in few bytes: they come back as they were, in order, and from any range. */
import t from 'tap'
import { comparePointIds } from '../../../jobs/clients/engine/points.ts'
import { CopiedIds, type IdRange } from '../../../jobs/migration/copied-ids.ts'

const uuid = (n: number) => `"${String(n).padStart(8, '0')}-0000-4000-8000-00000000000f"`
const KINDS: [string, string[]][] = [
  ['small numbers', ['0', '1', '127', '128', '129', '16384', '2097152']],
  ['large numbers', ['9007199254740990', '9007199254740991']],
  ['numbers of 64 bits', ['9007199254740993', '18446744073709551615']],
  ['UUIDs', [uuid(1), uuid(2), uuid(30)]],
  ['numbers and UUIDs', ['5', '18446744073709551614', uuid(3)]],
]

for (const [what, ids] of KINDS) {
  t.test(`${what} come back as they were, from any range`, async (t) => {
    const copied = new CopiedIds(true)
    // Another lane is ahead of the first.
    copied.add(undefined, ids.slice(2))
    copied.add(undefined, ids.slice(0, 2))
    copied.add('key', ['77'])
    const between = (bounds: IdRange) => [...copied.between(bounds)]
    t.strictSame(between({}), ids)
    for (const from of ids) {
      const behind = ids.filter((id) => comparePointIds(id, from) >= 0)
      t.strictSame(between({ from }), behind, `from ${from}`)
      const before = ids.filter((id) => comparePointIds(id, from) < 0)
      t.strictSame(between({ until: from }), before, `until ${from}`)
    }
    t.strictSame(between({ shardKey: 'key' }), ['77'])
    t.strictSame(between({ shardKey: 'other' }), [])
    t.ok(copied.isComplete)
  })
}

t.test('a UUID takes about 16 bytes, not the 38 of its text', async (t) => {
  const ids = Array.from({ length: 2_000 }, (_, n) => uuid(n))
  const copied = new CopiedIds(true, 2_000 * 17)
  copied.add(undefined, ids)
  t.ok(copied.isComplete)
  t.strictSame([...copied.between({})], ids)
  copied.add(undefined, ids)
  t.notOk(copied.isComplete, 'that is the bound')
})

t.test('above its bound the list keeps nothing, and reports that it is not complete', async (t) => {
  const copied = new CopiedIds(true, 1_000)
  const ids = Array.from({ length: 200 }, (_, n) => String(n))
  copied.add(undefined, ids)
  t.ok(copied.isComplete, 'numbers in a row take a byte each')
  copied.add(undefined, ids)
  t.notOk(copied.isComplete)
  t.strictSame([...copied.between({})], [])
  t.notOk(new CopiedIds(false).isComplete)
})
