/** When a helm run of a VecCluster starts, and how its Job ends. */
import t from 'tap'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import { clusterRbac, desiredRun, findPendingRun } from '../../../hooks/cluster/job.ts'
import type { Job } from '../../../crds/kubernetes.ts'
import type { Decision } from '../../../hooks/cluster/decision.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import {
  ago,
  cluster,
  context,
  helmJob,
  observed,
  progress,
  settings,
  statefulSet,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { createdJob } from '../decisions.ts'
import { condition, rbac, ready, running, sync, upgradePlan } from './decisions.ts'

t.test('RBAC is created before the Job, which reports with it', async (t) => {
  const desired = sync(observed({ liveJobs: [], unfinishedHelmJobs: 0 }), context)
  t.strictSame(
    desired.children.map(({ kind }) => kind),
    ['ServiceAccount', 'Role', 'RoleBinding', 'RoleBinding'],
  )
  t.equal(desired.status.phase, 'Pending')
  t.equal(desired.resyncAfterSeconds, 2)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'HelmStarting',
    'creating ServiceAccount, Role and RoleBinding of the helm Job',
  ])
})

t.test('a new VecCluster gets one helm Job with the rendered values', async (t) => {
  const desired = sync(ready(), context)
  const plan = upgradePlan(desired)
  t.match(plan, {
    release: 'vec-a',
    chart: 'qdrant',
    version: '1.18.3',
    namespace: 'ns',
    run: 1,
    values: { fullnameOverride: 'vec-a' },
  })
  t.equal(desired.children.length, rbac.length + 1)
  const { name = '' } = createdJob(desired)?.metadata ?? {}
  t.strictSame(condition(desired, 'Applied'), ['False', 'HelmStarting', `creating Job ${name}`])
})

t.test('a helm Job that the API server refuses is not called a run', async (t) => {
  const first = sync(ready(), context)
  const later = (desired: Decision) =>
    sync(ready({ cluster: cluster({ status: desired.status }) }), context)
  const refused = later(first)
  t.ok(createdJob(refused), 'it is tried again')
  const { name } = helmJob().metadata
  const message = `Job ${name} could not be created: kubectl describe veccluster a -n ns shows the cause in an Event, such as a quota or an admission webhook`
  t.strictSame(condition(refused, 'Applied'), ['False', 'JobNotStarted', message])
  matchWhole(t, refused.events, [{ type: 'Warning', reason: 'JobNotStarted', message }])
  t.strictSame(condition(later(refused), 'Applied'), ['False', 'JobNotStarted', message])
  t.strictSame(later(refused).events, [], 'once')
  const jobs = [helmJob({ plan: desiredRun(ready(), settings).hash })]
  const created = ready({ cluster: cluster({ status: refused.status }), jobs })
  t.strictSame(
    condition(sync(created, context), 'Applied')?.slice(1),
    ['HelmRunning', 'helm run 1 is in progress'],
    'once it exists, it is no failure of the run',
  )
})

t.test('a helm Job without a running pod is reported after a minute', async (t) => {
  const plan = desiredRun(ready(), settings).hash
  const appliedWith = (createdAgo: number, status: Job['status'] = {}) => {
    const jobs = [{ ...helmJob({ plan, createdAgo }), status }]
    return condition(sync(ready({ jobs }), context), 'Applied')?.slice(1)
  }
  const running = ['HelmRunning', 'helm run 1 is in progress']
  const { name } = helmJob().metadata
  t.strictSame(appliedWith(60), running)
  t.strictSame(appliedWith(61), [
    'JobNotStarted',
    `Job ${name} has no pod: kubectl describe job ${name} -n ns shows the cause in an Event, such as a quota or an admission webhook`,
  ])
  t.strictSame(appliedWith(61, { active: 1, ready: 0 }), [
    'JobNotStarted',
    `the pod of Job ${name} does not run: kubectl describe pods -l job-name=${name} -n ns shows the cause`,
  ])
  t.strictSame(appliedWith(599, { active: 1, ready: 1 }), running)
})

t.test('the operator passes spec.version without a leading v as the chart version', async (t) => {
  const plan = upgradePlan(
    sync(ready({ cluster: cluster({ spec: { version: 'v1.18.3' } }) }), context),
  )
  t.equal(plan.version, '1.18.3')
})

t.test('while a Job runs no new plan is computed', async (t) => {
  const changed = cluster({ generation: 2, spec: { replicas: 3 } })
  const jobs = [helmJob({ run: 1 })]
  const desired = sync(
    ready({ cluster: changed, jobs, progress: progress({ state: 'Started' }) }),
    context,
  )
  t.equal(createdJob(desired), undefined)
  t.ok(desired.children.some(({ kind }) => kind === 'Job'))
  t.equal(findPendingRun(observed({ cluster: changed, jobs }), settings), undefined)
})

