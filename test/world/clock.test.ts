/** The clock of the embedded world moves only when it is advanced. */
import t from 'tap'
import { ManualClock, systemClock } from './clock.ts'

const START = new Date('2030-01-01T00:00:00Z')

t.test('timers run in order, each at its own time, and those they set as well', async (t) => {
  const clock = new ManualClock(START)
  const seen: string[] = []
  const note = (what: string) => seen.push(`${what} ${clock.now().toISOString().slice(17, 23)}`)
  clock.setTimeout(() => note('b'), 2000)
  clock.setTimeout(() => {
    note('a')
    clock.setTimeout(() => note('c'), 1500)
  }, 1000)
  const cancel = clock.setTimeout(() => note('never'), 500)
  cancel()
  t.equal(clock.nextTimerAt(), START.getTime() + 1000)
  clock.advance(999)
  t.strictSame(seen, [])
  clock.advance(4001)
  t.strictSame(seen, ['a 01.000', 'b 02.000', 'c 02.500'])
  t.equal(clock.now().toISOString(), '2030-01-01T00:00:05.000Z')
  t.equal(clock.nextTimerAt(), undefined)
})

t.test('the clock of the machine moves by itself', async (t) => {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const cancel = systemClock.setTimeout(() => t.fail('was cancelled'), 0)
  cancel()
  systemClock.setTimeout(() => resolve(undefined), 1)
  await promise
  t.ok(systemClock.now().getTime() - Date.now() < 1000)
})
