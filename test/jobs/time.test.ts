/** Real time: waits end, at their hour or when they are aborted. */
import t from 'tap'
import { systemTime } from '../../jobs/time.ts'

t.test('a wait takes its time', async (t) => {
  const before = systemTime.now().getTime()
  await systemTime.sleep(20)
  t.ok(systemTime.now().getTime() - before >= 19)
})

t.test("an aborted wait ends with the signal's reason", async (t) => {
  const controller = new AbortController()
  const wait = systemTime.sleep(60_000, controller.signal)
  controller.abort(new Error('SIGTERM'))
  await t.rejects(wait, { message: 'SIGTERM' })
})
