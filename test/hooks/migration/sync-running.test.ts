/** A VecMigration while its Job works, and what its status says in the end. */
import t from 'tap'
import { migrationRbac } from '../../../hooks/migration/job.ts'
import { sync } from '../../../hooks/migration/sync.ts'
import { context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { statusSummary } from '../decisions.ts'
import { migrationJob, migration, ready, report, result } from './objects.ts'

t.test('Pending until point counts are read, then Running with its progress', async (t) => {
  const jobs = [migrationJob()]
  const pending = sync(ready({ jobs, progress: report() }), context)
  t.strictSame(statusSummary(pending), [
    'Pending',
    'MigrationStarting',
    'counting the points of the collections',
  ])
  const message = 'waiting for the source ns/b: no answer'
  const waiting = sync(ready({ jobs, progress: report({ message }) }), context)
  t.strictSame(statusSummary(waiting), ['Pending', 'MigrationStarting', message])
  const progress = report({ migration: result(), message: 'collection 2 of 2' })
  const decision = sync(ready({ jobs, progress }), context)
  t.strictSame(statusSummary(decision), ['Running', 'MigrationRunning', 'collection 2 of 2'])
  matchWhole(t, decision.status, {
    startTime: '2026-03-01T11:55:00Z',
    source: 'ns/b',
    progress: {
      collectionsTotal: 2,
      collectionsCompleted: 1,
      pointsTotal: 1000,
      pointsCopied: 750,
      percentage: 75,
    },
    collections: [{ name: 'docs', targetName: 'docs', status: 'Completed' }],
  })
  matchWhole(t, decision.events, [
    {
      reason: 'MigrationStarted',
      message: 'copying 1000 points of 2 collections from ns/b',
    },
  ])
  t.equal(decision.children.length, migrationRbac(migration()).length + 1)
})

t.test('MigrationCompleted: Copied n/m, and all of the points', async (t) => {
  const whole = result({ completed: 2, pointsCopied: 999 })
  const progress = report({ state: 'Done', migration: whole })
  const decision = sync(ready({ jobs: [migrationJob()], progress }), context)
  t.strictSame(statusSummary(decision), ['Completed', 'MigrationCompleted', 'Copied 2/2'])
  t.match(decision.status, {
    progress: { percentage: 100 },
    completionTime: '2026-03-01T11:59:30Z',
  })
  matchWhole(t, decision.events, [
    { reason: 'MigrationCompleted', message: 'Copied 2/2, 999 points' },
  ])
})

t.test('MigrationFailed: the error is that of the first collection that failed', async (t) => {
  const failed = result({ failed: 1, error: 'docs: the source has 5 points, the target 4' })
  const progress = report({ state: 'Failed', message: 'Copied 1/2', migration: failed })
  const decision = sync(ready({ jobs: [migrationJob()], progress }), context)
  t.strictSame(statusSummary(decision), ['Failed', 'MigrationFailed', 'Copied 1/2'])
  t.equal(decision.status.error, 'docs: the source has 5 points, the target 4')
  t.equal(decision.status.progress?.percentage, 75)
  matchWhole(t, decision.events, [
    { type: 'Warning', reason: 'MigrationFailed', message: /docs: the/ },
  ])
})

t.test(
  'a Job that crashed with indexing held back: status.error says what is to be put back',
  async (t) => {
    const position = { collection: 'docs', isOurs: true, before: 0, copied: 5 }
    for (const indexingThreshold of [undefined, 10_000]) {
      const held = indexingThreshold === undefined ? {} : { indexingThreshold }
      const progress = report({ migration: result({ position: { ...position, ...held } }) })
      const jobs = [migrationJob({ ended: ['Failed', 40], failed: 7 })]
      const { status } = sync(ready({ jobs, progress }), context)
      const left = '; indexing_threshold of docs may still be 0 on the target: set it to 10000'
      t.equal(status.error, `Job crashed 7 times${indexingThreshold === undefined ? '' : left}`)
    }
  },
)

t.test('the progress in the status stays when the report is removed', async (t) => {
  const status = {
    phase: 'Running' as const,
    startTime: '2026-03-01T11:00:00Z',
    source: 'ns/b',
    collections: [{ name: 'docs', targetName: 'docs', status: 'Running' as const }],
    progress: {
      ...{ collectionsTotal: 2, collectionsCompleted: 1 },
      ...{ pointsTotal: 1000, pointsCopied: 750, percentage: 75 },
    },
  }
  const decision = sync(
    ready({ migration: migration({ status }), jobs: [migrationJob()] }),
    context,
  )
  t.match(decision.status, status)
})

t.test('collections that the report has no space for are counted in the status', async (t) => {
  const progress = report({
    migration: result({ unlisted: { completed: 7, failed: 2, pending: 0 } }),
  })
  const { status } = sync(ready({ jobs: [migrationJob()], progress }), context)
  t.strictSame(status.unlistedCollections, { completed: 7, failed: 2 })
  const later = ready({ jobs: [migrationJob()], migration: migration({ status }) })
  t.strictSame(sync(later, context).status.unlistedCollections, { completed: 7, failed: 2 })
})

t.test('its RBAC objects are created again when they are deleted while the Job runs', async (t) => {
  const [account, ...others] = migrationRbac(migration())
  const observed = ready({ jobs: [migrationJob()], progress: report(), children: others })
  const { children } = sync(observed, context)
  t.strictSame(children.at(-1), account)
  t.equal(children.length, others.length + 2)
})
