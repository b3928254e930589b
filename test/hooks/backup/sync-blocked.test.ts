/** Jobs of a VecBackup that crash, report nothing or disappear, and the state after the end. */
import t from 'tap'
import type { BackupStatus } from '../../../crds/backup.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Observed } from '../../../hooks/backup/observe.ts'
import { sync } from '../../../hooks/backup/sync.ts'
import { unchanged } from '../../../hooks/request.ts'
import { NOW, ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, ready, report, dataJob } from './objects.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { createdJob, statusSummary } from '../decisions.ts'
import { rbac } from './decisions.ts'

t.test('a Job that ended without a final report is checked again in 2 s', async (t) => {
  const jobs = [dataJob({ ended: ['Failed', 29] })]
  const decision = sync(ready({ jobs, progress: report() }), context)
  t.equal(decision.status.phase, 'InProgress')
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('after 30 s it is Failed: Job crashed n times', async (t) => {
  const jobs = [dataJob({ ended: ['Failed', 30], failed: 7 })]
  const decision = sync(ready({ jobs, progress: report() }), context)
  t.match(decision.status, {
    phase: 'Failed',
    error: 'Job crashed 7 times',
    completionTime: '2026-03-01T11:59:30Z',
  })
  const silent = sync(ready({ jobs: [dataJob({ ended: ['Failed', 30] })] }), context)
  t.equal(silent.status.error, 'Job crashed 1 times')
  t.equal(silent.status.startTime, undefined)
})

t.test('a copy of a backup that has ended is not run again (M14)', async (t) => {
  const copyOf = (state: 'Started' | 'Done') =>
    backup({
      annotations: {
        [ANNOTATIONS.progress]: JSON.stringify({
          ...report({ state, at: ago(9000) }),
          uid: 'uid-of-last-year',
        }),
      },
    })
  const decision = sync(ready({ backup: copyOf('Done') }), context)
  const message = `this is a copy of a VecBackup (uid uid-of-last-year) that finished as Done at ${ago(9000)}, and is not run again; to run it, create another VecBackup without the annotation vec-operator.dev/progress`
  t.strictSame(statusSummary(decision), ['Failed', 'BackupFailed', message])
  t.notOk(decision.children.some(({ kind }) => kind === 'Job'))
  t.ok(createdJob(sync(ready({ backup: copyOf('Started') }), context)))
})

t.test('a deleted Job is recreated with the next run number', async (t) => {
  const decision = sync(ready({ progress: report({ run: 3 }) }), context)
  t.match(createdJob(decision)?.metadata.name, /-4$/)
  t.equal(decision.status.phase, 'InProgress')
})

const stuck: [string, Partial<Observed>, string][] = [
  ['silent for 10 minutes', { jobs: [dataJob({ createdAgo: 600 })] }, 'has not reported for 600 s'],
  ['silent with an outdated image', { jobs: [dataJob({ image: 'old' })] }, 'has an outdated image'],
  ['silent with an outdated plan', { jobs: [dataJob({ plan: 'old' })] }, 'has an outdated plan'],
  [
    'that appeared after its Lease went to another',
    {
      jobs: [dataJob()],
      leases: {
        write: { kind: 'write' },
        backup: { kind: 'backup', lease: leaseOf('backup', 'VecBackup/ns/c/uid-c'), jobs: [] },
      },
    },
    'lost its Lease',
  ],
]

for (const [what, parts, why] of stuck) {
  t.test(`a Job ${what} is deleted: JobNotStarted`, async (t) => {
    const decision = sync(ready(parts), context)
    const { name } = dataJob().metadata
    t.strictSame(decision.deleteJobs, [{ namespace: 'ns', name, uid: 'job-1' }])
    t.strictSame(statusSummary(decision), [
      'Pending',
      'JobNotStarted',
      `Job ${name} ${why}; recreating it`,
    ])
    matchWhole(t, decision.events, [{ type: 'Warning', reason: 'JobNotStarted' }])
    t.equal(sync(ready({ ...parts, progress: report() }), context).deleteJobs, undefined, 'frozen')
    const [job] = parts.jobs ?? []
    const deleting = { ...job, metadata: { ...job?.metadata, deletionTimestamp: ago(1) } }
    t.equal(sync(ready({ ...parts, jobs: [deleting as never] }), context).deleteJobs, undefined)
  })
}

t.test('a Job whose report was removed does not count as one that never reported', async (t) => {
  const job = dataJob({ createdAgo: 5000, plan: 'old' })
  const jobs = [{ ...job, status: { ...job.status, ready: 1 } }]
  const started = backup({ status: { phase: 'InProgress', startTime: ago(4000) } })
  const decision = sync(ready({ backup: started, jobs }), context)
  t.equal(decision.deleteJobs, undefined)
  t.equal(decision.status.phase, 'InProgress')
  t.equal(sync(ready({ jobs }), context).deleteJobs?.length, 1, 'a Job that never reported')
})

t.test('a Job that is starting is left alone, also while its cluster is gone', async (t) => {
  const decision = sync(ready({ jobs: [dataJob({ createdAgo: 599 })] }), context)
  t.equal(decision.deleteJobs, undefined)
  t.equal(statusSummary(decision)[1], 'JobNotStarted', 'it has had no pod for a minute')
  const alone = ready({ jobs: [dataJob()] })
  delete alone.cluster
  delete alone.leases
  t.equal(sync(alone, context).deleteJobs, undefined)
})

const ENDED: BackupStatus = { phase: 'Completed', completionTime: ago(600) }

t.test('a backup that has ended outlives its cluster; its Job is kept for the log', async (t) => {
  const jobs = [dataJob({ ended: ['Complete', 600] })]
  const decision = sync(
    {
      backup: backup({ status: ENDED }),
      jobs,
      children: [...rbac, ...jobs] as never,
      secrets: {},
    },
    context,
  )
  t.strictSame(decision, {
    status: { ...ENDED, jobName: 'b-backup-fcdbd-1' },
    children: jobs.map(unchanged),
    pruned: rbac.map(({ kind, metadata }) => ({
      kind,
      name: metadata.name,
      reason: 'the backup has ended',
    })),
  })
})

t.test(
  'RBAC stays until the last pod has ended, the Job until its history time has passed',
  async (t) => {
    const still = ready({ backup: backup({ status: ENDED }), jobs: [dataJob()] })
    t.equal(sync(still, context).pruned, undefined)
    const old = [dataJob({ ended: ['Complete', 90_000] })]
    t.match(sync(ready({ backup: backup({ status: ENDED }), jobs: old }), context).pruned?.[0], {
      kind: 'Job',
      reason: 'its history time is over',
    })
  },
)

t.test(
  'Completed, expiresAt passed (looked at every 300 s): the resource deletes itself',
  async (t) => {
    const expiring = (expiresAt: string) =>
      sync(ready({ backup: backup({ status: { ...ENDED, expiresAt } }) }), context)
    const before = expiring(ago(-1))
    t.equal(before.expire, undefined)
    t.equal(before.resyncAfterSeconds, 300)
    const recorded = expiring(ago(0))
    t.equal(recorded.expire, undefined)
    t.equal(recorded.resyncAfterSeconds, 2)
    const expired = backup({ status: recorded.status })
    matchWhole(t, expired.status, {
      ...ENDED,
      conditions: [{ type: 'Expired', status: 'True', reason: 'RetentionDaysPassed' }],
    })
    const after = sync(ready({ backup: expired }), context)
    t.strictSame(after.expire, { namespace: 'ns', name: 'b', uid: 'uid-b' })
    t.strictSame(after.status, recorded.status)
  },
)

t.test('changes around a finished backup change none of its conditions', async (t) => {
  const complete = { type: 'Complete', status: 'True', reason: 'x', message: 'y' } as const
  const conditions = [{ ...complete, lastTransitionTime: ago(60), observedGeneration: 1 }]
  const ended = backup({ status: { ...ENDED, conditions: [...conditions] } })
  ended.metadata.generation = 2
  const { status } = sync(ready({ backup: ended }), context)
  t.strictSame(status.conditions, [{ ...conditions[0], observedGeneration: 2 }])
})

t.test('the same pass twice gives the same answer', async (t) => {
  t.strictSame(sync(ready(), context), sync(ready(), context))
  const progress = report({ message: 'collection 1 of 1' })
  const first = sync(ready({ jobs: [dataJob()], progress }), context)
  const again = ready({ backup: backup({ status: first.status }), jobs: [dataJob()], progress })
  const later = { ...context, now: new Date(NOW.getTime() + 60_000) }
  t.strictSame(sync(again, later).status, first.status)
})

t.test('a Job that reported and then became silent is reported and not replaced', async (t) => {
  const silent = (secondsAgo: number) =>
    sync(ready({ jobs: [dataJob()], progress: report({ at: ago(secondsAgo) }) }), context)
  t.equal(statusSummary(silent(599))[1], 'BackupRunning')
  const decision = silent(600)
  t.strictSame(statusSummary(decision), [
    'InProgress',
    'JobSilent',
    `Job ${dataJob().metadata.name} has not reported for more than 10 minutes: check its pods and their nodes`,
  ])
  t.equal(decision.deleteJobs, undefined)
  t.ok(decision.events?.some(({ reason, type }) => reason === 'JobSilent' && type === 'Warning'))
  t.strictSame(
    statusSummary(silent(6000))[2],
    statusSummary(decision)[2],
    'the message does not change with time',
  )
})
