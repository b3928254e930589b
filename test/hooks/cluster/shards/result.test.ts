/** How the last Job on the shards ended, as far as its report, its Job or the status says. */
import t from 'tap'
import { isShardsEndUnknown, lastShardsRun } from '../../../../hooks/cluster/shards/result.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import { ago, applied, context, helmJob, progress, type JobOverrides } from '../../../builders.ts'
import { observedShards, threeNodes } from '../shards.ts'

const PLAN = 'plan-of-the-job'
/** A later helm run has replaced the report of the Job on the shards. */
const REPLACED = progress({ run: 3, applied: applied() })

function shardsJob(overrides: JobOverrides = {}) {
  return helmJob({ verb: 'shards', run: 2, plan: PLAN, ...overrides })
}

function lastRun(parts: Partial<Observed>) {
  return lastShardsRun(observedShards(parts), context)
}

function placedBecause(reason: string, status: 'True' | 'False' = 'False') {
  const condition = {
    ...{ type: 'ShardsPlaced', status, reason, message: 'docs/1 failed 3 times' },
    ...{ lastTransitionTime: ago(100), observedGeneration: 1 },
  }
  return threeNodes({ status: { conditions: [condition] } })
}

t.test('nothing is known about a run before a Job has ended', async (t) => {
  t.equal(lastRun({ jobs: [] }), undefined)
  const { progress: _, ...unreported } = observedShards()
  t.equal(lastShardsRun(unreported, context), undefined)
  t.equal(lastRun({ jobs: [shardsJob()] }), undefined)
  const started = progress({ verb: 'shards', run: 2, state: 'Started', plan: PLAN })
  t.equal(lastRun({ jobs: [], progress: started }), undefined)
})

t.test('the report of a helm run does not change the result of the work on shards', async (t) => {
  const failed = progress({ state: 'Failed', reason: 'HelmFailed', applied: applied() })
  t.equal(lastRun({ jobs: [], progress: failed }), undefined)
  const jobs = [
    shardsJob({ ended: ['Failed', 100], failed: 7 }),
    helmJob({ run: 3, ended: ['Complete', 20] }),
  ]
  t.match(lastRun({ jobs, progress: REPLACED }), { plan: PLAN, restSeconds: 200 })
})

t.test('a report without a reason is a failed transfer', async (t) => {
  const report = { verb: 'shards', run: 2, state: 'Failed', plan: PLAN, at: ago(100) } as const
  t.strictSame(lastRun({ progress: progress(report) }), {
    plan: PLAN,
    failure: { reason: 'TransferFailed', message: 'the work on the shards failed' },
    restSeconds: 200,
  })
  const known = { reason: 'NoCapacity', message: 'no node has space' }
  t.match(lastRun({ progress: progress({ ...report, ...known }) }), { failure: known })
})

t.test('the report of an earlier Job says nothing about a later one', async (t) => {
  const report = progress({
    verb: 'shards',
    run: 1,
    state: 'Failed',
    plan: 'earlier',
    at: ago(400),
  })
  const jobs = [shardsJob({ ended: ['Complete', 20] })]
  t.strictSame(lastRun({ jobs, progress: report }), { plan: PLAN, restSeconds: 40 })
})

t.test('for one minute after a completed Job its plan counts as done', async (t) => {
  const jobs = [shardsJob({ ended: ['Complete', 20] })]
  t.strictSame(lastRun({ jobs, progress: REPLACED }), { plan: PLAN, restSeconds: 40 })
})

t.test('a failure that the status has recorded outlives its report', async (t) => {
  const jobs = [shardsJob({ ended: ['Failed', 100], failed: 7 })]
  const failureWith = (cluster: Observed['cluster']) =>
    lastRun({ cluster, jobs, progress: REPLACED })?.failure
  for (const reason of ['TransferFailed', 'JobCrashed']) {
    t.strictSame(failureWith(placedBecause(reason)), { reason, message: 'docs/1 failed 3 times' })
  }
  const crashed = { reason: 'JobCrashed', message: 'Job crashed 7 times' }
  t.strictSame(failureWith(placedBecause('ReplicasNotActive')), crashed)
  t.strictSame(failureWith(placedBecause('TransferFailed', 'True')), crashed)
  t.strictSame(failureWith(threeNodes()), crashed)
})

t.test('the end of a Job is unknown for 30 s, unless its report describes it', async (t) => {
  const isUnknown = (parts: Partial<Observed>) => isShardsEndUnknown(observedShards(parts), context)
  const started = progress({ verb: 'shards', run: 2, state: 'Started', job: 'job-2' })
  const ended = (seconds: number) => [shardsJob({ ended: ['Complete', seconds] })]
  t.equal(isUnknown({ jobs: ended(29), progress: started }), true)
  t.equal(isUnknown({ jobs: ended(30), progress: started }), false)
  t.equal(isUnknown({ jobs: [shardsJob()], progress: started }), false, 'it runs')
  const reported = progress({ verb: 'shards', run: 2, state: 'Done', job: 'job-2' })
  t.equal(isUnknown({ jobs: ended(5), progress: reported }), false)
  t.equal(isUnknown({ jobs: ended(5), progress: REPLACED }), false, 'a later run was reported')
  const helm = [helmJob({ run: 2, ended: ['Complete', 5] })]
  t.equal(isUnknown({ jobs: helm, progress: started }), false, 'it is no Job on the shards')
})
