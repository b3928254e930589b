/** What the words of an engine mean to a Job that moves data. */
import t from 'tap'
import { EngineError } from '../../crds/contract/errors.ts'
import { RetryBudget, isDiskFull, isTransient } from '../../jobs/retry.ts'

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
