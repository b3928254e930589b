/** The meaning of engine errors for data Jobs. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../crds/contract/errors.ts'
import { systemClock } from '../../jobs/clock.ts'
import {
  RetryBudget,
  isDiskFull,
  isTransient,
  poll,
  retry,
  retryTransient,
} from '../../jobs/retry.ts'
import { instantClock } from './job-world.ts'

const MINUTE_MS = 60_000

t.test('a full volume is recognized by the engine’s message or by status 507', async (t) => {
  for (const words of [
    'No space left on device (os error 28)',
    'Wal error: out of disk space',
    'PUT /collections/a on vec-a-0.ns answered 507: Insufficient Storage',
  ]) {
    t.ok(isDiskFull(words), words)
    t.notOk(isTransient(new EngineError(words, { status: 500 })), 'it is not retried')
  }
})

t.test('a port, an id or a count with 507 is not a full volume', async (t) => {
  const busy = 'GET /collections/a on http://10.0.0.1:35077 answered 503: 5070 points wait'
  t.notOk(isDiskFull(busy))
  t.ok(isTransient(new EngineError(busy, { status: 503 })))
})

t.test('concurrent waits of several groups consume the retry budget once', async (t) => {
  const budget = new RetryBudget(10 * MINUTE_MS)
  for (let lane = 0; lane < 4; lane += 1) budget.consume(3 * MINUTE_MS, 5 * MINUTE_MS)
  t.equal(budget.nextLimitMs(), 7 * MINUTE_MS)
  budget.consume(2 * MINUTE_MS, 6 * MINUTE_MS)
  t.equal(budget.nextLimitMs(), 6 * MINUTE_MS, 'only the time that was not counted before')
  budget.consume(MINUTE_MS, 7 * MINUTE_MS)
  t.equal(budget.nextLimitMs(), 5 * MINUTE_MS)
})

/** A call that times out after this number of minutes; `times` counts the calls. */
function slowCall(minutes: number, time: { sleep: (ms: number) => Promise<void> }) {
  const made = { times: 0 }
  const call = async () => {
    made.times += 1
    await time.sleep(minutes * MINUTE_MS)
    throw new EngineError('no answer', { status: 408 })
  }
  return { made, call }
}

t.test('the limit of a retried call holds for its pauses and calls together', async (t) => {
  const time = instantClock()
  const retryBudget = new RetryBudget(30 * MINUTE_MS)
  const tools = { time, signal: new AbortController().signal, log: pino({ level: 'silent' }) }
  const { made, call } = slowCall(10, time)
  await t.rejects(retryTransient({ retryBudget, tools }, call), { message: 'no answer' })
  t.equal(made.times, 2, 'the wait begins when the first call has failed')
  retryBudget.consume(15 * MINUTE_MS, time.monotonicMs() + 15 * MINUTE_MS)
  t.equal(
    retryBudget.nextLimitMs(),
    5 * MINUTE_MS - 5_000,
    'the budget lost one pause and the second call as well',
  )
})

t.test('a change of the system time does not shorten or lengthen a wait', async (t) => {
  for (const days of [-1, 1]) {
    const clock = instantClock()
    let jumpMs = 0
    const time = { ...clock, now: () => new Date(clock.now().getTime() + jumpMs) }
    const retryBudget = new RetryBudget()
    const tools = { time, signal: new AbortController().signal, log: pino({ level: 'silent' }) }
    const { made, call } = slowCall(0, time)
    const jumping = async () => {
      jumpMs = days * 24 * 60 * MINUTE_MS
      return call()
    }
    await t.rejects(retryTransient({ retryBudget, tools }, jumping), { message: 'no answer' })
    t.equal(made.times, 1 + (10 * MINUTE_MS) / 5_000, `the clock was set by ${days} days`)
    t.equal(retryBudget.nextLimitMs(), 10 * MINUTE_MS)
    retryBudget.consume(15 * MINUTE_MS, time.monotonicMs() + 15 * MINUTE_MS)
    t.equal(retryBudget.nextLimitMs(), 5 * MINUTE_MS, 'ten minutes were consumed before')
  }
})

