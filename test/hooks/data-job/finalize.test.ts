/** Deletion of a VecRestore or a VecMigration: its Job is stopped first, and nothing else is done. */
import t from 'tap'
import { finalize, observeDeletion } from '../../../hooks/data-job/finalize.ts'
import { unchanged } from '../../../hooks/request.ts'
import { ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { migration } from '../migration/objects.ts'
import { hookRequest } from '../request.ts'
import { dataJobOf } from './fixtures.ts'

const IDENTITY = { kind: 'migration', name: 'm', uid: 'uid-m', plan: 'p' }
const parent = migration({ status: { phase: 'Running', startTime: ago(300) } })
const ended = dataJobOf(IDENTITY, { run: 1, ended: ['Failed', 60] })
const running = dataJobOf(IDENTITY, { run: 2 })

t.test(
  'a Job in progress is stopped and waited for by name; one that has ended stays for its log',
  async (t) => {
    const children = [ended, running]
    const { status, ...decision } = finalize({ parent, children, liveJobs: children }, context)
    matchWhole(t, status, {
      ...parent.status,
      conditions: [
        {
          ...{ type: 'Complete', status: 'False', reason: 'StoppingJob' },
          message: `waiting for Job ${running.metadata.name} to stop`,
        },
      ],
    })
    t.strictSame(decision, {
      children: children.map(unchanged),
      resyncAfterSeconds: 2,
      deleteJobs: [{ namespace: 'ns', name: running.metadata.name, uid: running.metadata.uid }],
    })
  },
)

t.test('a finished resource keeps its outcome while its Job exits', async (t) => {
  const conditions = [
    {
      ...{ type: 'Complete', status: 'True' as const, reason: 'MigrationCompleted' },
      ...{ message: 'Copied 1/1', lastTransitionTime: ago(5), observedGeneration: 1 },
    },
  ]
  const completed = migration({ status: { phase: 'Completed', conditions } })
  const deletion = { parent: completed, children: [running], liveJobs: [running] }
  t.strictSame(finalize(deletion, context).status, completed.status)
})

t.test('a resource without a Job in progress is finalized at once', async (t) => {
  const { status: _, ...bare } = parent
  t.strictSame(finalize({ parent: bare, children: [], liveJobs: [] }, context), {
    status: {},
    children: [],
    finalized: true,
  })
  t.strictSame(finalize({ parent, children: [ended], liveJobs: [ended] }, context), {
    status: parent.status,
    children: [unchanged(ended)],
    finalized: true,
  })
})

t.test('its Jobs are read live, by its own uid', async (t) => {
  const asked: string[][] = []
  const jobsOf = async (...names: string[]) => {
    asked.push(names)
    return [running]
  }
  t.strictSame(await observeDeletion(hookRequest(parent, [ended]), { jobsOf }), {
    parent,
    children: [ended],
    liveJobs: [running],
  })
  t.strictSame(asked, [['ns', 'uid-m']])
})
