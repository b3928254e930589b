/** When a VecCollection is due for a pass. */
import { jitterOf } from '../../../hooks/conditions.ts'
import t from 'tap'
import type { CollectionStatus } from '../../../crds/collection.ts'
import { nextReconcileAt, isCurrent, type LastReconcile } from '../../../hooks/collection/result.ts'
import { NOW, ago } from '../../builders.ts'
import { collection } from './stage.ts'

const at = NOW.getTime()
const identity = { connection: 'c', clusterReady: true }

function lastReconcile(parts: Partial<LastReconcile> = {}): LastReconcile {
  const outcome = { phase: 'Ready' as const, reason: 'x', message: 'y', requeueAfterSeconds: 50 }
  return { result: outcome, generation: 1, ...identity, endedAt: at, ...parts }
}

/** The status that an earlier service wrote. */
function reported(
  ready: 'True' | 'False',
  phase?: CollectionStatus['phase'],
  observedGeneration = 1,
): CollectionStatus {
  const condition = { type: 'Ready', status: ready, reason: 'x', message: 'y' }
  const conditions = [{ ...condition, lastTransitionTime: ago(9), observedGeneration }]
  return { ...(phase !== undefined && { phase }), conditions }
}

const first = (status?: CollectionStatus) =>
  nextReconcileAt(collection({}, {}, status), undefined, identity, at)

t.test('a collection that was never reconciled is due immediately', async (t) => {
  t.equal(first(), 0)
  t.equal(first({}), 0)
})

for (const [title, status] of [
  ['is Ready', reported('True', 'Ready')],
  ['is Degraded', reported('False', 'Degraded')],
  ['Failed', reported('False', 'Failed')],
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
  ['only waited', reported('False', 'Pending')],
  ['had no phase yet', reported('False')],
  ['was Ready with another spec', reported('True', 'Ready', 0)],
  ['Failed with another spec', reported('False', 'Failed', 0)],
] as const) {
  t.test(`after a start of the service, one that ${title} is due at once`, async (t) => {
    t.equal(first(status), 0)
  })
}

t.test('the next reconcile is due when the last one requested it', async (t) => {
  t.equal(nextReconcileAt(collection(), lastReconcile(), identity, 0), at + 50_000)
})

t.test('another spec, or another engine, is due at once', async (t) => {
  t.equal(nextReconcileAt(collection({}, { generation: 2 }), lastReconcile(), identity, 0), 0)
  t.equal(nextReconcileAt(collection(), lastReconcile(), { ...identity, connection: 'd' }, 0), 0)
  t.notOk(isCurrent(collection({}, { generation: 2 }), lastReconcile(), identity))
  t.notOk(isCurrent(collection(), lastReconcile(), { ...identity, connection: 'd' }))
  t.ok(isCurrent(collection(), lastReconcile(), identity))
})

t.test(
  'a collection that waits for a cluster is due when its readiness changes, and no other',
  async (t) => {
    const waiting = { reason: 'x', message: 'y', requeueAfterSeconds: 30 }
    const unready = { ...identity, clusterReady: false }
    t.equal(
      nextReconcileAt(collection(), lastReconcile({ result: waiting, ...unready }), identity, 0),
      0,
    )
    t.equal(
      nextReconcileAt(collection(), lastReconcile({ result: waiting }), identity, 0),
      at + 30_000,
    )
    t.equal(nextReconcileAt(collection(), lastReconcile(unready), identity, 0), at + 50_000)
  },
)
