import t from 'tap'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import { LABELS } from '../../../crds/contract/names.ts'
import { finalize } from '../../../hooks/cluster/finalize.ts'
import { clusterRbac, uninstallRun } from '../../../hooks/cluster/job.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  observed,
  progress,
  statefulSet,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { createdJob } from '../decisions.ts'
import { condition } from './decisions.ts'

const rbac = clusterRbac(cluster())
const { hash: plan } = uninstallRun({ cluster: cluster() })

/** A cluster that was installed once and is being deleted. */
function deleting(parts: Partial<Observed> = {}): Observed {
  return observed({
    cluster: cluster({ deletionTimestamp: ago(5), status: { helmRelease: 'vec-a' } }),
    children: rbac,
    liveJobs: [],
    progress: progress(),
    ...parts,
  })
}

/** Why the release still exists. */
function appliedCondition(desired: Desired<ClusterStatus>) {
  return condition(desired, 'Applied')?.slice(1)
}

/** The Events of this answer, and of the same one once the status has it. */
function eventsIn(parts: Partial<Observed>) {
  const events = (found: Desired<ClusterStatus>) =>
    found.events?.map(({ type, reason, message }) => [type, reason, message])
  const first = finalize(deleting(parts), context)
  const { cluster } = deleting()
  const again = deleting({ ...parts, cluster: { ...cluster, status: first.status } })
  return [events(first), events(finalize(again, context))]
}

t.test(
  'a running helm Job is stopped with its pods, and waited for, before the uninstall',
  async (t) => {
    const jobs = [helmJob()]
    const desired = finalize(deleting({ jobs, liveJobs: jobs }), context)
    t.equal(desired.deleteJobs?.length, 1)
    t.equal(desired.finalized, undefined)
    t.equal(desired.children.filter((child) => child['spec'] !== undefined).length, 0)
    t.equal(desired.children.length, rbac.length + 1)
    t.strictSame(appliedCondition(desired), ['Uninstalling', 'waiting for the helm run to stop'])
    t.equal(desired.resyncAfterSeconds, 2)
  },
)

t.test('work on the shards is stopped before the uninstall, too', async (t) => {
  const jobs = [helmJob({ verb: 'shards' })]
  const desired = finalize(deleting({ jobs, liveJobs: jobs }), context)
  t.equal(desired.deleteJobs?.length, 1)
  t.equal(desired.children.filter((child) => child['spec'] !== undefined).length, 0)
  t.strictSame(appliedCondition(desired), [
    'Uninstalling',
    'waiting for the work on the shards to stop',
  ])
})

t.test('of helm and work on the shards that run at once, the helm run is named', async (t) => {
  const jobs = [helmJob({ verb: 'shards' }), helmJob({ run: 2 })]
  const desired = finalize(deleting({ jobs, liveJobs: jobs }), context)
  t.equal(desired.deleteJobs?.length, 2)
  t.strictSame(appliedCondition(desired), ['Uninstalling', 'waiting for the helm run to stop'])
})

t.test('delete: helm uninstall runs once nothing else does', async (t) => {
  const desired = finalize(deleting(), context)
  const job = desired.children.find(({ kind }) => kind === 'Job')
  t.match(job, { metadata: { labels: { 'vec-operator.dev/verb': 'uninstall' } } })
  t.equal(desired.finalized, undefined)
  const { name = '' } = job?.metadata ?? {}
  t.strictSame(appliedCondition(desired), ['Uninstalling', `creating Job ${name}`])
})

t.test(
  'an uninstall Job that the API server refuses, or that gets no pod, is reported',
  async (t) => {
    const first = finalize(deleting(), context)
    const { cluster } = deleting()
    const repeated = finalize(deleting({ cluster: { ...cluster, status: first.status } }), context)
    const { name } = helmJob({ verb: 'uninstall', run: 2 }).metadata
    const refused = `Job ${name} could not be created: kubectl describe veccluster a -n ns shows the cause in an Event, such as a quota or an admission webhook`
    t.strictSame(appliedCondition(repeated), ['JobNotStarted', refused])
    t.ok(repeated.children.some(({ kind }) => kind === 'Job'))
    const again = deleting({ cluster: { ...cluster, status: repeated.status } })
    t.strictSame(appliedCondition(finalize(again, context)), ['JobNotStarted', refused])
    t.strictSame(
      [first, repeated, finalize(again, context)].map(({ events = [] }) =>
        events.map(({ type, reason }) => [type, reason]),
      ),
      [[], [['Warning', 'JobNotStarted']], []],
    )
    const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, createdAgo: 61 })]
    const stuck = finalize(deleting({ jobs, liveJobs: jobs }), context)
    matchWhole(t, appliedCondition(stuck), ['JobNotStarted', / has no pod: kubectl describe job /])
    matchWhole(t, eventsIn({ jobs, liveJobs: jobs }), [
      [['Warning', 'JobNotStarted', / has no pod: /]],
      [],
    ])
  },
)

