/** Concurrent scenarios share one service: disturbances of it run one at a time. */
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { World } from '../world/world.ts'
import { ServiceLock } from './service-lock.ts'

/** Records what is done, and fails where it is asked to. */
function recorded(fails?: string) {
  const done: string[] = []
  const note = (fault: string) => async () => {
    done.push(fault)
    await setImmediate()
    if (fault === fails) throw new Error(`${fault} failed`)
  }
  const faults: World['faults'] = {
    killJobPod: note('kill'),
    prepareFreeze: async () => () => true,
    stopService: note('stop'),
    startService: note('start'),
    upgradeService: note('upgrade'),
    restartControllers: note('restart'),
    rotateToken: note('rotate'),
    degradeApi: note('hinder'),
    breakPod: note('break'),
    healPod: note('heal'),
  }
  return { done, lock: new ServiceLock(faults) }
}

t.test('the service is away until the last who wants that has it started', async (t) => {
  const { done, lock } = recorded()
  const [one, other] = [lock.take(), lock.take()]
  await Promise.all([one.faults.stopService(), other.faults.stopService()])
  t.strictSame(done, ['stop'])
  let isBack = false
  const back = one.faults.startService().then(() => (isBack = true))
  await setImmediate()
  t.equal(isBack, false)
  await other.faults.startService()
  await back
  t.strictSame(done, ['stop', 'start'])

  await one.faults.stopService()
  await one.faults.startService()
  t.strictSame(done, ['stop', 'start', 'stop', 'start'])
})

t.test(
  'one upgrade of the service at a time, and only while no scenario has stopped it',
  async (t) => {
    const { done, lock } = recorded()
    const [one, other] = [lock.take(), lock.take()]
    await one.faults.stopService()
    const upgraded = other.faults.upgradeService('2')
    const rotated = other.faults.rotateToken()
    await other.faults.restartControllers()
    t.strictSame(done, ['stop', 'restart'])
    await one.faults.startService()
    await Promise.all([upgraded, rotated])
    t.strictSame(done, ['stop', 'restart', 'start', 'upgrade', 'rotate'])
  },
)

t.test('a scenario that broke off does not leave the service away', async (t) => {
  const { done, lock } = recorded()
  const hold = lock.take()
  await hold.faults.stopService()
  await hold.end()
  await hold.end()
  t.strictSame(done, ['stop', 'start'])
})

t.test('a failure is reported to its own scenario, and the next one is unaffected', async (t) => {
  const { done, lock } = recorded('upgrade')
  const hold = lock.take()
  const failing = hold.faults.upgradeService('2')
  const next = hold.faults.rotateToken()
  await t.rejects(failing, /upgrade failed/)
  await next
  t.strictSame(done, ['upgrade', 'rotate'])
})
