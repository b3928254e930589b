/** Helm runs of a VecCluster that fail or are rejected, and what starts the next. */
import t from 'tap'
import { Condition } from '../../../crds/schema.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  progress,
  secret,
  settings,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { createdJob } from '../decisions.ts'
import { sync, ready, running, condition, upgradePlan } from './decisions.ts'

t.test('a Helm error keeps the phase; the next run starts after 30 s', async (t) => {
  const { hash: plan } = desiredRun(ready(), settings)
  const jobs = [helmJob({ plan, ended: ['Failed', 10] })]
  const failed = { state: 'Failed', reason: 'HelmFailed', message: 'no chart', plan } as const
  const early = sync(ready({ jobs, progress: progress({ ...failed, at: ago(10) }) }), context)
  t.equal(createdJob(early), undefined)
  t.equal(early.status.phase, 'Pending')
  t.strictSame(condition(early, 'Applied'), ['False', 'HelmFailed', 'no chart'])
  t.equal(early.resyncAfterSeconds, 20)
  matchWhole(t, early.events, [{ type: 'Warning', reason: 'HelmFailed', message: 'no chart' }])
  const late = sync(ready({ jobs, progress: progress({ ...failed, at: ago(31) }) }), context)
  t.equal(upgradePlan(late).run, 2)
  t.strictSame(condition(late, 'Applied'), ['False', 'HelmFailed', 'no chart'])
  const due = sync(ready({ jobs, progress: progress({ ...failed, at: ago(30) }) }), context)
  t.equal(upgradePlan(due).run, 2)
})

t.test('a changed spec does not wait for the pause after a Helm error', async (t) => {
  const jobs = [helmJob({ plan: 'older', ended: ['Failed', 1] })]
  const report = progress({ state: 'Failed', plan: 'older', at: ago(1) })
  t.ok(createdJob(sync(ready({ jobs, progress: report }), context)))
})

t.test('a rejection is final for its plan and checked again after 10 minutes', async (t) => {
  const { hash: plan } = desiredRun(ready(), settings)
  const jobs = [helmJob({ plan, ended: ['Failed', 500] })]
  const refused = {
    state: 'Refused',
    reason: 'ShardsWouldBeLost',
    message: 'node 2',
    plan,
  } as const
  const early = sync(ready({ jobs, progress: progress({ ...refused, at: ago(500) }) }), context)
  t.equal(createdJob(early), undefined)
  t.strictSame(condition(early, 'Applied'), ['False', 'ShardsWouldBeLost', 'node 2'])
  const { conditions = [] } = early.status as { conditions?: object[] }
  const fields = new Set(conditions.flatMap((entry) => Object.keys(entry)))
  t.strictSame([...fields].toSorted(), Object.keys(Condition.properties).toSorted())
  const late = sync(ready({ jobs, progress: progress({ ...refused, at: ago(601) }) }), context)
  t.ok(createdJob(late))
})

t.test(
  'no helm run starts while the pods form separate clusters, unless the risk is accepted',
  async (t) => {
    const member = (ordinal: number, known: number[]) => ({
      ...({ ordinal, state: 'working', peerId: ordinal, hasLeader: true } as const),
      peers: known.map((id) => ({ id, ordinal: id })),
    })
    const consensus = [member(0, [0]), member(1, [1, 2]), member(2, [1, 2])]
    const changed = { spec: { replicas: 4 } }
    const report = progress({ applied: applied({ planHash: 'former' }) })
    const held = sync(running({ cluster: cluster(changed), consensus, progress: report }), context)
    t.equal(createdJob(held), undefined)
    const [, reason, message] = condition(held, 'Applied') ?? []
    t.strictSame(
      [reason, message],
      [
        'SplitBrain',
        'the pods form 2 separate clusters: vec-a-0 | vec-a-1, vec-a-2; repair the cluster first, or accept the risk with the annotation vec-operator.dev/accept-risk: split-brain',
      ],
    )
    const annotations = { [ANNOTATIONS.acceptRisk]: 'split-brain' }
    const accepted = cluster({ ...changed, annotations })
    t.equal(
      upgradePlan(sync(running({ cluster: accepted, consensus, progress: report }), context)).run,
      2,
    )
    const one = [member(0, [0, 1, 2]), member(1, [0, 1, 2]), member(2, [0, 1, 2])]
    const repaired = sync(
      running({ cluster: cluster(changed), consensus: one, progress: report }),
      context,
    )
    t.equal(upgradePlan(repaired).run, 2)
    t.strictSame(
      desiredRun(running({ cluster: accepted }), settings).hash,
      upgradePlan(repaired).hash,
    )
  },
)