t.test('the wait of a poll begins after its first check and includes the others', async (t) => {
  const time = instantClock()
  const seen: number[] = []
  const check = async ({ waitedMs }: { waitedMs: () => number }) => {
    await time.sleep(10 * MINUTE_MS)
    seen.push(waitedMs())
    return seen.length === 3 ? 'found' : undefined
  }
  t.equal(await poll({ time, pauseMs: MINUTE_MS }, check), 'found')
  t.strictSame(seen.splice(0), [0, 11 * MINUTE_MS, 22 * MINUTE_MS])
  t.equal(await poll({ time, pauseMs: MINUTE_MS, pauseFirst: true }, check), 'found')
  t.strictSame(seen, [11 * MINUTE_MS, 22 * MINUTE_MS, 33 * MINUTE_MS])
})

function recordedPauses() {
  const pauses: number[] = []
  const clock = instantClock()
  const sleep = async (ms: number) => {
    pauses.push(ms)
    await clock.sleep(ms)
  }
  return { pauses, time: { ...clock, sleep } }
}

t.test(
  'retry repeats a call with the pauses it is given, and throws once there is none',
  async (t) => {
    const seen: string[] = []
    const { pauses, time } = recordedPauses()
    const failing = (successAt: number) => {
      let calls = 0
      return async () => {
        calls += 1
        if (calls < successAt) throw new Error(`call ${calls}`)
        return calls
      }
    }
    const pauseMs = (error: unknown, state: { retries: number; waitedMs: number }) => {
      seen.push(`${String(error)} ${state.retries} ${state.waitedMs}`)
      return [5, 20][state.retries]
    }
    const afterPause = (pause: number, error: unknown) =>
      void seen.push(`${pause} ${String(error)}`)
    t.equal(await retry({ time, pauseMs, afterPause }, failing(3)), 3)
    t.strictSame(pauses, [5, 20])
    t.strictSame(seen, [
      'Error: call 1 0 0',
      '5 Error: call 1',
      'Error: call 2 1 5',
      '20 Error: call 2',
    ])
    await t.rejects(retry({ time, pauseMs }, failing(4)), { message: 'call 3' })
    t.strictSame(pauses, [5, 20, 5, 20])
  },
)

t.test('poll repeats the last pause of its list, and pauses first only if asked to', async (t) => {
  const { pauses, time } = recordedPauses()
  const states: { pauses: number; waitedMs: number }[] = []
  const until = (last: number) => async (state: { pauses: number; waitedMs: () => number }) => {
    states.push({ ...state, waitedMs: state.waitedMs() })
    return state.pauses === last ? 'found' : undefined
  }
  let after = 0
  const afterPause = () => void (after += 1)
  t.equal(await poll({ time, pauseMs: [1, 10], afterPause }, until(3)), 'found')
  t.strictSame(pauses.splice(0), [1, 10, 10])
  t.equal(after, 3)
  t.strictSame(states.splice(0), [
    { pauses: 0, waitedMs: 0 },
    { pauses: 1, waitedMs: 1 },
    { pauses: 2, waitedMs: 11 },
    { pauses: 3, waitedMs: 21 },
  ])
  t.equal(await poll({ time, pauseMs: 7, pauseFirst: true }, until(1)), 'found')
  t.strictSame(pauses, [7])
  t.strictSame(states, [{ pauses: 1, waitedMs: 7 }])
})

t.test('the abort of a pause ends retry and poll with its reason', async (t) => {
  const reason = new Error('stopped')
  const options = { time: systemClock, signal: AbortSignal.abort(reason) }
  const failing = () => Promise.reject(new Error('no'))
  await t.rejects(retry({ ...options, pauseMs: () => 60_000 }, failing), reason)
  await t.rejects(
    poll({ ...options, pauseMs: 60_000 }, async () => undefined),
    reason,
  )
})
