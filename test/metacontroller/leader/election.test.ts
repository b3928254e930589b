/** Of several replicas one is the leader at a time, and another one takes over. */
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  Election,
  LEASE_SECONDS,
  RENEW_DEADLINE_MS,
  RETRY_MS,
} from '../../../metacontroller/leader/election.ts'
import { SHORT_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import { delay } from '../../../metacontroller/runtime.ts'
import type { ApiObject } from '../../world/client.ts'
import { embeddedApi, type Embedded } from '../embedded.ts'

const LEASE = { namespace: 'ns', name: 'vec-operator-leader' }
const REFERENCE = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...LEASE }
const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined }

interface Spec {
  holderIdentity: string
  acquireTime: string
  renewTime: string
  leaseTransitions: number
  leaseDurationSeconds: number
}

async function ground(t: Test) {
  const embedded = await embeddedApi(t)
  const { clock, api, kubernetes } = embedded
  let callsUnderWay = 0
  /** A replica, whose calls a test can break. */
  const replica = (identity: string, wallClockAheadMs = 0) => {
    const beforeWrite = (): void => undefined
    const state = { isLeader: false, lost: '', isCut: false, lostAnswers: 0, beforeWrite }
    const client = Object.create(kubernetes) as Embedded['kubernetes']
    client.call = async (...call) => {
      if (state.isCut) throw new Error('no route to the API server')
      if (state.lostAnswers > 0) {
        state.lostAnswers -= 1
        const { timeoutMs = SHORT_CALL_TIMEOUT_SECONDS * 1000 } = call[2] ?? {}
        await delay(clock, timeoutMs)
        throw new Error('no answer in time')
      }
      callsUnderWay += 1
      if (call[0] !== 'GET') state.beforeWrite()
      try {
        return await kubernetes.call(...call)
      } finally {
        callsUnderWay -= 1
      }
    }
    const election = new Election({
      ...{ kubernetes: client, lease: LEASE, identity, timers: clock, log: silent },
      now: () => new Date(clock.now().getTime() + wallClockAheadMs),
      elapsed: () => clock.now().getTime(),
    })
    const stopping = new AbortController()
    let stop: (() => void) | undefined
    const acquired = election.acquire(stopping.signal).then(
      () => {
        state.isLeader = true
        stop = election.hold((reason) => {
          state.isLeader = false
          state.lost = reason
        })
      },
      () => undefined,
    )
    t.teardown(() => {
      stopping.abort()
      stop?.()
    })
    return { state, election, acquired, stop: () => stop?.(), stopping }
  }
  const lease = async () => (await api.get(REFERENCE)) as ApiObject & { spec: Spec }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 500) {
      clock.advance(500)
      await answered()
    }
  }
  /** Calls take real time, and none of the clock's. */
  const answered = async () => {
    for (let idle = 0; idle < 3; idle = callsUnderWay === 0 ? idle + 1 : 0) await setImmediate()
  }
  return { ...embedded, replica, lease, pass }
}