t.test('a Job that is being deleted counts as running, and no other is created', async (t) => {
  const jobs = [helmJob({ deletionTimestamp: ago(1) })]
  const desired = sync(ready({ jobs }), context)
  t.equal(createdJob(desired), undefined)
  t.equal(desired.deleteJobs, undefined)
  t.strictSame(condition(desired, 'Applied'), ['False', 'HelmRunning', 'helm run 1 is in progress'])
  t.ok(createdJob(sync(ready(), context)), 'once it is gone')
})

t.test('a Job that only the live list shows is waited for', async (t) => {
  const desired = sync(ready({ liveJobs: [helmJob()] }), context)
  t.equal(createdJob(desired), undefined)
  t.equal(desired.resyncAfterSeconds, 2)
  t.strictSame(condition(desired, 'Applied'), ['False', 'HelmRunning', 'helm run 1 is in progress'])
})

t.test(
  'a running Job is in the status, and checked more often until its first report',
  async (t) => {
    const jobs = [helmJob({ run: 3, plan: desiredRun(ready(), settings).hash })]
    const silent = sync(ready({ jobs }), context)
    const words = ['False', 'HelmRunning', 'helm run 3 is in progress']
    t.strictSame(condition(silent, 'Applied'), words)
    t.equal(silent.resyncAfterSeconds, 10)
    const started = progress({ run: 3, state: 'Started' })
    const reported = sync(ready({ jobs, progress: started }), context)
    t.strictSame(condition(reported, 'Applied'), words)
    t.equal(reported.resyncAfterSeconds, 30)
  },
)

t.test('the last failure stays in the status while the next Job runs', async (t) => {
  const before = {
    ...{ type: 'Applied', status: 'False' as const, reason: 'HelmFailed', message: 'no chart' },
    ...{ lastTransitionTime: ago(60), observedGeneration: 1 },
  }
  const failed = cluster({ status: { conditions: [before] } })
  const jobs = [helmJob({ run: 2 })]
  const report = progress({ run: 2, state: 'Started' })
  const desired = sync(ready({ cluster: failed, jobs, progress: report }), context)
  t.strictSame(condition(desired, 'Applied'), ['False', 'HelmFailed', 'no chart'])
})

t.test('at most 10 helm Jobs are unfinished in all', async (t) => {
  const desired = sync(ready({ unfinishedHelmJobs: 12 }), context)
  t.equal(createdJob(desired), undefined)
  t.strictSame(condition(desired, 'Applied'), [
    'False',
    'HelmConcurrencyLimit',
    '10 helm Jobs are running',
  ])
  const again = (uid: string) => {
    const { metadata, ...rest } = cluster()
    const other = { ...rest, metadata: { ...metadata, uid } }
    const parts = { cluster: other, children: clusterRbac(other) }
    return sync(ready({ ...parts, unfinishedHelmJobs: 10 }), context).resyncAfterSeconds
  }
  const pauses = ['a', 'b', 'c', 'd', 'e'].map((name) => again(name) ?? 0)
  t.ok(
    pauses.every((seconds) => seconds >= 10 && seconds <= 20),
    'not immediately',
  )
  t.equal(new Set(pauses).size, 5, 'not in the same pass')
})

t.test('a Job silent for 10 minutes is deleted: JobNotStarted', async (t) => {
  const jobs = [helmJob({ createdAgo: 601, plan: desiredRun(ready(), settings).hash })]
  const desired = sync(ready({ jobs }), context)
  t.strictSame(desired.deleteJobs, [
    { namespace: 'ns', name: jobs[0]?.metadata.name, uid: 'job-1' },
  ])
  t.strictSame(condition(desired, 'Applied')?.slice(1), [
    'JobNotStarted',
    `Job ${jobs[0]?.metadata.name ?? ''} has not reported for 600 s; recreating it`,
  ])
  const due = [helmJob({ createdAgo: 600, plan: desiredRun(ready(), settings).hash })]
  t.equal(sync(ready({ jobs: due }), context).deleteJobs?.length, 1)
})

t.test('a Job with a running pod continues if a user removes its report', async (t) => {
  const deletedJobs = (
    status: ClusterStatus,
    pods: Job['status'],
    parts: Partial<Observed> = {},
  ) => {
    const job = helmJob({ createdAgo: 900, plan: 'older' })
    const jobs = [{ ...job, status: { ...job.status, ...pods } }]
    return sync(ready({ cluster: cluster({ status }), jobs, ...parts }), context).deleteJobs?.length
  }
  for (const phase of ['Running', 'Upgrading', 'Draining', 'Hibernated'] as const) {
    t.equal(deletedJobs({ phase }, { active: 1, ready: 1 }), undefined, phase)
    t.equal(deletedJobs({ phase }, { active: 1, ready: 0 }), 1, 'its pod does not run')
  }
  t.equal(deletedJobs({ phase: 'Running' }, { active: 1 }), 1)
  t.equal(deletedJobs({ phase: 'Pending' }, { active: 1, ready: 1 }), 1, 'no Job has reported')
  t.equal(deletedJobs({}, { active: 1, ready: 1 }), 1)
  const earlier = { progress: progress({ job: 'job-0' }) }
  t.equal(deletedJobs({ phase: 'Running' }, { ready: 1 }, earlier), 1, 'an earlier Job reported')
  const { cluster: parent } = running()
  const held = leaseOf('backup', 'VecBackup/ns/b/uid-b')
  const leases = {
    write: { kind: 'write' as const, jobs: [] },
    backup: { kind: 'backup' as const, lease: held, jobs: [] },
  }
  const lost = { cluster: parent, statefulSet: statefulSet(), leases }
  t.equal(deletedJobs({}, { ready: 1 }, lost), 1, 'it has lost its Lease')
})

