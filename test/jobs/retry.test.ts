/** The meaning of engine errors for data Jobs. */
import t from 'tap'
import { EngineError } from '../../crds/contract/errors.ts'
import { systemClock } from '../../jobs/clock.ts'
import { RetryBudget, isDiskFull, isTransient, poll, retry } from '../../jobs/retry.ts'

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
  const minute = 60_000
  const budget = new RetryBudget(10 * minute)
  const now = (minutes: number) => new Date(minutes * minute)
  for (let lane = 0; lane < 4; lane += 1) budget.consume(3 * minute, now(5))
  t.equal(budget.nextLimitMs(), 7 * minute)
  budget.consume(2 * minute, now(6))
  t.equal(budget.nextLimitMs(), 6 * minute, 'only the time that was not counted before')
  budget.consume(minute)
  t.equal(budget.nextLimitMs(), 5 * minute)
})

t.test(
  'retry repeats a call with the pauses it is given, and throws once there is none',
  async (t) => {
    const pauses: number[] = []
    const seen: string[] = []
    const time = { sleep: async (ms: number) => void pauses.push(ms) }
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
  const pauses: number[] = []
  const time = { sleep: async (ms: number) => void pauses.push(ms) }
  const states: { pauses: number; waitedMs: number }[] = []
  const until = (last: number) => async (state: { pauses: number; waitedMs: number }) => {
    states.push(state)
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
