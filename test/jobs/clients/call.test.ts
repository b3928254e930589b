/** Time limits of calls that move bytes. */
import t from 'tap'
import { LONGEST_MS, longCallMs } from '../../../jobs/clients/call.ts'

const HOUR_MS = 3_600_000
const GIB = 1024 ** 3

t.test('a call that moves bytes has an hour, and what they take at 1 MiB/s', async (t) => {
  t.equal(longCallMs(), HOUR_MS)
  t.equal(longCallMs(GIB), HOUR_MS + 1024 ** 2)
  t.ok(longCallMs(360 * GIB) > 100 * HOUR_MS, 'a node of 360 GiB has more than four days')
})

t.test('no limit is more than a timer can have', async (t) => {
  t.equal(longCallMs(Number.MAX_SAFE_INTEGER), LONGEST_MS)
})
