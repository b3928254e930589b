import t from 'tap'
import type { ClusterStatus, VecCluster } from '../../../crds/cluster.ts'
import type { Job, Lease, StatefulSet } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS, releaseName } from '../../../crds/contract/names.ts'
import { clusterHooks } from '../../../hooks/cluster/index.ts'
import { clusterRbac, desiredRun } from '../../../hooks/cluster/job.ts'
import type { ClusterPorts } from '../../../hooks/cluster/ports.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import {
  NOW,
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
import { matchWhole } from '../../match-whole.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { hookRequest } from '../request.ts'
import { createdJob } from '../decisions.ts'
import { condition, upgradePlan } from './decisions.ts'
import { fakePorts } from './ports.ts'

/** A cluster whose desired run was applied, with its annotation. */
function appliedCluster(status: ClusterStatus): VecCluster {
  const { hash: planHash } = desiredRun(observed(), settings)
  const report = progress({ applied: applied({ planHash }) })
  return cluster({ status, annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) } })
}

function statusOf(desired: Desired<unknown>): ClusterStatus {
  return desired.status as ClusterStatus
}

const rbac = clusterRbac(cluster())

t.test('live Jobs and the number of helm Jobs are read only when a Job may be due', async (t) => {
  const read: string[] = []
  const spied: Partial<ClusterPorts> = {
    jobsOf: async () => {
      read.push('jobsOf')
      return []
    },
    unfinishedHelmJobs: async () => {
      read.push('unfinishedHelmJobs')
      return 0
    },
  }
  const hooks = clusterHooks(fakePorts(spied).ports)
  const applied = appliedCluster({ phase: 'Running', appliedRun: 1 })
  await hooks.sync(hookRequest(applied, rbac, [statefulSet()]), context)
  t.strictSame(read, [])
  await hooks.sync(hookRequest(cluster(), rbac), context)
  t.strictSame(read, ['unfinishedHelmJobs', 'jobsOf'])
})

t.test('a cluster that waits for a slot reads only whether one is free', async (t) => {
  const read: string[] = []
  const noted =
    <T>(name: string, value: T) =>
    async () => {
      read.push(name)
      return value
    }
  let running = 10
  const { ports } = fakePorts({
    jobsOf: noted('jobsOf', []),
    lease: noted('lease', undefined),
    unfinishedHelmJobs: async () => running,
  })
  const hooks = clusterHooks(ports)
  const first = await hooks.sync(hookRequest(cluster(), rbac), context)
  t.strictSame(read.splice(0), ['jobsOf', 'lease', 'lease'], 'its own Lease must be released')
  const waiting = cluster({ status: statusOf(first) })
  const second = await hooks.sync(hookRequest(waiting, rbac), context)
  t.strictSame(read, [])
  t.strictSame(statusOf(second), statusOf(first))
  running = 9
  await hooks.sync(hookRequest(waiting, rbac), context)
  t.strictSame(read, ['jobsOf', 'lease', 'lease'])
})

t.test('Leases are read when a helm run may be due, and written before its Job', async (t) => {
  const asked: string[] = []
  const lease = async (_: string, name: string) => {
    asked.push(name)
    return name === 'vec-a-write' ? leaseOf('write', 'VecRestore/far/into-a/uid-r', 5) : undefined
  }
  const request = hookRequest(cluster(), rbac, [statefulSet()])
  const { ports } = fakePorts({ lease })
  const desired = await clusterHooks(ports).sync(request, context)
  t.strictSame(asked.toSorted(), ['vec-a-backup', 'vec-a-write'])
  t.notOk(desired.children.some(({ kind }) => kind === 'Job'))
  const applied = statusOf(desired).conditions?.find(({ type }) => type === 'Applied')
  t.equal(applied?.message, 'waiting for VecRestore far/into-a')
  const free = fakePorts()
  await clusterHooks(free.ports).sync(request, context)
  t.strictSame(free.writes.leases, ['take vec-a-backup'])
})

t.test('customize shows the StatefulSet, by name and namespace', async (t) => {
  t.strictSame(clusterHooks(fakePorts().ports).customize(cluster()), [
    { apiVersion: 'apps/v1', resource: 'statefulsets', namespace: 'ns', names: [releaseName('a')] },
  ])
})

