import t from 'tap'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { clusterRights } from '../../../hooks/cluster/children.ts'
import type { Observed } from '../../../hooks/cluster/observed.ts'
import { dueRun, wantedRun } from '../../../hooks/cluster/plan.ts'
import { sync as decide } from '../../../hooks/cluster/sync.ts'
import { decodePlan, UpgradePlan } from '../../../crds/command.ts'
import type { Child, Context, Desired } from '../../../hooks/protocol.ts'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  observed,
  progress,
  secret,
  settings,
  statefulSet,
} from '../../builders.ts'

const rights = clusterRights(cluster())

/** Decides as the room does: with the run that was found due. */
function sync(found: Observed, at: Context): Desired<ClusterStatus> {
  const due = dueRun(found, at.settings)
  return decide(due === undefined ? found : { ...found, due }, at)
}

/** Ready for a Job: the rights are there and nothing runs. */
function ready(parts: Partial<Observed> = {}): Observed {
  return observed({ children: rights, liveJobs: [], unfinishedHelmJobs: 0, ...parts })
}

/** Applied and rolled out, as far as the parts do not say otherwise. */
function running(parts: Partial<Observed> = {}): Observed {
  const found = parts.cluster ?? cluster({ status: { phase: 'Running', appliedRun: 1 } })
  const planHash = wantedRun(ready({ ...parts, cluster: found }), settings).hash
  return ready({
    statefulSet: statefulSet(),
    progress: progress({ applied: applied({ planHash }) }),
    ...parts,
    cluster: found,
  })
}

function condition({ status }: Desired<ClusterStatus>, type: string) {
  const found = status.conditions?.find((one) => one.type === type)
  return found && [found.status, found.reason, found.message]
}

function jobIn({ children }: Desired<ClusterStatus>): Child | undefined {
  return children.find((child) => child.kind === 'Job' && child['spec'] !== undefined)
}

function planIn(desired: Desired<ClusterStatus>): UpgradePlan {
  const spec = jobIn(desired)?.['spec'] as {
    template: { spec: { containers: { env: { name: string; value: string }[] }[] } }
  }
  const env = spec.template.spec.containers[0]?.env.find(({ name }) => name === 'PLAN')
  return decodePlan(UpgradePlan, env?.value ?? '')
}

t.test('a Job must not start before it may report: the rights come first', async (t) => {
  const desired = sync(observed({ liveJobs: [], unfinishedHelmJobs: 0 }), context)
  t.strictSame(
    desired.children.map(({ kind }) => kind),
    ['ServiceAccount', 'Role', 'RoleBinding', 'RoleBinding'],
  )
  t.equal(desired.status.phase, undefined)
  t.equal(desired.resyncAfterSeconds, 2)
})

t.test('a new VecCluster gets one helm Job with the rendered values', async (t) => {
  const desired = sync(ready(), context)
  const plan = planIn(desired)
  t.match(plan, {
    release: 'vec-a',
    chart: 'qdrant',
    version: '1.18.3',
    namespace: 'ns',
    run: 1,
    createNamespace: false,
    values: { fullnameOverride: 'vec-a' },
  })
  t.equal(desired.children.length, rights.length + 1)
  t.strictSame(condition(desired, 'Applied'), ['False', 'HelmRunning', 'helm run 1 is under way'])
})

t.test('the operator passes spec.version without a leading v as the chart version', async (t) => {
  const plan = planIn(sync(ready({ cluster: cluster({ spec: { version: 'v1.18.3' } }) }), context))
  t.equal(plan.version, '1.18.3')
})

t.test('while a Job has not ended no new plan is computed', async (t) => {
  const changed = cluster({ generation: 2, spec: { replicas: 3 } })
  const jobs = [helmJob({ run: 1 })]
  const desired = sync(
    ready({ cluster: changed, jobs, progress: progress({ state: 'Started' }) }),
    context,
  )
  t.equal(jobIn(desired), undefined)
  t.ok(desired.children.some(({ kind }) => kind === 'Job'))
  t.equal(dueRun(observed({ cluster: changed, jobs }), settings), undefined)
})

t.test('an observed Job being deleted runs until it is gone, and no other is made', async (t) => {
  const jobs = [helmJob({ deletionTimestamp: ago(1) })]
  const desired = sync(ready({ jobs }), context)
  t.equal(jobIn(desired), undefined)
  t.equal(desired.stop, undefined)
})

