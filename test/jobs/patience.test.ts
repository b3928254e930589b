/** What the words of an engine mean to a Job that moves data. */
import t from 'tap'
import { EngineError } from '../../crds/errors.ts'
import { Patience, isFull, isPassing } from '../../jobs/patience.ts'

t.test('a full volume is told by the words of the engine or by its 507', async (t) => {
  for (const words of [
    'No space left on device (os error 28)',
    'Wal error: out of disk space',
    'PUT /collections/a on vec-a-0.ns answered 507: Insufficient Storage',
  ]) {
    t.ok(isFull(words), words)
    t.notOk(isPassing(new EngineError(words, { status: 500 })), 'and is not waited for')
  }
})

t.test('a port, an id or a count with 507 in it is no full volume', async (t) => {
  const busy = 'GET /collections/a on http://10.0.0.1:35077 answered 503: 5070 points wait'
  t.notOk(isFull(busy))
  t.ok(isPassing(new EngineError(busy, { status: 503 })))
})

t.test('what several lanes wait for at the same time is spent once', async (t) => {
  const minute = 60_000
  const patience = new Patience(10 * minute)
  const now = (minutes: number) => new Date(minutes * minute)
  for (let lane = 0; lane < 4; lane += 1) patience.spend(3 * minute, now(5))
  t.equal(patience.share(), 7 * minute)
  patience.spend(2 * minute, now(6))
  t.equal(patience.share(), 6 * minute, 'only what was not waited for before')
  patience.spend(minute)
  t.equal(patience.share(), 5 * minute)
})