t.test('a progress annotation of another uid is ignored', async (t) => {
  const appliedRun = async (uid: string) => {
    const report = { ...progress({ applied: applied() }), uid }
    const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
    const request = hookRequest(cluster({ annotations }), rbac)
    return statusOf(await clusterHooks(fakePorts().ports).sync(request, context)).appliedRun
  }
  t.equal(await appliedRun(cluster().metadata.uid), 1)
  t.equal(await appliedRun('namesake'), undefined)
})

for (const text of ['{', '[]', '{"uid":"uid-a"}', 'null', '']) {
  t.test(`a progress annotation that does not read is ignored: ${text}`, async (t) => {
    const annotations = { [ANNOTATIONS.progress]: text }
    const hooks = clusterHooks(fakePorts().ports)
    const desired = await hooks.sync(hookRequest(cluster({ annotations }), rbac), context)
    t.ok(desired.children.some(({ kind }) => kind === 'Job'))
  })
}

t.test(
  'after 30 s without a final report the resource is read live before the Job counts as crashed',
  async (t) => {
    const live = appliedCluster({})
    const { ports } = fakePorts({ cluster: async () => live })
    const jobs = [helmJob({ ended: ['Complete', 31] })]
    const desired = await clusterHooks(ports).sync(
      hookRequest(cluster(), [...rbac, ...jobs], [statefulSet()]),
      context,
    )
    t.equal(statusOf(desired).appliedRun, 1)
    t.equal(statusOf(desired).conditions?.find(({ type }) => type === 'Applied')?.status, 'True')
  },
)

t.test('two clusters do not use the same slot', async (t) => {
  const one = { ...context, settings: { ...settings, maxHelmJobs: 1 } }
  const hooks = clusterHooks(fakePorts().ports)
  const makesJob = ({ children }: Desired<unknown>) => children.some(({ kind }) => kind === 'Job')
  const other = cluster({ name: 'b' })
  t.ok(makesJob(await hooks.sync(hookRequest(cluster(), rbac), one)))
  const request = hookRequest(other, clusterRbac(other))
  t.notOk(makesJob(await hooks.sync(request, one)))
  t.ok(makesJob(await clusterHooks(fakePorts().ports).sync(request, one)), 'the only cluster')
})

t.test('clusters whose Jobs never start do not keep the slots from the others (L8)', async (t) => {
  const one = { ...context, settings: { ...settings, maxHelmJobs: 1 } }
  let unfinished = 1
  const { ports } = fakePorts({ unfinishedHelmJobs: async () => unfinished })
  const hooks = clusterHooks(ports)
  const other = cluster({ name: 'b' })
  const syncAt = async (parent: VecCluster, seconds: number, jobs: Job[] = []) => {
    const later = { ...one, now: new Date(NOW.getTime() + seconds * 1000) }
    const desired = await hooks.sync(hookRequest(parent, [...clusterRbac(parent), ...jobs]), later)
    return {
      deleted: (desired.deleteJobs ?? []).length,
      created: desired.children.some(({ kind, spec }) => kind === 'Job' && spec !== undefined),
    }
  }
  const nothing = { deleted: 0, created: false }
  const silent = helmJob({ createdAgo: 600, plan: desiredRun(observed(), settings).hash })
  t.strictSame(await syncAt(other, 0), nothing, 'the only slot is in use')
  t.strictSame(await syncAt(cluster(), 1, [silent]), { deleted: 1, created: false })
  unfinished = 0
  t.strictSame(await syncAt(cluster(), 3), nothing, 'the other one was waiting')
  t.strictSame(await syncAt(other, 15), { deleted: 0, created: true })
  unfinished = 1
  t.strictSame(await syncAt(cluster(), 16), nothing, 'its Job runs')
  unfinished = 0
  t.strictSame(await syncAt(cluster(), 60), { deleted: 0, created: true })
})

t.test('a Job on shards that did not start does not queue the cluster behind others', async (t) => {
  const one = { ...context, settings: { ...settings, maxHelmJobs: 1 } }
  let unfinished = 1
  const { ports } = fakePorts({ unfinishedHelmJobs: async () => unfinished })
  const hooks = clusterHooks(ports)
  const other = cluster({ name: 'b' })
  const silent = helmJob({ verb: 'shards', createdAgo: 601 })
  await hooks.sync(hookRequest(other, clusterRbac(other)), one)
  const stopped = await hooks.sync(hookRequest(cluster(), [...rbac, silent]), one)
  t.strictSame(
    stopped.deleteJobs?.map(({ name }) => name),
    [silent.metadata.name],
  )
  unfinished = 0
  const next = await hooks.sync(hookRequest(cluster(), rbac), one)
  t.ok(next.children.some(({ kind, spec }) => kind === 'Job' && spec !== undefined))
})