t.test('a Job that only the live list shows is waited for', async (t) => {
  const desired = sync(ready({ liveJobs: [helmJob()] }), context)
  t.equal(jobIn(desired), undefined)
  t.equal(desired.resyncAfterSeconds, 2)
})

t.test('at most 10 helm Jobs are unfinished in all', async (t) => {
  const desired = sync(ready({ unfinishedHelmJobs: 10 }), context)
  t.equal(jobIn(desired), undefined)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'WaitingForTurn',
    '10 helm Jobs are running',
  ])
})

t.test('while -write is held no helm run starts; it says for whom it waits', async (t) => {
  const desired = sync(ready({ writeHolder: 'VecRestore ns/r' }), context)
  t.equal(jobIn(desired), undefined)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'WaitingForTurn',
    'waits for VecRestore ns/r',
  ])
  t.equal(desired.resyncAfterSeconds, 30)
})

t.test('a Job silent for 10 minutes is deleted: JobNotStarted', async (t) => {
  const jobs = [helmJob({ createdAgo: 601, plan: wantedRun(ready(), settings).hash })]
  const desired = sync(ready({ jobs }), context)
  t.strictSame(desired.stop, [{ namespace: 'ns', name: jobs[0]?.metadata.name, uid: 'job-1' }])
  t.equal(condition(desired, 'Applied')?.[1], 'JobNotStarted')
})

t.test('a silent Job is left alone while its plan and image are wanted', async (t) => {
  const jobs = [helmJob({ createdAgo: 599, plan: wantedRun(ready(), settings).hash })]
  t.equal(sync(ready({ jobs }), context).stop, undefined)
})

for (const parts of [{ plan: 'other' }, { image: 'vec-operator:old' }]) {
  t.test(`a silent Job with another ${Object.keys(parts)[0]} is deleted`, async (t) => {
    const plan = wantedRun(ready(), settings).hash
    t.equal(sync(ready({ jobs: [helmJob({ plan, ...parts })] }), context).stop?.length, 1)
  })
}

t.test('a Job that has reported keeps its frozen plan', async (t) => {
  const jobs = [helmJob({ plan: 'other', createdAgo: 5000 })]
  const desired = sync(ready({ jobs, progress: progress({ state: 'Started' }) }), context)
  t.equal(desired.stop, undefined)
})

t.test(
  'release applied, pods not ready: Pending, HelmReleaseApplied, looked at after 10 s',
  async (t) => {
    const before = running({ cluster: cluster() })
    const desired = sync({ ...before, statefulSet: statefulSet(1, { readyReplicas: 0 }) }, context)
    t.match(desired.status, {
      phase: 'Pending',
      replicas: 1,
      readyReplicas: 0,
      version: '1.18.3',
      helmRelease: 'vec-a',
      endpoint: 'http://vec-a.ns.svc.cluster.local:6333',
      appliedGeneration: 1,
      appliedRun: 1,
    })
    t.equal(condition(desired, 'Progressing')?.[1], 'HelmReleaseApplied')
    t.strictSame(condition(desired, 'Ready'), ['False', 'ReplicasNotReady', '0/1 replicas ready'])
    t.equal(desired.resyncAfterSeconds, 10)
  },
)

t.test('the endpoint is https when tls.enabled', async (t) => {
  const spec = { tls: { enabled: true, secretRef: { name: 'cert' } } }
  const status = { phase: 'Running', appliedRun: 1 } as const
  const data = { 'tls.crt': 'c', 'tls.key': 'k' }
  const secrets = new Map([['cert', secret(data, 'kubernetes.io/tls')]])
  const desired = sync(running({ cluster: cluster({ spec, status }), secrets }), context)
  t.equal(desired.status.endpoint, 'https://vec-a.ns.svc.cluster.local:6333')
})

t.test(
  'Pending with all replicas ready is Running: RolloutComplete, AllReplicasReady',
  async (t) => {
    const pending = cluster({ status: { phase: 'Pending', appliedRun: 1 } })
    const desired = sync(running({ cluster: pending }), context)
    t.equal(desired.status.phase, 'Running')
    t.strictSame(condition(desired, 'Progressing'), [
      'False',
      'RolloutComplete',
      'run 1 of vec-a is rolled out',
    ])
    t.strictSame(condition(desired, 'Ready'), ['True', 'AllReplicasReady', '1/1 replicas ready'])
    t.strictSame(condition(desired, 'Applied'), ['True', 'UpToDate', 'generation 1 is applied'])
    t.equal(desired.resyncAfterSeconds, 30)
    t.equal(jobIn(desired), undefined)
  },
)