t.test('the Job of the uninstall has a number above that of every Job there was', async (t) => {
  const ended = (run: number) => [helmJob({ run, ended: ['Complete', 60] })]
  const name = (parts: Partial<Observed>) =>
    finalize(deleting(parts), context).children.find((child) => child['spec'] !== undefined)
      ?.metadata.name
  t.match(name({ jobs: ended(4) }), /-5$/)
  t.match(name({ liveJobs: ended(7) }), /-8$/)
  t.match(name({ progress: progress({ run: 9 }) }), /-10$/)
})

t.test('only onDelete: Delete gives the uninstall volumes to delete: of all nodes', async (t) => {
  const deletedVolumes = (onDelete?: 'Retain' | 'Delete', set?: ReturnType<typeof statefulSet>) => {
    const { persistence } = cluster().spec
    const spec = { replicas: 2, persistence: { ...persistence, ...(onDelete && { onDelete }) } }
    const run = uninstallRun({ cluster: cluster({ spec }), ...(set && { statefulSet: set }) })
    return [run.deletedVolumes, run.hash === plan]
  }
  t.strictSame(deletedVolumes(), [undefined, true])
  t.strictSame(deletedVolumes('Retain'), [undefined, true])
  const chart = ['qdrant-storage', 'qdrant-snapshots']
  t.strictSame(deletedVolumes('Delete'), [{ templates: chart, nodes: 2 }, false])
  const set = statefulSet()
  set.spec.replicas = 3
  set.spec.volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }]
  t.strictSame(deletedVolumes('Delete', set), [{ templates: ['data'], nodes: 3 }, false])
  set.spec.replicas = 0
  t.strictSame(deletedVolumes('Delete', set), [{ templates: ['data'], nodes: 2 }, false])
})

t.test('missing RBAC of the uninstall is created first', async (t) => {
  const desired = finalize(deleting({ children: [] }), context)
  t.strictSame(
    desired.children.map(({ kind }) => kind),
    ['ServiceAccount', 'Role', 'RoleBinding', 'RoleBinding'],
  )
  t.strictSame(appliedCondition(desired), [
    'Uninstalling',
    'creating ServiceAccount, Role and RoleBinding of the uninstall Job',
  ])
})

t.test('an uninstall that cannot start is replaced, also by a newer image', async (t) => {
  const stuck = (parts: Parameters<typeof helmJob>[0]) => {
    const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, ...parts })]
    const desired = finalize(deleting({ jobs, liveJobs: jobs }), context)
    t.equal(desired.finalized, undefined)
    return [...(appliedCondition(desired) ?? []), desired.deleteJobs?.length]
  }
  const name = helmJob({ verb: 'uninstall', run: 2 }).metadata.name
  for (const [parts, why] of [
    [{ createdAgo: 600 }, 'has not reported for 600 s'],
    [{ image: 'vec-operator:old' }, 'has an outdated image'],
    [{ plan: 'other' }, 'has an outdated plan'],
  ] as const) {
    t.strictSame(stuck(parts), ['JobNotStarted', `Job ${name} ${why}; recreating it`, 1])
  }
  const waiting = ['Uninstalling', 'helm uninstall is running', undefined]
  t.strictSame(stuck({ createdAgo: 60 }), waiting)
  t.equal(stuck({ createdAgo: 599 })[2], undefined)
})

