/** Validation of answers: which are rejected, and with which message. */
import t from 'tap'
import { VecCluster } from '../../crds/cluster.ts'
import { answerValidator } from '../../hooks/answer-validation.ts'
import { type Desired, kindHooks } from '../../hooks/protocol.ts'
import { cluster, helmJob } from '../builders.ts'

const guard = answerValidator(
  kindHooks({
    resource: VecCluster,
    childKinds: ['Job.batch/v1'],
    finalizeReads: [],
    customize: () => [],
    sync: async () => ({ status: {}, children: [] }),
  }),
)

const job = helmJob()
const { name } = job.metadata
const JOB = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name } }
const request = {
  parent: cluster(),
  children: { 'Job.batch/v1': { [`ns/${name}`]: job } },
  related: {},
  finalizing: false,
}
const answer: Desired<unknown> = { status: { phase: 'Running' }, children: [JOB] }
const passed = (more: object, hook: 'sync' | 'finalize' = 'sync') =>
  guard(request, { ...answer, ...more }, hook)

t.test('a valid answer passes unchanged', async (t) => {
  t.strictSame(passed({}), { status: { phase: 'Running' }, children: [JOB] })
  const more = { events: [], deleteJobs: [], resyncAfterSeconds: 7, finalized: false }
  t.strictSame(passed(more), { ...answer, resyncAfterSeconds: 7 })
  t.strictSame(passed({ finalized: true }, 'finalize'), { ...answer, finalized: true })
  const here = { ...JOB, metadata: { ...JOB.metadata, namespace: 'ns', labels: { a: 'b' } } }
  t.strictSame(passed({ children: [here] }).children, [here])
})

t.test('an observed child is returned, or pruned by name', async (t) => {
  const pruned = [{ kind: 'Job', name, reason: 'it has ended' }]
  t.strictSame(passed({ children: [], pruned }).children, [])
  const message = `the observed child Job/${name} is neither returned nor pruned`
  t.throws(() => passed({ children: [] }), { message })
  const other = [{ kind: 'Job', name: 'other', reason: 'it has ended' }]
  t.throws(() => passed({ children: [], pruned: other }), { message })
})

const REJECTED: [what: string, more: object, message: string][] = [
  ['no status', { status: undefined }, 'the status is missing'],
  ['a status that is null', { status: null }, 'the status is missing'],
  ['a status that is text', { status: 'Running' }, 'the status is missing'],
  [
    'a phase that is none',
    { status: { conditions: [{ type: 1 }] } },
    'status.conditions.0.status: Expected required property',
  ],
  ['no children', { children: undefined }, 'the children are missing'],
  ['children that are no list', { children: {} }, 'the children are missing'],
  ['a null', { children: [{ ...JOB, spec: { a: [null] } }] }, 'children.spec.a.0 contains a null'],
  ['a child twice', { children: [JOB, JOB] }, `child Job/${name} is listed twice`],
  [
    'a child of another kind',
    { children: [JOB, { ...JOB, kind: 'Pod' }] },
    `child Pod/${name} has a kind that is not declared`,
  ],
  [
    'a child elsewhere',
    { children: [{ ...JOB, metadata: { name, namespace: 'other' } }] },
    `child Job/${name} is in another namespace`,
  ],
  [
    "Metacontroller's own label",
    { children: [{ ...JOB, metadata: { name, labels: { 'controller-uid': 'u' } } }] },
    `child Job/${name} sets the label controller-uid`,
  ],
  ['the end in a sync', { finalized: true }, 'finalized is set in an answer to sync'],
  ['a resync at once', { resyncAfterSeconds: 0 }, 'resyncAfterSeconds is 0'],
  ['a resync in the past', { resyncAfterSeconds: -1 }, 'resyncAfterSeconds is -1'],
  ['a resync that is no time', { resyncAfterSeconds: NaN }, 'resyncAfterSeconds is NaN'],
]

for (const [what, more, message] of REJECTED) {
  t.test(`${what} in an answer is rejected: ${message}`, async (t) => {
    t.throws(() => passed(more), { message })
  })
}
