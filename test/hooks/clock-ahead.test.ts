/**
 * What a clock recorded that was far ahead: reports have the time of the node of their Job, conditions of Jobs that
 * of the control plane. The operator must not wait until its own clock is there.
 */
import t from 'tap'
import type { Progress } from '../../crds/contract/job.ts'
import { BackgroundTasks } from '../../hooks/background-task.ts'
import { desiredRun, uninstallRun } from '../../hooks/cluster/job.ts'
import { finalize } from '../../hooks/cluster/finalize.ts'
import { observeShards } from '../../hooks/cluster/shards/observe.ts'
import { isShardsEndUnknown, lastShardsRun } from '../../hooks/cluster/shards/result.ts'
import type { ShardsSummary } from '../../hooks/cluster/shards/summary.ts'
import { secondsSinceRecorded, timestamp } from '../../hooks/conditions.ts'
import { outcomeOf } from '../../hooks/data-job/observe.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  NOW,
  progress,
  settings,
  statefulSet,
} from '../builders.ts'
import { createdJob } from './decisions.ts'
import { ready, running, sync } from './cluster/decisions.ts'
import { a, b, decided, OVERLAP_SECONDS, OVERLAPPING } from './cluster/keys/situation.ts'
import { fakePorts } from './cluster/ports.ts'
import { observedShards, placedShards, threeNodes } from './cluster/shards.ts'

const AHEAD = ago(-86_400)

t.test('a time that is far ahead is long ago, and one that is a little ahead is not', async (t) => {
  t.equal(secondsSinceRecorded(ago(5), NOW), 5)
  t.equal(secondsSinceRecorded(ago(-600), NOW), -600, 'clocks differ')
  t.equal(secondsSinceRecorded(ago(-601), NOW), Infinity)
  t.ok(Number.isNaN(secondsSinceRecorded('', NOW)))
})

t.test('a failed helm run is repeated', async (t) => {
  const { hash: plan } = desiredRun(ready(), settings)
  for (const state of ['Failed', 'Refused'] as const) {
    const jobs = [helmJob({ plan, ended: ['Failed', 700] })]
    const report = progress({ state, reason: 'HelmFailed', message: 'no chart', plan, at: AHEAD })
    t.ok(createdJob(sync(ready({ jobs, progress: report }), context)), state)
  }
})

t.test('a helm run without a report has crashed, and is repeated', async (t) => {
  const jobs = [helmJob({ plan: 'other', ended: ['Failed', -86_400] })]
  const started = progress({ state: 'Started', at: ago(700) })
  t.ok(createdJob(sync(ready({ jobs, progress: started }), context)))
})

t.test('a failed uninstall is repeated', async (t) => {
  const deleted = cluster({ deletionTimestamp: ago(900), status: { helmRelease: 'vec-a' } })
  const { hash: plan } = uninstallRun({ cluster: deleted })
  const report = progress({ verb: 'uninstall', state: 'Failed', message: 'no', plan, at: AHEAD })
  const desired = finalize(ready({ cluster: deleted, progress: report }), context)
  t.ok(createdJob(desired))
})

t.test('work on the shards is repeated, whatever its last Job reported', async (t) => {
  const run = { verb: 'shards', run: 2, plan: 'same', at: AHEAD } as const
  for (const state of ['Done', 'Failed', 'Refused'] satisfies Progress['state'][]) {
    const last = lastShardsRun(observedShards({ progress: progress({ ...run, state }) }), context)
    t.ok((last?.restSeconds ?? 0) <= 0, state)
  }
  const job = helmJob({ verb: 'shards', run: 2, plan: 'same', ended: ['Failed', -86_400] })
  const unreported = { jobs: [job], progress: progress({ run: 1, applied: applied() }) }
  t.equal(isShardsEndUnknown(unreported, context), false)
  t.ok((lastShardsRun(observedShards(unreported), context)?.restSeconds ?? 0) <= 0)
})

t.test('the nodes are asked again after the clock of the operator was set back', async (t) => {
  let asked = 0
  const { ports } = fakePorts({
    async shards(query) {
      asked += 1
      return { ...placedShards(query), at: AHEAD }
    },
  })
  const tasks = new BackgroundTasks<ShardsSummary>(60)
  const observed = running({ cluster: threeNodes(), statefulSet: statefulSet(3) })
  await observeShards(observed, { ports, tasks }, { ...context, now: new Date(AHEAD) })
  await observeShards(observed, { ports, tasks }, context)
  t.equal(asked, 2)
})

t.test('a data Job without a report has crashed', async (t) => {
  const jobs = [helmJob({ ended: ['Failed', -86_400], failed: 7 })]
  t.match(outcomeOf({ jobs }, context), { phase: 'Failed', error: 'Job crashed 7 times' })
})

t.test('an overlap of API keys does not last until the clock is there', async (t) => {
  const status = { step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: AHEAD } as const
  const { rotation } = decided({ ...OVERLAPPING, status })
  const end = timestamp(new Date(NOW.getTime() + OVERLAP_SECONDS * 1000))
  t.strictSame(rotation?.overlap, { since: timestamp(NOW), end })
})

t.test('the pause after a report that is ahead begins at the end of its Job', async (t) => {
  const { hash: plan } = desiredRun(ready(), settings)
  const report = { state: 'Failed', message: 'no', plan, at: AHEAD } as const
  const jobs = [helmJob({ plan, ended: ['Failed', 10] })]
  const desired = sync(ready({ jobs, progress: progress(report) }), context)
  t.equal(createdJob(desired), undefined, 'the clock of a node may be ahead for long')
  t.equal(desired.resyncAfterSeconds, 20)
  const shards = [helmJob({ verb: 'shards', run: 2, plan: 'same', ended: ['Failed', 100] })]
  const ended = progress({ ...report, verb: 'shards', run: 2, job: 'job-2' })
  t.match(lastShardsRun(observedShards({ jobs: shards, progress: ended }), context), {
    restSeconds: 200,
  })
})