t.test('the first replica takes the Lease and renews it; another one waits', async (t) => {
  const { replica, lease, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  const second = replica('b')
  await pass(4 * LEASE_SECONDS * 1000)
  t.strictSame([first.state.isLeader, second.state.isLeader], [true, false])
  const { spec } = await lease()
  t.equal(spec.holderIdentity, 'a')
  t.equal(spec.leaseDurationSeconds, LEASE_SECONDS)
  t.equal(spec.acquireTime, '2026-03-01T12:00:00.000000Z')
  t.ok(Date.parse(spec.renewTime) >= Date.parse('2026-03-01T12:00:55Z'), spec.renewTime)
  t.equal(spec.leaseTransitions, 0)
})

t.test('a leader that cannot renew stops before another one takes over', async (t) => {
  const { replica, lease, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  const second = replica('b')
  await pass(RETRY_MS)
  first.state.isCut = true
  await pass(RENEW_DEADLINE_MS)
  t.strictSame([first.state.isLeader, second.state.isLeader], [false, false])
  t.equal(first.state.lost, 'the Lease was not renewed for 10 s')
  await pass(LEASE_SECONDS * 1000)
  t.equal(second.state.isLeader, true)
  const { spec } = await lease()
  t.strictSame([spec.holderIdentity, spec.leaseTransitions], ['b', 1])
})

t.test('a clock that is wrong by an hour does not make a replica take over', async (t) => {
  for (const ahead of [-3_600_000, 3_600_000]) {
    const { replica, pass } = await ground(t)
    const first = replica('a')
    await first.acquired
    const second = replica('b', ahead)
    await pass(3 * LEASE_SECONDS * 1000)
    t.strictSame([first.state.isLeader, second.state.isLeader], [true, false], `${ahead} ms`)
  }
})

t.test('a short failure of the API server does not end leadership', async (t) => {
  const { replica, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  await pass(RETRY_MS)
  first.state.isCut = true
  await pass(RENEW_DEADLINE_MS - 2 * RETRY_MS)
  first.state.isCut = false
  await pass(3 * LEASE_SECONDS * 1000)
  t.strictSame([first.state.isLeader, first.state.lost], [true, ''])
})

t.test('a renewal whose answer is lost does not end leadership', async (t) => {
  const { replica, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  await pass(RETRY_MS)
  first.state.lostAnswers = 1
  await pass(3 * LEASE_SECONDS * 1000)
  t.strictSame([first.state.isLeader, first.state.lost], [true, ''])
})

t.test(
  'a released Lease is taken at the next attempt, and a foreign one is not released',
  async (t) => {
    const { replica, lease, pass } = await ground(t)
    const first = replica('a')
    await first.acquired
    const second = replica('b')
    await pass(RETRY_MS)
    first.stop()
    await first.election.release()
    t.equal((await lease()).spec.holderIdentity, '')
    await pass(RETRY_MS)
    t.equal(second.state.isLeader, true)
    await first.election.release()
    t.equal((await lease()).spec.holderIdentity, 'b')
  },
)

t.test('a leader whose Lease names another one stops at its next renewal', async (t) => {
  const { replica, lease, api, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  const found = await lease()
  await api.replace({ ...found, spec: { ...found.spec, holderIdentity: 'c' } })
  await pass(RETRY_MS)
  t.strictSame([first.state.isLeader, first.state.lost], [false, 'another replica holds the Lease'])
})

t.test('a Lease that was deleted or annotated in between is taken again', async (t) => {
  const { replica, lease, api, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  await api.delete(REFERENCE)
  await pass(RETRY_MS)
  t.equal((await lease()).spec.holderIdentity, 'a')
  const found = await lease()
  const metadata = { ...found.metadata, annotations: { note: 'of a user' } }
  await api.replace({ ...found, metadata })
  await pass(RENEW_DEADLINE_MS * 2)
  t.equal(first.state.isLeader, true)
  t.strictSame((await lease()).metadata.annotations, { note: 'of a user' })
})

t.test('of replicas that start together exactly one is the leader', async (t) => {
  const { replica, pass } = await ground(t)
  const replicas = ['a', 'b', 'c'].map((name) => replica(name))
  await pass(2 * RETRY_MS)
  t.equal(replicas.filter(({ state }) => state.isLeader).length, 1)
})

t.test('a replica that ends while it waits does not take the Lease', async (t) => {
  const { replica, lease, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  const second = replica('b')
  await pass(RETRY_MS)
  second.stopping.abort()
  await second.acquired
  first.stop()
  await first.election.release()
  await pass(2 * RETRY_MS)
  t.equal((await lease()).spec.holderIdentity, '')
})

t.test('a replica that ends while it takes the Lease does not keep it', async (t) => {
  const { replica, lease, pass } = await ground(t)
  const first = replica('a')
  await first.acquired
  const second = replica('b')
  await pass(RETRY_MS)
  second.state.beforeWrite = () => second.stopping.abort()
  first.stop()
  await first.election.release()
  await pass(2 * RETRY_MS)
  await second.acquired
  t.strictSame([second.state.isLeader, second.stopping.signal.aborted], [false, true])
  t.equal((await lease()).spec.holderIdentity, '')
  t.equal((await lease()).spec.leaseTransitions, 1, 'it was taken')
})

t.test(
  'a Lease that is deleted is not taken from a leader that may not have noticed',
  async (t) => {
    const { replica, lease, api, pass } = await ground(t)
    const first = replica('a')
    await first.acquired
    const second = replica('b')
    await pass(RETRY_MS)
    first.state.isCut = true
    await api.delete(REFERENCE)
    for (let passed = 0; passed < RENEW_DEADLINE_MS; passed += 500) {
      await pass(500)
      t.notOk(first.state.isLeader && second.state.isLeader)
    }
    t.strictSame([first.state.isLeader, second.state.isLeader], [false, false])
    await pass(LEASE_SECONDS * 1000)
    t.equal((await lease()).spec.holderIdentity, 'b')
  },
)