t.test('Running, spec change applied: Upgrading', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const changed = cluster({ status, generation: 2 })
  const { hash: planHash } = wantedRun(ready({ cluster: changed }), settings)
  const desired = sync(
    running({
      cluster: changed,
      progress: progress({ run: 2, applied: applied({ planHash, run: 2 }) }),
    }),
    context,
  )
  t.equal(desired.status.phase, 'Upgrading')
  t.equal(desired.status.appliedRun, 2)
})

t.test('a spec change re-runs the Helm upgrade', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const before = running()
  const changed = { ...before, cluster: cluster({ status, generation: 2, spec: { replicas: 2 } }) }
  const desired = sync(changed, context)
  t.equal(planIn(desired).run, 2)
  t.equal(desired.status.phase, 'Running')
})

for (const [title, status] of [
  ['its generation is not observed yet', { observedGeneration: 0 }],
  ['pods of an older revision are left', { updateRevision: 'r2' }],
  ['pods are missing', { replicas: 0, readyReplicas: 0 }],
] as const) {
  t.test(`Upgrading stays while the StatefulSet has not caught up: ${title}`, async (t) => {
    const upgrading = cluster({ status: { phase: 'Upgrading', appliedRun: 1 } })
    const rolling = running({ cluster: upgrading, statefulSet: statefulSet(1, status) })
    t.equal(sync(rolling, context).status.phase, 'Upgrading')
  })
}

t.test('a StatefulSet older than the helm run proves nothing', async (t) => {
  const pending = cluster({ status: { phase: 'Pending', appliedRun: 1 } })
  const before = running({ cluster: pending })
  const report = progress({
    applied: applied({ ...before.progress?.applied, statefulSetGeneration: 2 }),
  })
  t.equal(sync({ ...before, progress: report }, context).status.phase, 'Pending')
})

t.test('a pod lost later leaves Running and sets Ready=False', async (t) => {
  const desired = sync(running({ statefulSet: statefulSet(1, { readyReplicas: 0 }) }), context)
  t.equal(desired.status.phase, 'Running')
  t.strictSame(condition(desired, 'Ready'), ['False', 'ReplicasNotReady', '0/1 replicas ready'])
})

t.test('a stopped consensus thread keeps a cluster from Running', async (t) => {
  const pending = cluster({ status: { phase: 'Pending', appliedRun: 1 } })
  const consensus = [{ ordinal: 0, state: 'stopped' as const, error: 'no more' }]
  const desired = sync(running({ cluster: pending, consensus }), context)
  t.equal(desired.status.phase, 'Pending')
  t.strictSame(condition(desired, 'Consensus'), ['False', 'ConsensusStopped', 'vec-a-0: no more'])
})

t.test('a pod that does not answer for its consensus makes it Unknown', async (t) => {
  const consensus = [{ ordinal: 0, state: 'unknown' as const }]
  t.strictSame(condition(sync(running({ consensus }), context), 'Consensus'), [
    'Unknown',
    'PodsNotAnswering',
    'no answer from vec-a-0',
  ])
})

t.test('working consensus is a condition', async (t) => {
  const consensus = [{ ordinal: 0, state: 'working' as const }]
  t.equal(condition(sync(running({ consensus }), context), 'Consensus')?.[0], 'True')
})

t.test('a helm run that is handed to a Job is an Event, once', async (t) => {
  const first = sync(ready(), context)
  const started = { type: 'Normal', reason: 'HelmRunning', message: 'helm run 1 is under way' }
  t.match(first.events, [started])
  const { hash: plan } = wantedRun(ready(), settings)
  const seen = cluster({ status: first.status })
  t.strictSame(sync({ ...ready(), cluster: seen, jobs: [helmJob({ plan })] }, context).events, [])
})

t.test('a helm run is told once, though the spec changes while it works', async (t) => {
  const names = [1, 2].map((generation) => {
    const { events = [] } = sync(ready({ cluster: cluster({ generation }) }), context)
    return events.map(({ metadata }) => metadata.name)
  })
  t.equal(names[0]?.length, 1)
  t.strictSame(names[0], names[1])
})

