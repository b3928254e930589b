/** A VecRestore while its Job works, and what its status says in the end. */
import t from 'tap'
import { unchanged } from '../../../hooks/request.ts'
import { restoreRbac } from '../../../hooks/restore/job.ts'
import { sync } from '../../../hooks/restore/sync.ts'
import { ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { statusSummary } from '../decisions.ts'
import { ready, report, restore, restoreJob, result } from './objects.ts'

const unchangedRbac = restoreRbac(restore()).map((right) => unchanged(right as never))

t.test('Downloading until the manifest was read, then Restoring, with what is done', async (t) => {
  const jobs = [restoreJob()]
  const begun = sync(ready({ jobs, progress: report() }), context)
  t.match(begun.status, { phase: 'Downloading', startTime: '2026-03-01T11:56:40Z' })
  const started = { type: 'Normal', reason: 'RestoreStarted', message: 'restoring from b' }
  matchWhole(t, begun.events, [started])
  const current = {
    collection: 'new',
    number: 2,
    nodesDone: 0,
    nodes: 3,
    isOurs: true,
    step: 'node 1: takes 1 KiB',
  }
  const message = 'collection 2 of 2 (new)'
  const progress = report({ message, restore: result({ current }) })
  const decision = sync(ready({ jobs, progress }), context)
  t.strictSame(decision.status.restoredCollections, [
    { name: 'docs', status: 'Completed', size: '512 B', pointsCount: 7 },
    { name: 'new', originalName: 'old', status: 'Restoring' },
  ])
  t.strictSame(decision.status.progress, {
    collectionsTotal: 2,
    collectionsCompleted: 1,
    currentCollection: 'new',
    percentage: 25,
  })
  t.strictSame(statusSummary(decision), ['Restoring', 'RestoreRunning', message])
  t.equal(decision.resyncAfterSeconds, 30)
  t.strictSame(decision.children, [...unchangedRbac, unchanged(jobs[0] as never)])
})

t.test('before the Job says what it does, the restore has started', async (t) => {
  const jobs = [restoreJob()]
  const started = ['Downloading', 'RestoreRunning', 'the restore has started']
  t.strictSame(statusSummary(sync(ready({ jobs, progress: report() }), context)), started)
})

t.test('the progress in the status stays when the report is removed', async (t) => {
  const status = {
    phase: 'Restoring' as const,
    sourceBackup: 'b',
    startTime: ago(900),
    restoredCollections: [{ name: 'docs', status: 'Completed' as const }],
    progress: { collectionsTotal: 2, collectionsCompleted: 1, percentage: 25 },
  }
  const observed = ready({ restore: restore({ status }), jobs: [restoreJob()] })
  const { conditions, ...left } = sync(observed, context).status
  t.strictSame(left, { ...status, jobName: 'r-restore-b2c51-1' })
  const first = sync({ ...observed, restore: restore(), progress: report() }, context).status
  t.notOk('restoredCollections' in first)
  t.notOk('progress' in first)
  t.equal(conditions?.length, 1)
})

t.test('a report that was removed does not bring back an earlier phase', async (t) => {
  const status = { phase: 'Downloading', startTime: ago(300) } as const
  const observed = ready({ restore: restore({ status }), jobs: [restoreJob()] })
  t.equal(sync(observed, context).status.phase, 'Downloading')
})

t.test('a Job that has just ended without a report leaves the restore as it was', async (t) => {
  const status = { phase: 'Restoring', startTime: ago(300) } as const
  const jobs = [restoreJob({ ended: ['Complete', 5] })]
  const decision = sync(ready({ restore: restore({ status }), jobs }), context)
  t.strictSame(statusSummary(decision), ['Restoring', 'RestoreRunning', 'the restore has started'])
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('the status has the error of a failed collection', async (t) => {
  const collections = [{ name: 'docs', status: 'Failed' as const, error: 'is red' }]
  const progress = report({ restore: result({ collections }) })
  const { status } = sync(ready({ jobs: [restoreJob()], progress }), context)
  t.strictSame(status.restoredCollections, collections)
})

t.test('a restarted pod does not return to an earlier phase', async (t) => {
  const status = { phase: 'Restoring', startTime: ago(300) } as const
  const observed = ready({ restore: restore({ status }), jobs: [restoreJob()], progress: report() })
  const decision = sync(observed, context)
  t.equal(decision.status.phase, 'Restoring')
  t.strictSame(decision.events, [], 'its start is reported once')
})

t.test('all collections done: Completed, with `Restored n/m`', async (t) => {
  const done = result({
    completed: 2,
    bytes: 2048,
    notes: ['alias x points to y and was not changed'],
  })
  const progress = report({ state: 'Done', restore: done })
  const decision = sync(
    ready({ jobs: [restoreJob({ ended: ['Complete', 5] })], progress }),
    context,
  )
  matchWhole(t, decision.status, {
    phase: 'Completed',
    completionTime: '2026-03-01T11:59:30Z',
    progress: { collectionsTotal: 2, collectionsCompleted: 2, percentage: 100 },
    conditions: [
      { type: 'Complete', status: 'True', reason: 'RestoreCompleted', message: 'Restored 2/2' },
    ],
  })
  t.match(decision.events?.at(-1), {
    reason: 'RestoreCompleted',
    message: 'Restored 2/2, 2 KiB; alias x points to y and was not changed',
  })
  const { notes: _, ...plain } = done
  const jobs = [restoreJob({ ended: ['Complete', 5] })]
  const quiet = sync(ready({ jobs, progress: report({ state: 'Done', restore: plain }) }), context)
  t.equal(quiet.events?.at(-1)?.message, 'Restored 2/2, 2 KiB')
})

t.test('any collection failed: Failed, and error is the first failure', async (t) => {
  const failed = result({ failed: 1, error: 'docs is red: no space left' })
  const progress = report({ state: 'Failed', message: 'Restored 1/2', restore: failed })
  const decision = sync(ready({ jobs: [restoreJob({ ended: ['Failed', 5] })], progress }), context)
  t.strictSame(statusSummary(decision), ['Failed', 'RestoreFailed', 'Restored 1/2'])
  t.equal(decision.status.error, 'docs is red: no space left')
})

t.test('collections that the report has no space for are counted in the status', async (t) => {
  const progress = report({
    restore: result({ unlisted: { completed: 7, failed: 2, pending: 0 } }),
  })
  const { status } = sync(ready({ jobs: [restoreJob()], progress }), context)
  t.strictSame(status.unlistedCollections, { completed: 7, failed: 2 })
  const later = ready({ jobs: [restoreJob()], restore: restore({ status }) })
  t.strictSame(sync(later, context).status.unlistedCollections, { completed: 7, failed: 2 })
})

t.test('a crashed restore names the collection whose replication factor was lowered', async (t) => {
  const current = {
    ...{ collection: 'docs', number: 1, nodesDone: 1, nodes: 3, isOurs: false, factor: 2 },
    step: 'node 2: takes 1 KiB',
  }
  const errorAfter = (last: Parameters<typeof report>[0]) =>
    sync(
      ready({
        jobs: [restoreJob({ ended: ['Failed', 60] })],
        progress: report({ restore: result({ current }), ...last }),
      }),
      context,
    ).status.error ?? ''
  t.match(
    errorAfter({ state: 'Started' }),
    /^Job crashed \d+ times; replication_factor of docs may still be 1 at the target: set it to 2$/,
  )
  // The pod that wrote it had restored the factor.
  t.equal(errorAfter({ state: 'Failed', message: 'no such backup' }), 'no such backup')
})

t.test('its RBAC objects are created again when they are deleted while the Job runs', async (t) => {
  const [account, ...others] = restoreRbac(restore())
  const observed = ready({ jobs: [restoreJob()], progress: report(), children: others })
  const { children } = sync(observed, context)
  t.strictSame(children.at(-1), account)
  t.equal(children.length, others.length + 2)
  const { backup: _, ...withoutBackup } = observed
  t.equal(
    sync(withoutBackup, context).children.length,
    others.length + 1,
    'it may name another account',
  )
})
