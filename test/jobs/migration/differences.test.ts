/** Points that differ between the two sides: counted, listed as far as memory allows, described. */
import t from 'tap'
import { Differences } from '../../../jobs/migration/compare-points.ts'
import type { CopyScope } from '../../../jobs/migration/page-reader.ts'

const WHOLE: CopyScope = {} as CopyScope
const KEYED = { shardKey: 'eu' } as CopyScope

t.test('without differences nothing is counted, listed or described', async (t) => {
  const none = new Differences()
  t.equal(none.count('missing', 'different', 'extra'), 0)
  t.ok(none.areListed('missing', 'different', 'extra'))
  t.strictSame(none.ids('missing', 'different', 'extra'), new Map())
  t.strictSame(none.describe(), [])
})

t.test('each kind is counted, listed by scope and described apart', async (t) => {
  const differences = new Differences()
  for (const id of ['5', '7']) differences.add('missing', WHOLE, id)
  differences.add('different', KEYED, '"a"')
  for (const id of ['1', '2', '3', '4']) differences.add('extra', WHOLE, id)
  t.equal(differences.count('missing'), 2)
  t.equal(differences.count('missing', 'different'), 3)
  t.equal(differences.count('missing', 'different', 'extra'), 7)
  t.strictSame(
    differences.ids('missing', 'different'),
    new Map([
      [WHOLE, ['5', '7']],
      [KEYED, ['"a"']],
    ]),
  )
  t.strictSame(differences.describe(), [
    '2 missing on the target (5, 7)',
    '1 different on the target ("a" under shard key "eu")',
    '4 on the target only (1, 2, 3, ...)',
  ])
})

t.test('points of which only the number is known are counted and not listed', async (t) => {
  const differences = new Differences(3)
  t.equal(differences.count('extra'), 3)
  t.equal(differences.unlisted('extra'), 3)
  t.notOk(differences.areListed('missing', 'extra'))
  t.ok(differences.areListed('missing', 'different'))
  t.strictSame(differences.ids('extra'), new Map())
})

t.test('twenty thousand ids of a kind are listed, and further ones counted', async (t) => {
  const differences = new Differences()
  for (let id = 0; id < 20_000; id += 1) differences.add('missing', WHOLE, String(id))
  t.ok(differences.areListed('missing'))
  differences.add('missing', WHOLE, '20000')
  t.equal(differences.count('missing'), 20_001)
  t.equal(differences.unlisted('missing'), 1)
  t.notOk(differences.areListed('missing'))
  t.equal(differences.ids('missing').get(WHOLE)?.length, 20_000)
})
