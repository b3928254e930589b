/** What the words of an engine mean to a Job that moves data. */
import t from 'tap'
import { EngineError } from '../../crds/contract/errors.ts'
import { systemClock } from '../../jobs/clock.ts'
import { RetryBudget, isDiskFull, isTransient, poll, retry } from '../../jobs/retry.ts'

t.test('a full volume is told by the words of the engine or by its 507', async (t) => {
  for (const words of [
    'No space left on device (os error 28)',
    'Wal error: out of disk space',
    'PUT /collections/a on vec-a-0.ns answered 507: Insufficient Storage',
  ]) {
    t.ok(isDiskFull(words), words)
    t.notOk(isTransient(new EngineError(words, { status: 500 })), 'and is not waited for')
  }
})

t.test('a port, an id or a count with 507 in it is no full volume', async (t) => {
  const busy = 'GET /collections/a on http://10.0.0.1:35077 answered 503: 5070 points wait'
  t.notOk(isDiskFull(busy))
  t.ok(isTransient(new EngineError(busy, { status: 503 })))
})

t.test('what several lanes wait for at the same time is spent once', async (t) => {
  const minute = 60_000
  const patience = new RetryBudget(10 * minute)
  const now = (minutes: number) => new Date(minutes * minute)
  for (let lane = 0; lane < 4; lane += 1) patience.consume(3 * minute, now(5))
  t.equal(patience.nextLimitMs(), 7 * minute)
  patience.consume(2 * minute, now(6))
  t.equal(patience.nextLimitMs(), 6 * minute, 'only what was not waited for before')
  patience.consume(minute)
  t.equal(patience.nextLimitMs(), 5 * minute)
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
