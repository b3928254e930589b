/** Time in the embedded world jumps while everything waits, and stands still while something is busy. */
import t from 'tap'
import { ManualClock } from './clock.ts'
import { ClockDriver, type ClockOptions } from './clock-driver.ts'

const START = new Date('2030-01-01T00:00:00Z')

function world(options?: ClockOptions) {
  const clock = new ManualClock(START)
  const life = { busy: false, processes: 0, heardAt: 0, revision: 0 }
  const driver = new ClockDriver(
    clock,
    {
      busy: () => life.busy,
      processes: () => life.processes,
      lastActivityAt: () => life.heardAt,
      revision: () => life.revision,
    },
    options,
  )
  const passed = () => (clock.now().getTime() - START.getTime()) / 1000
  return { clock, life, driver, passed }
}

t.test('an hour passes at once, and every timer runs', async (t) => {
  const { clock, driver, passed } = world()
  let ticks = 0
  const tick = () => {
    ticks += 1
    clock.setTimeout(tick, 60_000)
  }
  tick()
  t.equal(await driver.wait(() => false, 3_600_000), false)
  t.equal(passed(), 3600)
  t.equal(ticks, 61)
})

t.test('a waiting caller continues at the moment when its condition is met', async (t) => {
  const { clock, driver, passed } = world()
  let there = false
  clock.setTimeout(() => (there = true), 30_000)
  t.equal(await driver.wait(() => there, 120_000), true)
  t.equal(passed(), 30)
})

t.test('of two who wait, neither is jumped over', async (t) => {
  const { driver, passed } = world()
  const long = driver.wait(() => false, 100_000).then(passed)
  const short = driver.wait(() => false, 10_000).then(passed)
  t.strictSame(await Promise.all([short, long]), [10, 100])
})

t.test('no time passes while a call is in progress', async (t) => {
  const { clock, life, driver, passed } = world()
  let due = false
  clock.setTimeout(() => (due = true), 1000)
  life.busy = true
  setTimeout(() => {
    t.equal(passed(), 0)
    life.busy = false
  }, 50)
  await driver.wait(() => due, 10_000)
  t.equal(passed(), 1)
})

t.test('while a process runs, time passes as it does outside', async (t) => {
  const { clock, life, driver, passed } = world()
  let due = false
  clock.setTimeout(() => (due = true), 600_000)
  life.processes = 1
  life.heardAt = Date.now()
  setTimeout(() => {
    t.ok(passed() < 10)
    life.processes = 0
  }, 100)
  await driver.wait(() => due, 1_000_000)
  t.equal(passed(), 600)
})

t.test('a world in a hurry passes many seconds in each one', async (t) => {
  const { life, driver, passed } = world({ speed: 1000 })
  life.processes = 1
  life.heardAt = Date.now()
  const began = Date.now()
  await driver.wait(() => false, 100_000)
  t.equal(passed(), 100)
  t.ok(Date.now() - began < 50_000)
})

t.test('a process that has said nothing for long does not hold up time', async (t) => {
  const { life, driver, passed } = world()
  life.processes = 1
  life.heardAt = Date.now() - 60_000
  await driver.wait(() => false, 600_000)
  t.equal(passed(), 600)
})

t.test('waiting ends once the world ends', async (t) => {
  const { life, driver } = world()
  life.busy = true
  const waiting = driver.wait(() => false, 1000)
  driver.stop()
  t.equal(await waiting, false)
})

t.test(
  'a world that changes without a pause fails those who wait, with the number of changes',
  async (t) => {
    const { life, driver } = world({ restlessMs: 100 })
    life.busy = true
    const changes = setInterval(() => (life.revision += 1), 1)
    t.teardown(() => clearInterval(changes))
    const both = [driver.wait(() => false, 1000), driver.wait(() => false, 2000)]
    for (const result of await Promise.allSettled(both)) {
      t.match(result, {
        status: 'rejected',
        reason: { message: /did not come to rest in 0.1 s, with \d+ changes/ },
      })
    }
    life.busy = false
    clearInterval(changes)
    t.equal(await driver.wait(() => false, 1000), false, 'a later wait is not affected')
  },
)