t.test(
  'an uninstall that reported continues, and its message says when it becomes silent',
  async (t) => {
    const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, createdAgo: 900 })]
    const reported = (secondsAgo: number) => {
      const started = { run: 2, job: 'job-2', verb: 'uninstall', state: 'Started' as const }
      const report = progress({ ...started, at: ago(secondsAgo) })
      const desired = finalize(deleting({ jobs, liveJobs: jobs, progress: report }), context)
      return [appliedCondition(desired)?.[0], desired.deleteJobs]
    }
    const silent = progress({ run: 2, job: 'job-2', verb: 'uninstall', at: ago(600) })
    const parts = { jobs, liveJobs: jobs, progress: { ...silent, state: 'Started' as const } }
    matchWhole(t, eventsIn(parts), [[['Warning', 'JobSilent', / has not reported /]], []])
    t.strictSame(reported(60), ['Uninstalling', undefined])
    t.strictSame(reported(600), ['JobSilent', undefined])
  },
)

t.test('an uninstall with a running pod continues if a user removes its report', async (t) => {
  const deletedJobs = (phase: ClusterStatus['phase']) => {
    const job = helmJob({ verb: 'uninstall', run: 2, plan, createdAgo: 900 })
    const jobs = [{ ...job, status: { ...job.status, active: 1, ready: 1 } }]
    const status = { ...(phase !== undefined && { phase }), helmRelease: 'vec-a' }
    const { progress: _, ...seen } = deleting({
      cluster: cluster({ deletionTimestamp: ago(900), status }),
      ...{ jobs, liveJobs: jobs },
    })
    return finalize(seen, context).deleteJobs?.length
  }
  t.equal(deletedJobs('Running'), undefined)
  t.equal(deletedJobs('Pending'), 1, 'no Job has reported')
})

t.test('finalize waits for an uninstall in progress', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, plan })]
  const desired = finalize(deleting({ jobs, liveJobs: jobs }), context)
  t.equal(desired.deleteJobs, undefined)
  t.equal(desired.finalized, undefined)
  t.equal(desired.resyncAfterSeconds, 10)
  t.strictSame(appliedCondition(desired), ['Uninstalling', 'helm uninstall is running'])
})

t.test('finalize waits for the result of an ended uninstall', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, ended: ['Failed', 29] })]
  const desired = finalize(deleting({ jobs, liveJobs: jobs }), context)
  t.strictSame(appliedCondition(desired), [
    'Uninstalling',
    'helm uninstall has finished; waiting for its report',
  ])
  t.equal(desired.resyncAfterSeconds, 2)
  t.notOk(desired.children.some((child) => child['spec'] !== undefined))
})

t.test('pods that an uninstall stops are no Event', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, plan })]
  const lastTransitionTime = ago(900)
  const isReady = { type: 'Ready', status: 'True' as const, reason: 'AllReplicasReady' }
  const conditions = [{ ...isReady, message: '1/1 replicas ready', lastTransitionTime }]
  const status = { phase: 'Running' as const, helmRelease: 'vec-a', conditions }
  const stopping = deleting({
    cluster: cluster({ deletionTimestamp: ago(5), status }),
    ...{ jobs, liveJobs: jobs, progress: progress({ applied: applied() }) },
  })
  const desired = finalize(stopping, context)
  t.equal(condition(desired, 'Ready')?.[0], 'False')
  t.strictSame(desired.events, [])
})

t.test('a Job of unknown work is stopped as a helm run is', async (t) => {
  const job = helmJob()
  delete job.metadata.labels
  t.equal(finalize(deleting({ liveJobs: [job] }), context).deleteJobs?.length, 1)
})

t.test('the resource is deleted when the uninstall is done', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, ended: ['Complete', 3] })]
  const report = progress({ verb: 'uninstall', run: 2, state: 'Done' })
  const desired = finalize(deleting({ jobs, liveJobs: jobs, progress: report }), context)
  t.equal(desired.finalized, true)
  t.strictSame(appliedCondition(desired), ['Uninstalled', 'no release exists'])
})

t.test('a failed uninstall is reported and retried after 30 s', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, ended: ['Failed', 3] })]
  const failed = { verb: 'uninstall', run: 2, state: 'Failed', plan, message: 'no' } as const
  const early = finalize(deleting({ jobs, progress: progress({ ...failed, at: ago(3) }) }), context)
  t.equal(early.finalized, undefined)
  t.equal(early.resyncAfterSeconds, 27)
  t.match(early.status.conditions?.at(-1), { type: 'Applied', status: 'False', message: 'no' })
  const report = progress({ ...failed, at: ago(3) })
  t.strictSame(eventsIn({ jobs, progress: report }), [[['Warning', 'HelmFailed', 'no']], []])
  const late = finalize(deleting({ jobs, progress: progress({ ...failed, at: ago(31) }) }), context)
  t.equal(late.children.filter((child) => child['spec'] !== undefined).length, 1)
  const due = finalize(deleting({ jobs, progress: progress({ ...failed, at: ago(30) }) }), context)
  t.equal(due.children.filter((child) => child['spec'] !== undefined).length, 1)
  const soon = finalize(
    deleting({ jobs, progress: progress({ ...failed, at: ago(29.5) }) }),
    context,
  )
  t.equal(soon.resyncAfterSeconds, 1)
})