t.test('a cluster that is deleted while it waits for a slot is not waited for', async (t) => {
  const one = { ...context, settings: { ...settings, maxHelmJobs: 1 } }
  let unfinished = 1
  const { ports } = fakePorts({ unfinishedHelmJobs: async () => unfinished })
  const hooks = clusterHooks(ports)
  const other = cluster({ name: 'b' })
  const silent = helmJob({ createdAgo: 601 })
  await hooks.sync(hookRequest(other, clusterRbac(other)), one)
  await hooks.sync(hookRequest(cluster(), [...rbac, silent]), one)
  unfinished = 0
  await hooks.finalize?.(hookRequest(other, clusterRbac(other)), one)
  const next = await hooks.sync(hookRequest(cluster(), rbac), one)
  t.ok(next.children.some(({ kind, spec }) => kind === 'Job' && spec !== undefined))
})

t.test('the error of the query of the pods is in the decision, for the log (M13)', async (t) => {
  const error = new TypeError('x')
  const { ports } = fakePorts({ consensus: async () => Promise.reject(error) })
  const parent = appliedCluster({ phase: 'Running', appliedRun: 1 })
  const desired = await clusterHooks(ports).sync(
    hookRequest(parent, rbac, [statefulSet()]),
    context,
  )
  t.strictSame(desired.failures, [{ error }])
  t.strictSame(condition(desired as Desired<ClusterStatus>, 'Consensus'), [
    'Unknown',
    'PodsNotAnswering',
    'querying the pods failed: internal error: TypeError; see the log of the service',
  ])
})

t.test(
  'the error of the query for the keys is in the decision, and in the condition',
  async (t) => {
    const error = new TypeError('x')
    const key = (value: string) => secret({ 'api-key': value })
    const { ports } = fakePorts({
      secret: async (_, name) => key(name === 'vec-a-apikey' ? 'former' : 'new'),
      liveSecret: async () => key('former'),
      nodeKeys: async () => Promise.reject(error),
    })
    const parent = appliedCluster({ phase: 'Running', appliedRun: 1 })
    const secretRef = { name: 'key', key: 'api-key' }
    const named = { autoGenerate: false, jwtRbac: false, secretRef }
    parent.spec.apiKey = { ...named, rotation: { overlap: '1h' } }
    const desired = await clusterHooks(ports).sync(
      hookRequest(parent, rbac, [statefulSet()]),
      context,
    )
    t.strictSame(desired.failures, [{ error }])
    matchWhole(t, condition(desired as Desired<ClusterStatus>, 'KeyRotated'), [
      'False',
      'AddingKey',
      /; querying the nodes failed: internal error: TypeError; see the log of the service$/,
    ])
  },
)

t.test('a deleted StatefulSet is created again by a helm run with the same plan', async (t) => {
  const parent = appliedCluster({ phase: 'Running', appliedRun: 1 })
  const asked: string[] = []
  const createdPlan = async (live: StatefulSet | undefined, related: StatefulSet[] = []) => {
    let lease: Lease | undefined
    const { ports } = fakePorts({
      statefulSet: async (namespace, name) => {
        asked.push(`${namespace}/${name}`)
        return live
      },
      lease: async (_, name) => (name === 'vec-a-backup' ? lease : undefined),
      writeLease: async (written) => {
        lease = written
        return true
      },
    })
    const hooks = clusterHooks(ports)
    const request = hookRequest(parent, rbac, related)
    await hooks.sync(request, context)
    const desired = (await hooks.sync(request, context)) as Desired<ClusterStatus>
    return createdJob(desired) && upgradePlan(desired).hash
  }
  t.equal(await createdPlan(undefined), desiredRun(observed(), settings).hash)
  t.strictSame(asked.splice(0), ['ns/vec-a', 'ns/vec-a'])
  t.equal(await createdPlan(statefulSet()), undefined, 'only the cache does not have it')
  t.strictSame(asked.splice(0), ['ns/vec-a', 'ns/vec-a'])
  t.equal(await createdPlan(undefined, [statefulSet()]), undefined)
  t.strictSame(asked, [], 'it is read only if the request does not have it')
})

