/** How a failed helm run is reported, and for how long. */
import t from 'tap'
import {
  isFailureReason,
  lastFailure,
  previousFailure,
  reportsEndOf,
} from '../../../hooks/cluster/helm-result.ts'
import {
  ago,
  cluster,
  context,
  helmJob,
  observed,
  progress,
  type JobOverrides,
} from '../../builders.ts'

const started = progress({ state: 'Started' })

function failureWith(job: JobOverrides, report: ReturnType<typeof progress> = started) {
  return lastFailure(observed({ jobs: [helmJob(job)], progress: report }), context)
}

t.test('a Job that ended without a report counts as crashed after 30 s', async (t) => {
  t.equal(failureWith({ ended: ['Failed', 29] }), 'unknown')
  t.strictSame(failureWith({ ended: ['Failed', 30], plan: 'p', failed: 3 }), {
    reason: 'JobCrashed',
    message: 'Job crashed 3 times',
    plan: 'p',
    failedAt: ago(30),
    rejected: false,
  })
  t.match(failureWith({ ended: ['Complete', 30] }), { message: 'Job crashed 1 times' })
})

t.test('a Job that still runs has not failed, and no Job is no failure', async (t) => {
  t.equal(failureWith({}), undefined)
  t.equal(lastFailure(observed(), context), undefined)
  t.match(failureWith({ ended: ['Failed', 30] }), { reason: 'JobCrashed' })
})

t.test('the status has the failure of the report, and defaults for missing parts', async (t) => {
  const report = { run: 1, plan: 'p', at: ago(7) }
  const failed = { ...report, reason: 'NoChart', message: 'no such chart' }
  const job = { ended: ['Failed', 5] } satisfies JobOverrides
  t.strictSame(failureWith(job, progress({ ...failed, state: 'Refused' })), {
    ...{ reason: 'NoChart', message: 'no such chart', plan: 'p', failedAt: ago(7) },
    rejected: true,
  })
  t.strictSame(failureWith(job, progress({ ...report, state: 'Failed' })), {
    ...{ reason: 'HelmFailed', message: 'the helm run failed', plan: 'p', failedAt: ago(7) },
    rejected: false,
  })
  t.equal(failureWith(job, progress({ ...failed, state: 'Done' })), undefined)
})

t.test('a report is final for its own Job and for all before it', async (t) => {
  const job = helmJob({ run: 2 })
  t.ok(reportsEndOf(progress({ run: 2, state: 'Failed' }), job))
  t.notOk(reportsEndOf(progress({ run: 2, state: 'Started' }), job), 'it reported its start')
  t.ok(reportsEndOf(progress({ run: 3, state: 'Started' }), job), 'a later Job has started')
  t.notOk(reportsEndOf(progress({ run: 2, job: 'another' }), job), 'a Job of the same number')
  t.notOk(reportsEndOf(progress({ run: 1 }), job), 'an earlier Job')
  t.notOk(reportsEndOf(undefined, job), 'no report')
})

/** A cluster whose condition Applied says so. */
function reporting(
  reason: string,
  { status = 'False', generation = 1 }: { status?: 'True' | 'False'; generation?: number } = {},
) {
  const words = { reason, message: 'so it was', lastTransitionTime: ago(60) }
  const other = { type: 'Ready', status: 'False' as const, ...words, reason: 'Other' }
  const applied = { type: 'Applied', status, ...words }
  const conditions = [other, applied].map((one) => ({ ...one, observedGeneration: generation }))
  return cluster({ status: { conditions } })
}

t.test('the failure is in the status until a run has succeeded', async (t) => {
  t.strictSame(previousFailure(reporting('HelmFailed')), {
    reason: 'HelmFailed',
    message: 'so it was',
  })
  t.equal(isFailureReason('HelmFailed'), true)
  t.equal(previousFailure(reporting('UpToDate', { status: 'True' })), undefined)
  t.equal(previousFailure(cluster()), undefined)
})

t.test('a failure of another generation is not in the status of this one', async (t) => {
  t.equal(previousFailure(reporting('HelmFailed', { generation: 0 })), undefined)
  t.ok(previousFailure(reporting('HelmFailed', { generation: 1 })))
})

for (const reason of [
  'HelmRunning',
  'HelmStarting',
  'HelmConcurrencyLimit',
  'ClusterBusy',
  'Uninstalling',
  // A status written by the previous release.
  'WaitingForTurn',
]) {
  t.test(`${reason} means that the run is in progress; it is no failure`, async (t) => {
    t.equal(previousFailure(reporting(reason)), undefined)
    t.equal(isFailureReason(reason), false)
  })
}

t.test('a spec or a Secret that was wrong is no failure of a run', async (t) => {
  const withReason = (reason: string) => {
    const condition = { type: 'Applied', status: 'False' as const, reason, message: 'said' }
    const conditions = [{ ...condition, lastTransitionTime: ago(60), observedGeneration: 1 }]
    return previousFailure(cluster({ status: { phase: 'Pending', conditions } }))
  }
  t.strictSame(withReason('HelmFailed'), { reason: 'HelmFailed', message: 'said' })
  // The sync that starts a run has checked both: the condition must not name what is repaired.
  t.equal(withReason('InvalidSecret'), undefined)
  t.equal(withReason('InvalidSpec'), undefined)
})

t.test('a report of the work on shards is no failure of helm', async (t) => {
  const report = progress({ verb: 'shards', run: 2, state: 'Failed', reason: 'TransferFailed' })
  t.equal(lastFailure(observed({ progress: report }), context), undefined)
  const jobs = [helmJob({ ended: ['Complete', 90] }), helmJob({ verb: 'shards', run: 2 })]
  t.equal(lastFailure(observed({ jobs, progress: report }), context), undefined)
  const ofHelm = progress({ run: 2, state: 'Failed', reason: 'TransferFailed' })
  t.match(lastFailure(observed({ progress: ofHelm }), context), { reason: 'TransferFailed' })
})

t.test('a failure of helm stays known after work on shards has replaced its report', async (t) => {
  const report = progress({ verb: 'shards', run: 2 })
  const jobs = [
    helmJob({ ended: ['Failed', 90], plan: 'p' }),
    helmJob({ verb: 'shards', run: 2, ended: ['Complete', 5] }),
  ]
  const failure = { plan: 'p', failedAt: ago(90) }
  t.strictSame(lastFailure(observed({ jobs, progress: report }), context), {
    ...{ reason: 'HelmFailed', message: 'the helm run failed', ...failure, rejected: false },
  })
  const condition = {
    ...{ type: 'Applied', status: 'False' as const, reason: 'VersionSkipped', message: 'no' },
    ...{ lastTransitionTime: ago(90), observedGeneration: 1 },
  }
  const recorded = cluster({ status: { conditions: [condition] } })
  t.strictSame(lastFailure(observed({ cluster: recorded, jobs, progress: report }), context), {
    ...{ reason: 'VersionSkipped', message: 'no', ...failure, rejected: true },
  })
})

t.test('a Job on shards that crashed is no failure of helm', async (t) => {
  const jobs = [helmJob(), helmJob({ verb: 'shards', run: 2, ended: ['Failed', 90] })].slice(1)
  t.equal(lastFailure(observed({ jobs, progress: progress() }), context), undefined)
  const ofHelm = [helmJob({ run: 2, ended: ['Failed', 90] })]
  const crashed = lastFailure(observed({ jobs: ofHelm, progress: progress() }), context)
  t.match(crashed, { reason: 'JobCrashed' })
})