t.test('of uninstalls that fail without end, the newest Jobs stay', async (t) => {
  const failed = (run: number) => helmJob({ verb: 'uninstall', run, plan, ended: ['Failed', 40] })
  const jobs = [2, 3, 4, 5, 6].map(failed)
  const report = progress({ verb: 'uninstall', run: 6, state: 'Failed', plan, at: ago(40) })
  const desired = finalize(deleting({ jobs, progress: report }), context)
  const created = desired.children.filter(({ kind }) => kind === 'Job')
  const names = created.map((job) => job.metadata.name)
  t.strictSame(
    names,
    [3, 4, 5, 6, 7].map((run) => failed(run).metadata.name),
  )
  t.strictSame(desired.pruned, [
    { kind: 'Job', name: failed(2).metadata.name, reason: 'newer runs are kept' },
  ])
})

t.test('an earlier failed helm run does not delay the uninstall', async (t) => {
  const jobs = [helmJob({ plan: 'older', ended: ['Failed', 3] })]
  const report = progress({ state: 'Failed', plan: 'older', at: ago(3) })
  const desired = finalize(deleting({ jobs, progress: report }), context)
  t.equal(desired.children.filter((child) => child['spec'] !== undefined).length, 1)
})

t.test('in a terminating namespace the resource is deleted without an uninstall', async (t) => {
  t.equal(finalize(deleting({ isNamespaceTerminating: true }), context).finalized, true)
})

t.test('in a terminating namespace a running Job is still stopped first', async (t) => {
  const liveJobs = [helmJob()]
  const desired = finalize(
    deleting({ isNamespaceTerminating: true, liveJobs, jobs: liveJobs }),
    context,
  )
  t.equal(desired.finalized, undefined)
  t.equal(desired.deleteJobs?.length, 1)
})

t.test('a cluster that never had a Job is deleted immediately', async (t) => {
  const never = observed({ cluster: cluster({ deletionTimestamp: ago(1) }), liveJobs: [] })
  t.equal(finalize(never, context).finalized, true)
})

const gone = cluster({ deletionTimestamp: ago(1) })
const done = [helmJob({ ended: ['Complete', 60] })]
const TRACES: [what: string, trace: Partial<Observed>][] = [
  ['its report', { cluster: gone, progress: progress() }],
  ['its StatefulSet', { cluster: gone, statefulSet: statefulSet() }],
  [
    'its status',
    { cluster: cluster({ deletionTimestamp: ago(1), status: { helmRelease: 'vec-a' } }) },
  ],
  ['a Job that is shown', { cluster: gone, jobs: done }],
  ['a Job that is there', { cluster: gone, liveJobs: done }],
  ['a Job that is shown and there', { cluster: gone, jobs: done, liveJobs: done }],
]
for (const [what, trace] of TRACES) {
  t.test(`a cluster of which only ${what} is left is still uninstalled`, async (t) => {
    const left = observed({ children: rbac, liveJobs: [], ...trace })
    const desired = finalize(left, context)
    t.equal(desired.finalized, undefined)
    t.equal(createdJob(desired)?.metadata.labels?.[LABELS.verb], 'uninstall')
  })
}

t.test('RBAC objects that are deleted during an uninstall are created again', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, createdAgo: 900 })]
  const [account, ...others] = rbac
  const childrenAfter = (secondsAgo: number) => {
    const started = { run: 2, job: 'job-2', verb: 'uninstall', state: 'Started' as const }
    const parts = { jobs, liveJobs: jobs, children: [...others, ...jobs] }
    const report = progress({ ...started, at: ago(secondsAgo) })
    return finalize(deleting({ ...parts, progress: report }), context).children
  }
  t.strictSame(childrenAfter(60).at(-1), account)
  t.strictSame(childrenAfter(600).at(-1), account, 'it is silent without them')
})