t.test(
  'a StatefulSet that another client scales down gets its pods again by a helm run',
  async (t) => {
    const scaled = async (
      spec: Partial<VecCluster['spec']>,
      { related, live = related, at = 300 }: { related: number; live?: number; at?: number },
    ) => {
      const { hash: planHash } = desiredRun(observed({ cluster: cluster({ spec }) }), settings)
      const report = progress({ applied: applied({ planHash, at: ago(at) }) })
      const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
      const parent = cluster({ spec, status: { phase: 'Running', appliedRun: 1 }, annotations })
      const { ports } = fakePorts({ statefulSet: async () => statefulSet(live) })
      const pods = { readyReplicas: related, replicas: related }
      const request = hookRequest(parent, rbac, [statefulSet(related, pods)])
      const desired = (await clusterHooks(ports).sync(request, context)) as Desired<ClusterStatus>
      return condition(desired, 'Applied')?.slice(0, 2)
    }
    const due = ['False', 'HelmStarting']
    const upToDate = ['True', 'UpToDate']
    const three = { replicas: 3 }
    t.strictSame(await scaled(three, { related: 2 }), due)
    t.strictSame(await scaled(three, { related: 0 }), due)
    t.strictSame(await scaled(three, { related: 3 }), upToDate)
    t.strictSame(await scaled(three, { related: 2, live: 3 }), upToDate, 'the cache lags behind')
    t.strictSame(await scaled(three, { related: 2, at: 299 }), upToDate, 'once in five minutes')
    const hibernated = { replicas: 3, hibernate: true }
    t.strictSame(await scaled(hibernated, { related: 1 }), due)
    t.strictSame(await scaled(hibernated, { related: 0 }), upToDate)
  },
)

t.test('finalize of a running install deletes the Job with its pods', async (t) => {
  const jobs = [helmJob()]
  const { ports, writes: written } = fakePorts({ jobsOf: async () => jobs })
  const parent = cluster({ deletionTimestamp: ago(1) })
  const hooks = clusterHooks(ports)
  const desired = await hooks.finalize?.(hookRequest(parent, [...rbac, ...jobs]), context)
  t.strictSame(written.deleted, [jobs[0]?.metadata.name])
  t.match(desired, { finalized: undefined, children: Array })
})

t.test('a Helm error is an Event, written once for the same words', async (t) => {
  const { ports, writes: written } = fakePorts()
  const hooks = clusterHooks(ports)
  const { hash: plan } = desiredRun(observed(), settings)
  const report = progress({
    state: 'Failed',
    reason: 'HelmFailed',
    message: 'no chart',
    plan,
    at: ago(5),
  })
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
  const jobs = [helmJob({ plan, ended: ['Failed', 5] })]
  const first = await hooks.sync(hookRequest(cluster({ annotations }), [...rbac, ...jobs]), context)
  matchWhole(t, written.events, [{ reason: 'HelmFailed', message: 'no chart', type: 'Warning' }])
  const status = statusOf(first)
  await hooks.sync(hookRequest(cluster({ annotations, status }), [...rbac, ...jobs]), context)
  t.equal(written.events.length, 1)
})

t.test('two concurrent equal requests create one Job, by its name', async (t) => {
  const hooks = clusterHooks(fakePorts().ports)
  const twice = [hookRequest(cluster(), rbac), hookRequest(cluster(), rbac)]
  const answers = await Promise.all(twice.map((one) => hooks.sync(one, context)))
  const names = answers.flatMap(({ children }) =>
    children.filter(({ kind }) => kind === 'Job').map(({ metadata }) => metadata.name),
  )
  t.equal(new Set(names).size, 1)
})

t.test('an old parent after a newer one creates no second Job', async (t) => {
  // The cache has neither the Job nor its report; the live list has.
  const { ports } = fakePorts({ jobsOf: async () => [helmJob({ ended: ['Complete', 1] })] })
  const desired = await clusterHooks(ports).sync(hookRequest(cluster(), rbac), context)
  const made = desired.children.find(({ kind }) => kind === 'Job')
  t.match(made?.metadata.name, /-2$/)
})
