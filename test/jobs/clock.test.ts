/** The system clock: waits end in time or when they are aborted. */
import t from 'tap'
import { systemClock } from '../../jobs/clock.ts'

t.test('a wait takes its time', async (t) => {
  const before = systemClock.now().getTime()
  await systemClock.sleep(20)
  t.ok(systemClock.now().getTime() - before >= 19)
})

t.test("an aborted wait ends with the signal's reason", async (t) => {
  const controller = new AbortController()
  const wait = systemClock.sleep(60_000, controller.signal)
  controller.abort(new Error('SIGTERM'))
  await t.rejects(wait, { message: 'SIGTERM' })
})
