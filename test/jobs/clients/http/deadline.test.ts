/** Time limits of calls that move bytes. */
import t from 'tap'
import { MAX_TIMER_MS, longCallTimeoutMs } from '../../../../jobs/clients/http/request.ts'

const HOUR_MS = 3_600_000
const GIB = 1024 ** 3

t.test('a call that moves bytes has an hour, and what they take at 1 MiB/s', async (t) => {
  t.equal(longCallTimeoutMs(), HOUR_MS)
  t.equal(longCallTimeoutMs(GIB), HOUR_MS + 1024 ** 2)
  t.ok(longCallTimeoutMs(360 * GIB) > 100 * HOUR_MS, 'a node of 360 GiB has more than four days')
})

t.test('no limit is more than a timer can have', async (t) => {
  t.equal(longCallTimeoutMs(Number.MAX_SAFE_INTEGER), MAX_TIMER_MS)
})
