/** What a VecCollection is answered, by what was observed of it, and which Events that makes. */
import t from 'tap'
import type { VecCollection } from '../../../crds/collection.ts'
import type { ReconcileResult } from '../../../hooks/collection/result.ts'
import { sync } from '../../../hooks/collection/sync.ts'
import { NOW, cluster, context } from '../../builders.ts'
import { collection } from './stage.ts'

const finalResult: ReconcileResult = {
  ...{ phase: 'Failed', reason: 'EngineRefused', message: 'no such field' },
  requeueAfterSeconds: 50,
}
const replicated = {
  ...{ type: 'Replicated', status: 'False' as const },
  ...{ reason: 'ReplicasMissing', message: '1 of 2 replicas are Active' },
}

function decisionFor(parent: VecCollection, outcome?: ReconcileResult, now = NOW) {
  const observed = { collection: parent, cluster: cluster(), requeueAfterSeconds: 7 }
  const seen = outcome === undefined ? observed : { ...observed, result: outcome }
  return sync(seen, { ...context, now })
}

/** The resource as it is stored with the answer to a pass. */
function after(
  outcome: ReconcileResult,
  metadata: Partial<VecCollection['metadata']> = {},
): VecCollection {
  const parent = collection({ replicationFactor: 2 }, metadata)
  return { ...parent, status: decisionFor(parent, outcome).status }
}

const statusOf = (answer: ReturnType<typeof decisionFor>) =>
  answer.events?.map(({ type, reason, message }) => [type, reason, message])

t.test('a collection without a result is Pending until the first read has ended', async (t) => {
  t.strictSame(decisionFor(collection()), {
    status: {
      phase: 'Pending',
      collectionName: 'docs',
      conditions: [
        {
          ...{ type: 'Ready', status: 'False', reason: 'Reconciling' },
          message: 'waiting for the first response from the engine',
          ...{ lastTransitionTime: '2026-03-01T12:00:00Z', observedGeneration: 1 },
        },
      ],
    },
    children: [],
    resyncAfterSeconds: 7,
  })
})

t.test('the last result stays until a pass over the new spec has ended', async (t) => {
  const { status } = after({ ...finalResult, phase: 'Ready' })
  const changed = collection({ hnsw: { m: 5 } }, { generation: 2 }, status)
  t.strictSame(decisionFor(changed), { status, children: [], resyncAfterSeconds: 7 })
})

t.test('a cluster may be used from any namespace unless it names the allowed ones', async (t) => {
  const far = collection({ clusterRef: { name: 'a', namespace: 'far' } })
  const reasonBy = (annotations?: Record<string, string>) => {
    const parts = { namespace: 'far', ...(annotations !== undefined && { annotations }) }
    const observed = { collection: far, cluster: cluster(parts), requeueAfterSeconds: 7 }
    const [condition] = sync(observed, context).status.conditions ?? []
    return [condition?.reason, condition?.message]
  }
  t.equal(reasonBy()[0], 'Reconciling')
  t.strictSame(reasonBy({ 'vec-operator.dev/allowed-namespaces': 'others' }), [
    'RefNotPermitted',
    'cluster far/a does not allow namespace ns: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster',
  ])
})

t.test('a result is one Event, whatever else is observed', async (t) => {
  const found = decisionFor(collection(), { ...finalResult, replicated })
  t.equal(found.status.conditions?.length, 2)
  t.strictSame(statusOf(found), [['Warning', 'EngineRefused', 'no such field']])
  const ready = decisionFor(collection(), { ...finalResult, phase: 'Ready' })
  t.strictSame(statusOf(ready), [['Normal', 'EngineRefused', 'no such field']])
})

t.test(
  'a result that was reported before is no Event, and one with another message is',
  async (t) => {
    const before = after({ ...finalResult, replicated })
    t.equal(decisionFor(before, { ...finalResult, replicated }).events, undefined)
    t.strictSame(statusOf(decisionFor(before, { ...finalResult, message: 'no such type' })), [
      ['Warning', 'EngineRefused', 'no such type'],
    ])
    t.strictSame(statusOf(decisionFor(before, { ...finalResult, reason: 'Conflict' })), [
      ['Warning', 'Conflict', 'no such field'],
    ])
  },
)

t.test('Events of other words, another spec or another time have separate names', async (t) => {
  const nameOf = (parent: VecCollection, outcome: ReconcileResult, now?: Date) =>
    decisionFor(parent, outcome, now).events?.[0]?.metadata.name
  const names = [
    nameOf(collection(), finalResult),
    nameOf(collection(), { ...finalResult, message: 'no such type' }),
    nameOf(collection({}, { generation: 2 }), finalResult),
    nameOf(collection(), finalResult, new Date(NOW.getTime() + 60_000)),
  ]
  t.equal(new Set(names).size, names.length)
  t.equal(nameOf(collection(), finalResult), names[0], 'the same for the same')
})
