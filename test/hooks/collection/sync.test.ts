/** What a VecCollection is answered, by what was observed of it, and which Events that makes. */
import t from 'tap'
import type { VecCollection } from '../../../crds/collection.ts'
import type { Outcome } from '../../../hooks/collection/outcome.ts'
import { sync } from '../../../hooks/collection/sync.ts'
import { NOW, cluster, context } from '../../builders.ts'
import { collection } from './stage.ts'

const verdict: Outcome = {
  ...{ phase: 'Failed', reason: 'EngineRefused', message: 'no such field' },
  againAfterSeconds: 50,
}
const replicated = {
  ...{ type: 'Replicated', status: 'False' as const },
  ...{ reason: 'ReplicasMissing', message: '1 of 2 replicas are Active' },
}

function answerTo(parent: VecCollection, outcome?: Outcome, now = NOW) {
  const observed = { collection: parent, cluster: cluster(), againAfterSeconds: 7 }
  const seen = outcome === undefined ? observed : { ...observed, outcome }
  return sync(seen, { ...context, now })
}

/** The resource as it is stored with the answer to a pass. */
function after(outcome: Outcome, metadata: Partial<VecCollection['metadata']> = {}): VecCollection {
  const parent = collection({ replicationFactor: 2 }, metadata)
  return { ...parent, status: answerTo(parent, outcome).status }
}

const toldOf = (answer: ReturnType<typeof answerTo>) =>
  answer.events?.map(({ type, reason, message }) => [type, reason, message])

t.test('one that nothing is known of is Pending until the first look has ended', async (t) => {
  t.strictSame(answerTo(collection()), {
    status: {
      phase: 'Pending',
      collectionName: 'docs',
      conditions: [
        {
          ...{ type: 'Ready', status: 'False', reason: 'Reconciling' },
          message: 'the first look at the engine is under way',
          ...{ lastTransitionTime: '2026-03-01T12:00:00Z', observedGeneration: 1 },
        },
      ],
    },
    children: [],
    resyncAfterSeconds: 7,
  })
})

t.test('what is known stays as it is until a pass over the new spec has ended', async (t) => {
  const { status } = after({ ...verdict, phase: 'Ready' })
  const changed = collection({ hnsw: { m: 5 } }, { generation: 2 }, status)
  t.strictSame(answerTo(changed), { status, children: [], resyncAfterSeconds: 7 })
})

t.test('a cluster may be used from any namespace unless it names those that may', async (t) => {
  const far = collection({ clusterRef: { name: 'a', namespace: 'far' } })
  const reasonBy = (annotations?: Record<string, string>) => {
    const parts = { namespace: 'far', ...(annotations !== undefined && { annotations }) }
    const observed = { collection: far, cluster: cluster(parts), againAfterSeconds: 7 }
    const [condition] = sync(observed, context).status.conditions ?? []
    return [condition?.reason, condition?.message]
  }
  t.equal(reasonBy()[0], 'Reconciling')
  t.strictSame(reasonBy({ 'vec-operator.dev/allow-from': 'others' }), [
    'NotAllowed',
    'cluster far/a does not allow namespace ns: add it to the annotation vec-operator.dev/allow-from of the cluster',
  ])
})

t.test('a verdict makes one Event, whatever else is found', async (t) => {
  const found = answerTo(collection(), { ...verdict, replicated })
  t.equal(found.status.conditions?.length, 2)
  t.strictSame(toldOf(found), [['Warning', 'EngineRefused', 'no such field']])
  const ready = answerTo(collection(), { ...verdict, phase: 'Ready' })
  t.strictSame(toldOf(ready), [['Normal', 'EngineRefused', 'no such field']])
})

t.test(
  'a verdict that was told before makes no Event, and one with other words does',
  async (t) => {
    const before = after({ ...verdict, replicated })
    t.equal(answerTo(before, { ...verdict, replicated }).events, undefined)
    t.strictSame(toldOf(answerTo(before, { ...verdict, message: 'no such type' })), [
      ['Warning', 'EngineRefused', 'no such type'],
    ])
    t.strictSame(toldOf(answerTo(before, { ...verdict, reason: 'Conflict' })), [
      ['Warning', 'Conflict', 'no such field'],
    ])
  },
)

t.test('Events of other words, another spec or another time have names of their own', async (t) => {
  const nameOf = (parent: VecCollection, outcome: Outcome, now?: Date) =>
    answerTo(parent, outcome, now).events?.[0]?.metadata.name
  const names = [
    nameOf(collection(), verdict),
    nameOf(collection(), { ...verdict, message: 'no such type' }),
    nameOf(collection({}, { generation: 2 }), verdict),
    nameOf(collection(), verdict, new Date(NOW.getTime() + 60_000)),
  ]
  t.equal(new Set(names).size, names.length)
  t.equal(nameOf(collection(), verdict), names[0], 'the same for the same')
})