t.test('an annotation that accepts the risk retries a rejected plan immediately', async (t) => {
  const { hash: plan } = desiredRun(ready(), settings)
  const annotations = { [ANNOTATIONS.acceptRisk]: 'shard-loss, nonsense' }
  const desired = sync(
    ready({
      cluster: cluster({ annotations }),
      jobs: [helmJob({ plan, ended: ['Failed', 1] })],
      progress: progress({ state: 'Refused', plan, at: ago(1) }),
    }),
    context,
  )
  t.strictSame(upgradePlan(desired).acceptedRisks, ['shard-loss'])
})

t.test('a Job that ended without a final report is checked again in 2 s', async (t) => {
  const jobs = [helmJob({ ended: ['Failed', 5] })]
  const desired = sync(ready({ jobs, progress: progress({ state: 'Started' }) }), context)
  t.equal(desired.resyncAfterSeconds, 2)
  t.equal(createdJob(desired), undefined)
})

t.test('until it is known how a Job ended, its spec is not called applied', async (t) => {
  const changed = cluster({ generation: 2, spec: { replicas: 2 }, status: { phase: 'Running' } })
  const report = progress({ run: 2, state: 'Started', applied: applied() })
  const appliedAfter = (verb: string, overrides: Parameters<typeof running>[0] = {}) => {
    const jobs = [helmJob({ verb, run: 2, ended: ['Failed', 5] })]
    const observed = running({ jobs, progress: { ...report, verb }, ...overrides })
    return condition(sync(observed, context), 'Applied')
  }
  const waiting = ['False', 'HelmStarting', 'waiting for the report of the last Job']
  t.strictSame(appliedAfter('upgrade', { cluster: changed }), waiting)
  t.strictSame(appliedAfter('shards', { cluster: changed }), waiting)
  const { hash: planHash } = desiredRun(running(), settings)
  const current = { ...report, verb: 'shards', applied: applied({ planHash }) }
  t.equal(appliedAfter('shards', { progress: current })?.[0], 'True')
})

t.test('a Job that crashed is a failed run: Job crashed n times', async (t) => {
  const { hash: plan } = desiredRun(ready(), settings)
  const jobs = [helmJob({ plan, ended: ['Failed', 40], failed: 7 })]
  const desired = sync(ready({ jobs, progress: progress({ state: 'Started' }) }), context)
  t.equal(upgradePlan(desired).run, 2)
  t.strictSame(condition(desired, 'Applied'), ['False', 'JobCrashed', 'Job crashed 7 times'])
})

t.test('an invalid spec stops helm with a condition that names the field', async (t) => {
  const spec = { config: { cluster: { enabled: false } } }
  const desired = sync(ready({ cluster: cluster({ spec }) }), context)
  t.equal(createdJob(desired), undefined)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'InvalidSpec',
    'spec.config.cluster.enabled is false, but spec.cluster.enabled has true: remove the entry',
  ])
  t.equal(desired.resyncAfterSeconds, 30)
})

t.test('a missing key Secret installs nothing; the condition names Secret and key', async (t) => {
  const secretRef = { name: 'key', key: 'api' }
  const spec = { apiKey: { autoGenerate: false, jwtRbac: false, secretRef } }
  const desired = sync(ready({ cluster: cluster({ spec }) }), context)
  t.equal(createdJob(desired), undefined)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'InvalidSecret',
    'spec.apiKey.secretRef: Secret key does not exist',
  ])
})

