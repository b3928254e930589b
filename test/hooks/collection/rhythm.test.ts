/** When a VecCollection is due for a pass. */
import t from 'tap'
import type { CollectionStatus } from '../../../crds/collection.ts'
import { jitterOf } from '../../../hooks/collection/jitter.ts'
import { dueAt, isCurrent, type Result } from '../../../hooks/collection/rhythm.ts'
import { NOW, ago } from '../../builders.ts'
import { collection } from './stage.ts'

const at = NOW.getTime()
const about = { connection: 'c', clusterReady: true }

function result(parts: Partial<Result> = {}): Result {
  const outcome = { phase: 'Ready' as const, reason: 'x', message: 'y', againAfterSeconds: 50 }
  return { outcome, generation: 1, ...about, endedAt: at, ...parts }
}

/** What an earlier service told of it. */
function told(
  ready: 'True' | 'False',
  phase?: CollectionStatus['phase'],
  observedGeneration = 1,
): CollectionStatus {
  const condition = { type: 'Ready', status: ready, reason: 'x', message: 'y' }
  const conditions = [{ ...condition, lastTransitionTime: ago(9), observedGeneration }]
  return { ...(phase !== undefined && { phase }), conditions }
}

const first = (status?: CollectionStatus) => dueAt(collection({}, {}, status), undefined, about, at)

t.test('one that was never looked at is due at once', async (t) => {
  t.equal(first(), 0)
  t.equal(first({}), 0)
})

for (const [title, status] of [
  ['is Ready', told('True', 'Ready')],
  ['is Degraded', told('False', 'Degraded')],
  ['Failed', told('False', 'Failed')],
] as const) {
  t.test(
    `after a start of the service, one that ${title} has its turn within a minute`,
    async (t) => {
      const due = first(status)
      t.equal(due, at + jitterOf('uid-docs') * 50_000)
      t.ok(due > at && due < at + 50_000)
    },
  )
}

for (const [title, status] of [
  ['only waited', told('False', 'Pending')],
  ['had no phase yet', told('False')],
  ['was Ready with another spec', told('True', 'Ready', 0)],
  ['Failed with another spec', told('False', 'Failed', 0)],
] as const) {
  t.test(`after a start of the service, one that ${title} is due at once`, async (t) => {
    t.equal(first(status), 0)
  })
}

t.test('the next pass comes when the last one asked for it', async (t) => {
  t.equal(dueAt(collection(), result(), about, 0), at + 50_000)
})

t.test('another spec, or another engine, is due at once', async (t) => {
  t.equal(dueAt(collection({}, { generation: 2 }), result(), about, 0), 0)
  t.equal(dueAt(collection(), result(), { ...about, connection: 'd' }, 0), 0)
  t.notOk(isCurrent(collection({}, { generation: 2 }), result(), about))
  t.notOk(isCurrent(collection(), result(), { ...about, connection: 'd' }))
  t.ok(isCurrent(collection(), result(), about))
})

t.test('who waits for a cluster is due when its readiness changes, and nobody else', async (t) => {
  const waiting = { reason: 'x', message: 'y', againAfterSeconds: 30 }
  const unready = { ...about, clusterReady: false }
  t.equal(dueAt(collection(), result({ outcome: waiting, ...unready }), about, 0), 0)
  t.equal(dueAt(collection(), result({ outcome: waiting }), about, 0), at + 30_000)
  t.equal(dueAt(collection(), result(unready), about, 0), at + 50_000)
})
