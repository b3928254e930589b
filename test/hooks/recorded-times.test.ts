import t from 'tap'
import { isFromTheFuture, isRecent } from '../../hooks/conditions.ts'

t.test('a time is recent from its own millisecond until its age is reached', async (t) => {
  const ages = [-1, 0, 1, 99, 100, 101]
  t.strictSame(
    ages.map((age) => isRecent(5000, 100, 5000 + age)),
    [false, true, true, true, false, false],
  )
  t.equal(isRecent(-Infinity, 100, 0), false, 'nothing was recorded yet')
  t.equal(isRecent(5000, 0, 5000), false, 'no age is allowed')
})

t.test('a time is from the future if it is ahead by more than the tolerance', async (t) => {
  t.strictSame(
    [-1, 0, 1].map((ahead) => isFromTheFuture(5000 + ahead, 5000)),
    [false, false, true],
  )
  t.strictSame(
    [59, 60, 61].map((ahead) => isFromTheFuture(5000 + ahead, 5000, 60)),
    [false, false, true],
  )
})