t.test('a pod that is lost or is back is an Event, at most once a minute each', async (t) => {
  const before = (status: 'True' | 'False') => ({
    conditions: [
      {
        ...{ type: 'Ready', status, reason: 'x', message: '' },
        lastTransitionTime: ago(60),
        observedGeneration: 1,
      },
    ],
  })
  const readyEvents = (count: number, status: 'True' | 'False', now = context.now) => {
    const parts = { statefulSet: statefulSet(1, { readyReplicas: count }) }
    const observed = running({ cluster: cluster({ status: before(status) }), ...parts })
    const { events = [] } = sync(observed, { ...context, now })
    return events.filter(({ reason }) => /Ready$/.test(reason))
  }
  const [lost] = readyEvents(0, 'True')
  t.match(lost, { type: 'Warning', reason: 'ReplicasNotReady', message: '0/1 replicas ready' })
  const [back] = readyEvents(1, 'False')
  t.match(back, { type: 'Normal', reason: 'AllReplicasReady' })
  t.strictSame(readyEvents(0, 'False'), [])
  const soon = new Date(context.now.getTime() + 1000)
  t.equal(readyEvents(0, 'True', soon)[0]?.metadata.name, lost?.metadata.name)
  const later = new Date(context.now.getTime() + 60_000)
  t.not(readyEvents(0, 'True', later)[0]?.metadata.name, lost?.metadata.name)
})

t.test('a Helm error keeps the phase; the next run starts after 30 s', async (t) => {
  const { hash: plan } = wantedRun(ready(), settings)
  const jobs = [helmJob({ plan, ended: ['Failed', 10] })]
  const failed = { state: 'Failed', reason: 'HelmFailed', message: 'no chart', plan } as const
  const early = sync(ready({ jobs, progress: progress({ ...failed, at: ago(10) }) }), context)
  t.equal(jobIn(early), undefined)
  t.equal(early.status.phase, undefined)
  t.strictSame(condition(early, 'Applied'), ['False', 'HelmFailed', 'no chart'])
  t.equal(early.resyncAfterSeconds, 20)
  t.match(early.events, [{ type: 'Warning', reason: 'HelmFailed', message: 'no chart' }])
  const late = sync(ready({ jobs, progress: progress({ ...failed, at: ago(31) }) }), context)
  t.equal(planIn(late).run, 2)
  t.strictSame(condition(late, 'Applied'), ['False', 'HelmFailed', 'no chart'])
})

t.test('a changed spec does not wait for the pause after a Helm error', async (t) => {
  const jobs = [helmJob({ plan: 'older', ended: ['Failed', 1] })]
  const report = progress({ state: 'Failed', plan: 'older', at: ago(1) })
  t.ok(jobIn(sync(ready({ jobs, progress: report }), context)))
})

t.test('a refusal is final for its plan and asked again after 10 minutes', async (t) => {
  const { hash: plan } = wantedRun(ready(), settings)
  const jobs = [helmJob({ plan, ended: ['Failed', 500] })]
  const refused = {
    state: 'Refused',
    reason: 'ShardsWouldBeLost',
    message: 'node 2',
    plan,
  } as const
  const early = sync(ready({ jobs, progress: progress({ ...refused, at: ago(500) }) }), context)
  t.equal(jobIn(early), undefined)
  t.strictSame(condition(early, 'Applied'), ['False', 'ShardsWouldBeLost', 'node 2'])
  const late = sync(ready({ jobs, progress: progress({ ...refused, at: ago(601) }) }), context)
  t.ok(jobIn(late))
})

t.test('an annotation that accepts the risk asks a refused plan again at once', async (t) => {
  const { hash: plan } = wantedRun(ready(), settings)
  const annotations = { [ANNOTATIONS.acceptRisk]: 'shard-loss, nonsense' }
  const desired = sync(
    ready({
      cluster: cluster({ annotations }),
      jobs: [helmJob({ plan, ended: ['Failed', 1] })],
      progress: progress({ state: 'Refused', plan, at: ago(1) }),
    }),
    context,
  )
  t.strictSame(planIn(desired).acceptedRisks, ['shard-loss'])
})