t.test('an upgrade when a used Secret changes', async (t) => {
  const secretRef = { name: 'key', key: 'api' }
  const spec = { apiKey: { autoGenerate: false, jwtRbac: false, secretRef } }
  const status = { phase: 'Running', appliedRun: 1 } as const
  const secrets = new Map([['key', secret({ api: 'one' })]])
  const before = running({ cluster: cluster({ spec, status }), secrets })
  t.equal(createdJob(sync(before, context)), undefined)
  const changed = { ...before, secrets: new Map([['key', secret({ api: 'two' })]]) }
  t.ok(createdJob(sync(changed, context)))
})

t.test('operator start: one helm upgrade per cluster, asked for by the start mark', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const before = running()
  const annotations = { [ANNOTATIONS.restartedAt]: '2026-03-01T11:00:00Z' }
  const desired = sync({ ...before, cluster: cluster({ status, annotations }) }, context)
  t.equal(upgradePlan(desired).startMark, '2026-03-01T11:00:00Z')
})

t.test('a plan over 96 KiB is rejected naming the field', async (t) => {
  const noise = Array.from({ length: 40_000 }, (_, index) => Math.sin(index).toString(36))
  const desired = sync(ready({ cluster: cluster({ spec: { config: { noise } } }) }), context)
  t.equal(condition(desired, 'Applied')?.[1], 'InvalidSpec')
  t.match(condition(desired, 'Applied')?.[2], /^spec\.config is too large: \d+ of 98304 bytes/)
})

t.test('finished Jobs stay for their history time, and the last three failed runs', async (t) => {
  const jobs = [
    ...[1, 2, 3, 4].map((run) => helmJob({ run, ended: ['Failed', 1000 - run] })),
    helmJob({ run: 5, ended: ['Complete', 90_000] }),
    helmJob({ run: 6, ended: ['Complete', 80_000] }),
  ]
  const found = cluster({ status: { phase: 'Running', appliedRun: 6 } })
  const { hash: planHash } = desiredRun(ready(), settings)
  const report = progress({ run: 6, applied: applied({ planHash, run: 6 }) })
  const desired = sync(running({ cluster: found, jobs, progress: report }), context)
  t.strictSame(
    desired.pruned?.map(({ name, reason }) => [name.at(-1), reason]),
    [
      ['1', 'newer runs are kept'],
      ['5', 'its history time is over'],
    ],
  )
  t.equal(desired.children.filter(({ kind }) => kind === 'Job').length, 4)
})

t.test('a finished Job whose result is not in the status yet is never deleted', async (t) => {
  const jobs = [1, 2].map((run) => helmJob({ run, ended: ['Complete', 90_000] }))
  const { hash: planHash } = desiredRun(ready(), settings)
  const report = progress({ run: 2, applied: applied({ planHash, run: 2 }) })
  const dropped = (appliedRun?: number) => {
    const status = { phase: 'Running' as const, ...(appliedRun !== undefined && { appliedRun }) }
    const found = running({ cluster: cluster({ status }), jobs, progress: report })
    return sync(found, context).pruned?.map(({ name }) => name.at(-1))
  }
  t.strictSame(dropped(), ['1'], 'an earlier one is not the only record')
  t.strictSame(dropped(1), ['1'])
  t.strictSame(dropped(2), ['1', '2'])
})

t.test('a decision that deletes no child names none', async (t) => {
  t.notOk('pruned' in sync(running(), context))
  const jobs = [helmJob({ ended: ['Complete', 60] })]
  t.notOk('pruned' in sync(running({ jobs }), context), 'its history time is not over')
})

t.test('the same pass twice gives the same answer', async (t) => {
  t.strictSame(sync(ready(), context), sync(ready(), context))
  const first = sync(running(), context)
  const again = running({ cluster: cluster({ status: first.status }) })
  t.strictSame(
    sync(again, { ...context, now: new Date('2026-03-02T12:00:00Z') }).status,
    first.status,
  )
})
