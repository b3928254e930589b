/** A VecMigration whose Job is in trouble, or was created before; and one that has ended. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { MigrationPlan } from '../../../crds/contract/migration-job.ts'
import { migrationRbac } from '../../../hooks/migration/job.ts'
import { sync } from '../../../hooks/migration/sync.ts'
import { ago, context, type JobOverrides } from '../../builders.ts'
import { createdJob, jobPlan, statusSummary } from '../decisions.ts'
import { migrationJob, migration, ready, report } from './objects.ts'

t.test('a Job that crashed is reported as crashed once its final report is overdue', async (t) => {
  const early = sync(ready({ jobs: [migrationJob({ ended: ['Failed', 5] })] }), context)
  t.strictSame([early.status.phase, early.resyncAfterSeconds], ['Pending', 2])
  const late = sync(ready({ jobs: [migrationJob({ ended: ['Failed', 40], failed: 7 })] }), context)
  t.strictSame([late.status.phase, late.status.error], ['Failed', 'Job crashed 7 times'])
})

t.test(
  'a copy of a migration that has ended is not run again, and says what to do (M14)',
  async (t) => {
    const formerReport = JSON.stringify({
      ...report({ state: 'Done', at: ago(9000) }),
      uid: 'uid-former',
    })
    const copy = migration({ annotations: { [ANNOTATIONS.progress]: formerReport } })
    const decision = sync(ready({ migration: copy }), context)
    const message = `this is a copy of a VecMigration (uid uid-former) that finished as Done at ${ago(9000)}, and is not run again; to run it, create another VecMigration without the annotation vec-operator.dev/progress`
    t.strictSame(statusSummary(decision), ['Failed', 'MigrationFailed', message])
    t.match(decision.status, { phase: 'Failed', error: message })
    t.equal(createdJob(decision), undefined)
  },
)

const STUCK: [string, JobOverrides][] = [
  ['has an outdated image', { image: 'old' }],
  ['has an outdated plan', { plan: 'other' }],
  ['has not reported for 600 s', { createdAgo: 601 }],
]
for (const [why, parts] of STUCK) {
  t.test(`a Job that ${why} is deleted and recreated`, async (t) => {
    const decision = sync(ready({ jobs: [migrationJob(parts)] }), context)
    t.strictSame(decision.deleteJobs, [
      { namespace: 'ns', name: migrationJob().metadata.name, uid: 'job-1' },
    ])
    t.match(statusSummary(decision)[2], why)
    t.equal(decision.events?.[0]?.reason, 'JobNotStarted')
  })
}

t.test('a Job that has reported is left alone, whatever changes around it', async (t) => {
  const jobs = [migrationJob({ plan: 'other', image: 'old', createdAgo: 9000 })]
  const decision = sync(ready({ jobs, clusters: {}, progress: report() }), context)
  t.equal(decision.deleteJobs, undefined)
  t.equal(decision.children.filter(({ kind }) => kind === 'Job').length, 1)
})

t.test('a Job whose clusters are deleted stays until its first report', async (t) => {
  const job = migrationJob()
  const decision = sync(ready({ jobs: [job], clusters: {} }), context)
  t.equal(decision.deleteJobs, undefined)
  t.strictSame(
    decision.children.filter(({ kind }) => kind === 'Job').map(({ metadata }) => metadata.name),
    [job.metadata.name],
  )
})

t.test('a Job that Metacontroller does not show yet is not created twice', async (t) => {
  const decision = sync(ready({ liveJobs: [migrationJob()] }), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(statusSummary(decision)[2], 'the Job was just created')
})

t.test('the next Job of a migration has the next number', async (t) => {
  const progress = report({ run: 3 })
  t.equal(jobPlan(sync(ready({ progress }), context), MigrationPlan).run, 4)
})

t.test(
  'a migration that has ended keeps its status and its Job, and never gets another',
  async (t) => {
    const status = { phase: 'Failed' as const, error: 'no' }
    const observed = ready({
      migration: migration({ status }),
      clusters: {},
      jobs: [migrationJob({ ended: ['Complete', 60] })],
    })
    const decision = sync(observed, context)
    t.strictSame(decision.status, { ...status, jobName: 'm-migration-aa424-1' })
    t.strictSame(
      decision.children.map(({ kind }) => kind),
      ['Job'],
    )
    t.strictSame(
      decision.pruned,
      migrationRbac(migration()).map(({ kind, metadata: { name } }) => {
        return { kind, name, reason: 'the migration has ended' }
      }),
    )
    const old = sync(
      { ...observed, jobs: [migrationJob({ ended: ['Complete', 90_000] })] },
      context,
    )
    t.ok(old.pruned?.some(({ kind }) => kind === 'Job') ?? false)
  },
)