t.test('a Job that ended without an end report is looked at again in 2 s', async (t) => {
  const jobs = [helmJob({ ended: ['Failed', 5] })]
  const desired = sync(ready({ jobs, progress: progress({ state: 'Started' }) }), context)
  t.equal(desired.resyncAfterSeconds, 2)
  t.equal(jobIn(desired), undefined)
})

t.test('a Job that crashed is a failed run: Job crashed n times', async (t) => {
  const { hash: plan } = wantedRun(ready(), settings)
  const jobs = [helmJob({ plan, ended: ['Failed', 40], failed: 7 })]
  const desired = sync(ready({ jobs, progress: progress({ state: 'Started' }) }), context)
  t.equal(planIn(desired).run, 2)
  t.strictSame(condition(desired, 'Applied'), ['False', 'JobCrashed', 'Job crashed 7 times'])
})

t.test('an obstacle in the spec stops helm with a condition naming the field', async (t) => {
  const spec = { config: { tls: {} } }
  const desired = sync(ready({ cluster: cluster({ spec }) }), context)
  t.equal(jobIn(desired), undefined)
  t.equal(condition(desired, 'Applied')?.[1], 'SpecRefused')
  t.equal(desired.resyncAfterSeconds, 30)
})

t.test('a missing key Secret installs nothing; the condition names Secret and key', async (t) => {
  const secretRef = { name: 'key', key: 'api' }
  const spec = { apiKey: { autoGenerate: false, jwtRbac: false, secretRef } }
  const desired = sync(ready({ cluster: cluster({ spec }) }), context)
  t.equal(jobIn(desired), undefined)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'SecretNotUsable',
    'spec.apiKey.secretRef: Secret key does not exist',
  ])
})

t.test('an upgrade when a used Secret changes', async (t) => {
  const secretRef = { name: 'key', key: 'api' }
  const spec = { apiKey: { autoGenerate: false, jwtRbac: false, secretRef } }
  const status = { phase: 'Running', appliedRun: 1 } as const
  const secrets = new Map([['key', secret({ api: 'one' })]])
  const before = running({ cluster: cluster({ spec, status }), secrets })
  t.equal(jobIn(sync(before, context)), undefined)
  const changed = { ...before, secrets: new Map([['key', secret({ api: 'two' })]]) }
  t.ok(jobIn(sync(changed, context)))
})

t.test('operator start: one helm upgrade per cluster, asked for by the start mark', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const before = running()
  const annotations = { [ANNOTATIONS.startMark]: '2026-03-01T11:00:00Z' }
  const desired = sync({ ...before, cluster: cluster({ status, annotations }) }, context)
  t.equal(planIn(desired).startMark, '2026-03-01T11:00:00Z')
})

t.test('a plan over 96 KiB is refused naming the field', async (t) => {
  const noise = Array.from({ length: 40_000 }, (_, index) => Math.sin(index).toString(36))
  const desired = sync(ready({ cluster: cluster({ spec: { config: { noise } } }) }), context)
  t.match(condition(desired, 'Applied')?.[2], /^spec\.config is too large: \d+ of 98304 bytes/)
})

t.test('finished Jobs stay for their history time, and the last three failed runs', async (t) => {
  const jobs = [
    ...[1, 2, 3, 4].map((run) => helmJob({ run, ended: ['Failed', 1000 - run] })),
    helmJob({ run: 5, ended: ['Complete', 90_000] }),
    helmJob({ run: 6, ended: ['Complete', 80_000] }),
  ]
  const found = cluster({ status: { phase: 'Running', appliedRun: 6 } })
  const { hash: planHash } = wantedRun(ready(), settings)
  const report = progress({ run: 6, applied: applied({ planHash, run: 6 }) })
  const desired = sync(running({ cluster: found, jobs, progress: report }), context)
  t.strictSame(
    desired.dropped?.map(({ name, reason }) => [name.at(-1), reason]),
    [
      ['1', 'newer failed runs are kept'],
      ['5', 'its history time is over'],
    ],
  )
  t.equal(desired.children.filter(({ kind }) => kind === 'Job').length, 4)
})

t.test('a finished Job whose result the status does not show yet is never dropped', async (t) => {
  const jobs = [helmJob({ run: 1, ended: ['Complete', 90_000] })]
  const { hash: planHash } = wantedRun(ready(), settings)
  const report = progress({ applied: applied({ planHash }) })
  t.equal(sync(running({ cluster: cluster(), jobs, progress: report }), context).dropped, undefined)
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
