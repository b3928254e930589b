/** The status of a VecBackup while its Job runs, and at its end. */
import t from 'tap'
import type { BackupStatus } from '../../../crds/backup.ts'
import { backupRbac } from '../../../hooks/backup/job.ts'
import { sync } from '../../../hooks/backup/sync.ts'
import { unchanged } from '../../../hooks/request.ts'
import { ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, ready, report, result, dataJob } from './objects.ts'
import { createdJob, statusSummary } from '../decisions.ts'
import { complete, unchangedRbac } from './decisions.ts'

t.test('a backup waits for a Job that only the live list has', async (t) => {
  const decision = sync(ready({ liveJobs: [dataJob({ ended: ['Complete', 1] })] }), context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('by shard the status names the shard of each snapshot', async (t) => {
  const key = 'daily/b/books/shard-4/books-4.snapshot'
  const snapshots = [{ node: 1, shard: 4, snapshotName: 'books-4.snapshot', key }]
  const collections = [{ name: 'books', status: 'Completed' as const, bytes: 1024, snapshots }]
  const current = {
    collection: 'docs',
    number: 2,
    shards: 6,
    shardsDone: 2,
    bytes: 1,
    bytesTotal: 3,
  }
  const progress = report({ backup: { ...result({ collections }), current } })
  const { status } = sync(ready({ jobs: [dataJob()], progress }), context)
  t.strictSame(status.collections, [
    { name: 'books', status: 'Completed', size: '1 KiB', snapshots },
  ])
})

t.test('while the Job runs the status has its progress', async (t) => {
  const message = 'collection 2 of 2 (docs), node 1 of 3: 1.2 GiB of 3.4 GiB, 85 MB/s, 25 s left'
  const snapshots = [{ node: 0, snapshotName: 's', key: 'daily/b/books/node-0/s' }]
  const collections = [
    { name: 'books', status: 'Completed' as const, bytes: 1_503_238_553, snapshots },
    { name: 'docs', status: 'InProgress' as const },
    { name: 'old', status: 'Failed' as const, error: 'node 1: no answer' },
  ]
  const progress = report({ message, backup: result({ collections }) })
  const jobs = [dataJob()]
  const decision = sync(ready({ jobs, progress }), context)
  t.strictSame(decision.status, {
    phase: 'InProgress',
    jobName: 'b-backup-fcdbd-1',
    startTime: '2026-03-01T11:55:00Z',
    s3Path: 's3://store/daily/b',
    totalSize: '1.4 GiB',
    collections: [
      { name: 'books', status: 'Completed', size: '1.4 GiB', snapshots },
      { name: 'docs', status: 'InProgress' },
      { name: 'old', status: 'Failed', error: 'node 1: no answer' },
    ],
    conditions: complete('False', 'BackupRunning', message),
  })
  t.strictSame(decision.children, [...unchangedRbac, ...jobs.map(unchanged)])
  matchWhole(t, decision.events, [{ type: 'Normal', reason: 'BackupStarted' }])
  const later = sync(
    ready({ jobs, progress, backup: backup({ status: decision.status }) }),
    context,
  )
  t.strictSame(later.events, [])
  t.equal(later.resyncAfterSeconds, 30)
})

t.test('startTime stays that of the first attempt', async (t) => {
  const status = { phase: 'InProgress', startTime: ago(900) } as const
  const progress = report({ run: 2, startedAt: ago(10) })
  const jobs = [dataJob({ run: 2 })]
  const decision = sync(ready({ backup: backup({ status }), jobs, progress }), context)
  t.equal(decision.status.startTime, ago(900))
})

t.test('collections that the report has no space for are counted in the status', async (t) => {
  const unlisted = { completed: 70, failed: 0, pending: 3 }
  const running = (status: BackupStatus, unlistedNow?: typeof unlisted) => {
    const of = unlistedNow && report({ backup: result({ unlisted: unlistedNow }) })
    const parts = { backup: backup({ status }), jobs: [dataJob()] }
    return sync(ready({ ...parts, ...(of && { progress: of }) }), context).status
  }
  const status = running({}, unlisted)
  t.strictSame(status.unlistedCollections, { completed: 70, pending: 3 })
  t.strictSame(running(status).unlistedCollections, status.unlistedCollections)
  const none = { completed: 0, failed: 0, pending: 0 }
  t.notOk('unlistedCollections' in running(status, none))
})

t.test('a removed report removes nothing from the status', async (t) => {
  const status: BackupStatus = {
    phase: 'InProgress',
    startTime: ago(900),
    totalSize: '3 B',
    collections: [{ name: 'books', status: 'Completed' }],
  }
  const decision = sync(ready({ backup: backup({ status }), jobs: [dataJob()] }), context)
  t.match(decision.status, status)
})

t.test('before the first report of its Job the backup is started', async (t) => {
  const jobs = [dataJob()]
  const started = ['InProgress', 'BackupRunning', 'the backup has started']
  t.strictSame(statusSummary(sync(ready({ jobs, progress: report() }), context)), started)
  const status = { phase: 'InProgress', startTime: ago(900) } as const
  const removed = sync(ready({ backup: backup({ status }), jobs }), context)
  t.strictSame(statusSummary(removed).slice(0, 1), ['InProgress'])
})

t.test('a Job that has just ended without a report leaves the backup unchanged', async (t) => {
  const status = { phase: 'InProgress', startTime: ago(900) } as const
  const jobs = [dataJob({ ended: ['Complete', 5] })]
  const decision = sync(ready({ backup: backup({ status }), jobs }), context)
  t.strictSame(statusSummary(decision), ['InProgress', 'BackupRunning', 'the backup has started'])
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('without retentionDays a backup never expires', async (t) => {
  const progress = report({ state: 'Done', backup: result({ completed: 2 }) })
  const { status } = sync(ready({ jobs: [dataJob()], progress }), context)
  t.equal(status.phase, 'Completed')
  t.notOk('expiresAt' in status)
})

t.test('a Job whose clock is behind does not let its backup expire early', async (t) => {
  const at = '2026-02-19T12:00:00Z'
  const progress = report({ state: 'Done', at, backup: result({ completed: 2 }) })
  const kept7 = backup({ spec: { retentionDays: 7 } })
  t.match(kept7.metadata.creationTimestamp, /^2026-03-01T11:00:00/)
  const { status } = sync(ready({ backup: kept7, jobs: [dataJob()], progress }), context)
  t.equal(status.phase, 'Completed')
  t.equal(status.expiresAt, '2026-03-08T11:00:00Z')
})

t.test('every collection succeeded: Completed, with expiresAt from retentionDays', async (t) => {
  const progress = report({ state: 'Done', backup: result({ completed: 2 }) })
  const jobs = [dataJob()]
  const kept30 = backup({ spec: { retentionDays: 30 } })
  const decision = sync(ready({ backup: kept30, jobs, progress }), context)
  t.strictSame(decision.status, {
    phase: 'Completed',
    jobName: 'b-backup-fcdbd-1',
    startTime: '2026-03-01T11:55:00Z',
    s3Path: 's3://store/daily/b',
    totalSize: '1.4 GiB',
    collections: [],
    completionTime: '2026-03-01T11:59:30Z',
    expiresAt: '2026-03-31T11:59:30Z',
    conditions: complete(
      'True',
      'BackupCompleted',
      'Backed up 2/2 collections',
      '2026-03-01T11:59:30Z',
    ),
  })
  matchWhole(t, decision.events, [
    {
      type: 'Normal',
      reason: 'BackupCompleted',
      message: 'Backed up 2/2 collections, 1.4 GiB in s3://store/daily/b',
    },
  ])
  t.strictSame(decision.children, [...unchangedRbac, ...jobs.map(unchanged)])
})

t.test(
  'what the Job notes about a completed backup is in the condition and the Event',
  async (t) => {
    const note = 'collection docs was deleted during the backup and is not in it'
    const done = (message: string) =>
      sync(
        ready({
          jobs: [dataJob()],
          progress: report({ state: 'Done', message, backup: result({ completed: 2 }) }),
        }),
        context,
      )
    const { status, events } = done(`Backed up 2/2 collections; ${note}`)
    t.strictSame(
      status.conditions,
      complete(
        'True',
        'BackupCompleted',
        `Backed up 2/2 collections; ${note}`,
        '2026-03-01T11:59:30Z',
      ),
    )
    t.strictSame(
      events?.map(({ message }) => message),
      [`Backed up 2/2 collections, 1.4 GiB in s3://store/daily/b; ${note}`],
    )
    // Every client that may patch the resource can write the report.
    t.strictSame(
      done('Backed up 9/9 collections').status.conditions,
      complete('True', 'BackupCompleted', 'Backed up 2/2 collections', '2026-03-01T11:59:30Z'),
    )
  },
)

for (const state of ['Failed', 'Refused'] as const) {
  t.test(
    `any collection failed: Failed with the error of the first failure (${state})`,
    async (t) => {
      const found = result({ failed: 1, error: 'books: node 1: no space left on device' })
      const progress = report({ state, message: 'over', backup: found })
      const decision = sync(
        ready({ backup: backup({ spec: { retentionDays: 1 } }), jobs: [dataJob()], progress }),
        context,
      )
      t.equal(decision.status.error, 'books: node 1: no space left on device')
      t.equal(decision.status.expiresAt, undefined)
      t.strictSame(
        decision.status.conditions,
        complete('False', 'BackupFailed', 'Backed up 1/2 collections', '2026-03-01T11:59:30Z'),
      )
      matchWhole(t, decision.events, [{ type: 'Warning', reason: 'BackupFailed' }])
    },
  )
}

t.test('a failure without a collection has the message of the Job', async (t) => {
  const refused = report({ state: 'Refused', message: 'prefix holds another backup' })
  t.equal(sync(ready({ progress: refused }), context).status.error, 'prefix holds another backup')
  t.equal(
    sync(ready({ progress: report({ state: 'Failed' }) }), context).status.error,
    'run 1 failed',
  )
})

t.test('a backup with a final report never starts another Job, whatever is missing', async (t) => {
  const progress = report({ state: 'Done', backup: result() })
  const decision = sync({ ...ready({ progress }), cluster: undefined as never }, context)
  t.equal(decision.status.phase, 'Completed')
  t.equal(createdJob(decision), undefined)
})

t.test('its RBAC objects are created again when they are deleted while the Job runs', async (t) => {
  const [account, ...others] = backupRbac(backup())
  const observed = ready({ jobs: [dataJob()], progress: report(), children: others })
  const { children } = sync(observed, context)
  t.strictSame(children.at(-1), account)
  t.equal(children.length, others.length + 2)
})