t.test('a silent Job is kept while its plan and image are current', async (t) => {
  const jobs = [helmJob({ createdAgo: 599, plan: desiredRun(ready(), settings).hash })]
  const desired = sync(ready({ jobs }), context)
  t.equal(desired.deleteJobs, undefined)
  t.equal(createdJob(desired), undefined)
  t.equal(condition(desired, 'Applied')?.[1], 'JobNotStarted')
})

for (const parts of [{ plan: 'other' }, { image: 'vec-operator:old' }]) {
  t.test(`a silent Job with another ${Object.keys(parts)[0]} is deleted`, async (t) => {
    const plan = desiredRun(ready(), settings).hash
    t.equal(sync(ready({ jobs: [helmJob({ plan, ...parts })] }), context).deleteJobs?.length, 1)
  })
}

t.test('a helm Job that stops reporting is kept, and the condition says so', async (t) => {
  const jobs = [helmJob({ createdAgo: 5000, plan: desiredRun(ready(), settings).hash })]
  const after = (seconds: number) =>
    sync(ready({ jobs, progress: progress({ state: 'Started', at: ago(seconds) }) }), context)
  t.equal(condition(after(599), 'Applied')?.[1], 'HelmRunning')
  const silent = after(600)
  t.equal(silent.deleteJobs, undefined, 'its pod may still be working')
  const message = `Job ${jobs[0]?.metadata.name ?? ''} has not reported for more than 10 minutes: check its pods and their nodes`
  t.strictSame(condition(silent, 'Applied'), ['False', 'JobSilent', message])
  matchWhole(t, silent.events, [{ type: 'Warning', reason: 'JobSilent', message }])
})

t.test('a Job that has reported keeps its frozen plan', async (t) => {
  const jobs = [helmJob({ plan: 'other', createdAgo: 5000 })]
  const desired = sync(ready({ jobs, progress: progress({ state: 'Started' }) }), context)
  t.equal(desired.deleteJobs, undefined)
  t.equal(createdJob(desired), undefined)
  t.equal(sync(ready({ jobs }), context).deleteJobs?.length, 1, 'before its report')
})

t.test('RBAC of an earlier release is deleted once nothing runs', async (t) => {
  const former = rbac.map((right) => ({
    ...right,
    metadata: { ...right.metadata, name: right.metadata.name.replace('cluster-', 'cluster-0') },
  }))
  const children = [...rbac, ...former]
  const parent = cluster({ status: { ...sync(running(), context).status, appliedRun: 1 } })
  const { pruned: dropped = [] } = sync(running({ cluster: parent, children }), context)
  const names = former.map(({ kind, metadata: { name } }) => `${kind}/${name}`)
  const gone = dropped.map(({ kind, name }) => `${kind}/${name}`)
  t.strictSame(
    names.filter((name) => !gone.includes(name)),
    [],
  )
  t.equal(gone.length, rbac.length + 1, 'and the binding of helm')
  const jobs = [helmJob({ run: 2 })]
  t.equal(sync(running({ cluster: parent, children, jobs }), context).pruned, undefined)
})

t.test('RBAC of helm is deleted once the status says that its run is applied', async (t) => {
  const helm = rbac.at(-1)
  const helmJobs = ({ children }: Decision) =>
    children.some(({ metadata: { name } }) => name === helm?.metadata.name)
  const first = sync(running(), context)
  t.ok(helmJobs(first), 'the cache may not have a Job that was just created')
  const parent = cluster({ status: { ...first.status, appliedRun: 1 } })
  const second = sync(running({ cluster: parent }), context)
  t.notOk(helmJobs(second))
  t.equal(second.children.length, rbac.length - 1, 'the others stay')
  matchWhole(t, second.pruned, [{ kind: 'RoleBinding', name: helm?.metadata.name }])
  const due = sync(
    running({ cluster: parent, progress: progress(), children: rbac.slice(0, -1) }),
    context,
  )
  t.ok(helmJobs(due), 'they are created again before the next run')
  t.notOk(due.children.some(({ kind }) => kind === 'Job'))
})

t.test('RBAC objects that are deleted during a helm run are created again', async (t) => {
  const jobs = [helmJob({ plan: desiredRun(ready(), settings).hash })]
  const [account, ...others] = clusterRbac(cluster())
  const childrenWith = (present: typeof others) =>
    sync(ready({ jobs, children: present }), context).children
  t.strictSame(childrenWith(others).at(-1), account)
  t.equal(childrenWith(others).length, others.length + 2)
  t.equal(childrenWith([account, ...others]).length, others.length + 2)
})
