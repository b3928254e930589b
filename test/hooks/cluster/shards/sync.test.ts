/** The Job on the shards of a VecCluster: how it starts, runs and ends. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { ANNOTATIONS } from '../../../../crds/contract/names.ts'
import type { Job } from '../../../../crds/kubernetes.ts'
import { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { clusterRbac } from '../../../../hooks/cluster/job.ts'
import { lastShardsRun } from '../../../../hooks/cluster/shards/result.ts'
import { shardsRbac } from '../../../../hooks/cluster/shards/job.ts'
import { nextShardStep } from '../../../../hooks/cluster/shards/next-step.ts'
import { unchanged } from '../../../../hooks/request.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import type { ShardsSummary } from '../../../../hooks/cluster/shards/summary.ts'
import {
  ago,
  applied,
  context,
  helmJob,
  progress,
  settings,
  statefulSet,
} from '../../../builders.ts'
import { matchWhole } from '../../../match-whole.ts'
import { createdJob, jobPlan, jobPod } from '../../decisions.ts'
import { leaseOf } from '../../data-job/fixtures.ts'
import { condition, rbac, sync } from '../decisions.ts'
import { heldLeases, member, observedShards, threeNodes } from '../shards.ts'

const REPAIR_DUE: Partial<ShardsSummary> = {
  activeReplicas: 11,
  plans: { repair: { is: 'step', purpose: 'repair' } },
}

const RESULT = {
  ...{ startedAt: ago(60), stepsDone: 3, stepsLeft: 9, bytesMoved: 300, bytesLeft: 900 },
  moves: [],
}

function repairDue(parts: Partial<Observed> = {}, summary: Partial<ShardsSummary> = REPAIR_DUE) {
  return observedShards(parts, summary)
}

t.test('RBAC first, with an account of its own that is bound to vec-operator-shards', async (t) => {
  const decision = sync(repairDue({ children: rbac }), context)
  const created = decision.children.slice(rbac.length)
  t.strictSame(created, shardsRbac(threeNodes()))
  t.match(created[3], { kind: 'RoleBinding', roleRef: { name: 'vec-operator-shards' } })
  t.not(created[0]?.metadata.name, clusterRbac(threeNodes())[0].metadata.name)
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['False', 'Repairing', 'creating ServiceAccount, Role and RoleBindings of the Job'],
  ])
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('the plan has what shows the loss of a node, and its hash does not', async (t) => {
  const plans = { repair: { is: 'step', purpose: 'lost node' } } as const
  const planOf = (
    node: object,
    peers = [member(0), member(1), { ...member(2), isMember: false }],
  ) => {
    const healing = { lostNodes: 'WhenSafe' as const }
    const nodes = [0, 1].map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))
    const observed = observedShards(
      { cluster: threeNodes({ spec: { healing: { replicas: true, ...healing } } }) },
      { plans, peers, nodes: [...nodes, { ordinal: 2, ...node }] },
    )
    return jobPlan(sync(observed, context), ShardsPlan)
  }
  const claim = 'qdrant-storage-vec-a-2'
  const deleted = planOf({ isVolumeMissing: true })
  t.strictSame(deleted.lost, [102])
  t.strictSame(deleted.losses, [{ ordinal: 2, peer: 102, volume: 'volume-2', claim }])
  t.equal(planOf({ volume: 'other' }).hash, deleted.hash)
  const running = planOf({ volume: 'volume-2' }, [0, 1, 2].map(member))
  t.strictSame([running.lost, running.losses], [[], undefined])
})

t.test('a plan that fits in no Job is a condition, and other work continues', async (t) => {
  const leases = heldLeases(2)
  const name = () => Array.from({ length: 4 }, () => randomUUID()).join('')
  const nodes = Array.from({ length: 3000 }, (_, ordinal) => ({ ordinal, zone: name() }))
  const decision = sync(repairDue({ leases }, { ...REPAIR_DUE, nodes }), context)
  t.equal(createdJob(decision), undefined)
  const [status, reason, message = ''] = condition(decision, 'ShardsPlaced') ?? []
  t.strictSame([status, reason], ['False', 'PlanTooLarge'])
  t.match(message, /^the plan of the Job on shards is too large: \d+ of 98304 bytes compressed$/)
  t.strictSame(
    decision.leases?.map(({ action }) => action),
    ['drop', 'drop'],
  )
  t.equal(decision.resyncAfterSeconds, 30)
})

t.test('then both Leases, backup first, for the number of the Job', async (t) => {
  const leases = { write: { kind: 'write' }, backup: { kind: 'backup' } } as const
  const decision = sync(repairDue({ leases }), context)
  t.equal(createdJob(decision), undefined)
  matchWhole(t, decision.leases, [
    { action: 'take', lease: { metadata: { name: 'vec-a-backup' } } },
    { action: 'take', lease: { metadata: { name: 'vec-a-write' } } },
  ])
  for (const { lease } of decision.leases ?? []) {
    t.equal(lease.spec?.holderIdentity, 'VecCluster/ns/a/uid-a')
    t.equal(lease.metadata.annotations?.[ANNOTATIONS.run], '2')
  }
  t.strictSame(condition(decision, 'ShardsPlaced')?.slice(1), [
    ...['Repairing', 'acquiring the Leases of the cluster'],
  ])
})

t.test(
  'a backup and a restore are waited for, and Leases held meanwhile are released',
  async (t) => {
    const { write, backup } = heldLeases(2)
    const other = {
      kind: 'backup' as const,
      lease: leaseOf('backup', 'VecBackup/ns/b/uid-b'),
      jobs: [],
    }
    const decision = sync(repairDue({ leases: { write, backup: other } }), context)
    t.equal(createdJob(decision), undefined)
    t.strictSame(condition(decision, 'ShardsPlaced')?.slice(1), [
      ...['Repairing', 'waiting for VecBackup ns/b'],
    ])
    matchWhole(t, decision.leases, [
      { action: 'drop', lease: { metadata: { name: 'vec-a-write' } } },
      { action: 'take', lease: { metadata: { name: 'vec-a-backup' } } },
    ])
    t.equal(decision.resyncAfterSeconds, 30)
    const writes = {
      kind: 'write' as const,
      lease: leaseOf('write', 'VecRestore/ns/r/uid-r'),
      jobs: [],
    }
    const restored = sync(repairDue({ leases: { write: writes, backup } }), context)
    t.strictSame(condition(restored, 'ShardsPlaced')?.[2], 'waiting for VecRestore ns/r')
  },
)

t.test('15 s after the Leases were acquired, work that began before them is visible', async (t) => {
  const held = heldLeases(2)
  const fresh = {
    ...held,
    write: {
      ...held.write,
      lease: {
        ...leaseOf('write', 'VecCluster/ns/a/uid-a', 5),
        metadata: held.write.lease?.metadata ?? { name: 'vec-a-write' },
      },
    },
  }
  const decision = sync(repairDue({ leases: fresh }), context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.resyncAfterSeconds, 10)
})

t.test('then the Job is created, with its goal in the plan', async (t) => {
  const zoned = [
    { ordinal: 0, volume: 'volume-0', zone: 'a' },
    { ordinal: 1, volume: 'volume-1', zone: 'b' },
    { ordinal: 2, volume: 'volume-2' },
  ]
  const decision = sync(repairDue({}, { ...REPAIR_DUE, nodes: zoned }), context)
  const job = createdJob(decision)
  const { hash, ...plan } = jobPlan(decision, ShardsPlan)
  t.match(job?.metadata.name, /^a-shards-[0-9a-f]{5}-2$/)
  t.match(hash, /^[0-9a-f]{12}$/)
  t.strictSame(plan, {
    ...{ resource: 'vecclusters', namespace: 'ns', name: 'a', uid: 'uid-a', run: 2 },
    release: 'vec-a',
    cluster: { namespace: 'ns', name: 'a', replicas: 3, tls: false },
    ...{ nodes: 3, repair: true, balance: false, lost: [], maxTransfers: 1 },
    ...{ allowsFewerReplicas: false, onScaleIn: 'Delete', defects: {} },
    zones: { 0: 'a', 1: 'b' },
    volumeBytes: 10 * 2 ** 30,
  })
  t.strictSame(jobPod(decision).container.args, ['jobs/main.js', 'cluster', 'shards', 'ns/a'])
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['False', 'Repairing', `creating Job ${job?.metadata.name ?? ''}`],
  ])
  t.strictSame(condition(decision, 'Applied'), ['True', 'UpToDate', 'generation 1 is applied'])
})

t.test('a Job that only the live list shows is waited for', async (t) => {
  const liveJobs = [helmJob({ verb: 'shards', run: 2 })]
  const decision = sync(repairDue({ liveJobs }), context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.leases, undefined)
  t.ok(sync(repairDue(), context).leases, 'without that Job it is due')
})

t.test('a Job of another kind of work is waited for, without RBAC of the next one', async (t) => {
  const liveJobs = [helmJob({ run: 2 })]
  const decision = sync(repairDue({ liveJobs, children: rbac }), context)
  t.strictSame(
    condition(decision, 'ShardsPlaced')?.[2],
    `Job ${liveJobs[0]?.metadata.name ?? ''} is in progress`,
  )
  t.equal(decision.children.length, rbac.length)
})

t.test('the number of the Job is above those of all Jobs, and of the last report', async (t) => {
  const ended = helmJob({ verb: 'shards', run: 7, ended: ['Complete', 600] })
  const runAfter = (parts: Partial<Observed>) =>
    jobPlan(sync(repairDue({ leases: heldLeases(8), ...parts }), context), ShardsPlan).run
  t.equal(runAfter({ jobs: [ended] }), 8)
  t.equal(runAfter({ liveJobs: [ended] }), 8)
  const { progress: reported } = observedShards()
  t.equal(runAfter(reported ? { progress: { ...reported, run: 7 } } : {}), 8)
})

t.test('other work is waited for with a check every 30 s', async (t) => {
  const decision = sync(repairDue({ conflictingWork: ['VecMigration ns/m'] }), context)
  t.equal(decision.resyncAfterSeconds, 30)
})

t.test('the Job is created 15 s after the Leases were acquired', async (t) => {
  const aged = (seconds: number) => {
    const { write, backup } = heldLeases(2)
    const acquireTime = ago(seconds)
    const at = ({ lease, ...rest }: typeof write) => ({
      ...rest,
      ...(lease && { lease: { ...lease, spec: { ...lease.spec, acquireTime } } }),
    })
    return sync(repairDue({ leases: { write: at(write), backup: at(backup) } }), context)
  }
  t.type(createdJob(aged(15)), 'object')
  t.equal(createdJob(aged(14)), undefined)
  t.strictSame(condition(aged(14), 'ShardsPlaced')?.slice(1), [
    'Repairing',
    'the Leases of the cluster are acquired; checking once more for other work on it',
  ])
})

t.test('the hash of the plan is that of the goal, not of the clock or of the zones', async (t) => {
  const hashOf = (parts: Partial<Observed>, summary: Partial<ShardsSummary> = {}) =>
    jobPlan(sync(repairDue(parts, { ...REPAIR_DUE, ...summary }), context), ShardsPlan).hash
  const defects = { 'docs/0/101': 700 }
  const observed = repairDue({}, { ...REPAIR_DUE, defects })
  t.strictSame(jobPlan(sync(observed, context), ShardsPlan).defects, defects)
  t.equal(hashOf({}, { defects }), hashOf({}))
  t.equal(
    hashOf({}, { nodes: [{ ordinal: 0, zone: 'a' }, { ordinal: 1 }, { ordinal: 2 }] }),
    hashOf({}),
  )
  const wider = threeNodes({ spec: { shards: { balance: 'OnScale', maxTransfers: 4 } } })
  t.not(hashOf({ cluster: wider }), hashOf({}))
})

t.test('while the Job runs, the status shows what it reports', async (t) => {
  const jobs = [helmJob({ verb: 'shards', run: 2 })]
  const reported = progress({
    ...{ verb: 'shards', run: 2, state: 'Started', applied: applied() },
    shards: {
      ...RESULT,
      step: 'docs/3: replicating from node 2 to node 1 (62 %)',
      purpose: 'scale-in',
      secondsLeft: 90,
    },
  })
  const cluster = threeNodes({ status: { shards: { replicas: 12, activeReplicas: 11 } } })
  const { shards: _, ...observed } = observedShards({ cluster, jobs, progress: reported })
  const decision = sync(observed, context)
  t.strictSame(decision.status.shards, {
    ...{
      replicas: 12,
      activeReplicas: 11,
      step: 'docs/3: replicating from node 2 to node 1 (62 %)',
      stepsDone: 3,
      stepsLeft: 9,
    },
    ...{ bytesMoved: 300, bytesLeft: 900, secondsLeft: 90 },
  })
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['False', 'Draining', `Job ${jobs[0]?.metadata.name ?? ''} is in progress`],
  ])
  t.equal(decision.resyncAfterSeconds, 30)
  matchWhole(t, decision.events?.slice(1), [
    { reason: 'Draining', type: 'Normal' },
    { reason: 'ShardStep', message: 'docs/3: replicating from node 2 to node 1' },
  ])
  const silent = { ...reported, at: ago(700) }
  t.strictSame(
    condition(sync({ ...observed, progress: silent }, context), 'ShardsPlaced')?.[1],
    'JobSilent',
  )
})

t.test('each copy causes one Event as it begins, whatever its progress', async (t) => {
  const jobs = [helmJob({ verb: 'shards', run: 2 })]
  const copyOf = (shard: number, percent: number) =>
    `docs/${shard}: replicating from node 2 to node 1 (${percent} %)`
  const eventsAt = (before: string, now: string) => {
    const status = { shards: { step: before }, conditions: [] }
    const report = progress({ verb: 'shards', run: 2, state: 'Started', applied: applied() })
    const reported = { ...report, shards: { ...RESULT, step: now } }
    const cluster = threeNodes({ status })
    const { events = [] } = sync(observedShards({ cluster, jobs, progress: reported }), context)
    return events.filter(({ reason }) => reason === 'ShardStep').map(({ message }) => message)
  }
  t.strictSame(eventsAt(copyOf(3, 10), copyOf(3, 62)), [])
  t.strictSame(eventsAt(copyOf(3, 10), 'docs/3: dropping the replica on node 2'), [])
  t.strictSame(eventsAt(copyOf(3, 10), copyOf(4, 1)), ['docs/4: replicating from node 2 to node 1'])
})

t.test('a Job that does not start, or has lost its Leases, is recreated', async (t) => {
  const silent = [helmJob({ verb: 'shards', run: 2, createdAgo: 601 })]
  const decision = sync(observedShards({ jobs: silent }), context)
  t.strictSame(decision.deleteJobs, [
    { namespace: 'ns', name: silent[0]?.metadata.name, uid: 'job-2' },
  ])
  t.strictSame(condition(decision, 'ShardsPlaced')?.slice(1), [
    'JobNotStarted',
    `Job ${silent[0]?.metadata.name ?? ''} has not reported for 600 s; recreating it`,
  ])
  t.equal(condition(decision, 'Applied')?.[0], 'True', 'it is no helm run')
  const jobs = [helmJob({ verb: 'shards', run: 2 })]
  t.equal(sync(observedShards({ jobs }), context).deleteJobs, undefined)
  const { backup } = heldLeases(2)
  const write = {
    kind: 'write' as const,
    lease: leaseOf('write', 'VecRestore/ns/r/uid-r'),
    jobs: [],
  }
  t.equal(sync(observedShards({ jobs, leases: { write, backup } }), context).deleteJobs?.length, 1)
})

t.test('a Job with a running pod continues if a user removes its report', async (t) => {
  const deletedJobs = (pods: Job['status'], parts: Partial<Observed> = {}) => {
    const job = helmJob({ verb: 'shards', run: 2, createdAgo: 900 })
    const { progress: _, ...seen } = observedShards({
      jobs: [{ ...job, status: { ...job.status, ...pods } }],
      ...parts,
    })
    return sync(seen, context).deleteJobs?.length
  }
  t.equal(deletedJobs({ active: 1, ready: 1 }), undefined)
  t.equal(deletedJobs({ active: 1, ready: 0 }), 1, 'its pod does not run')
  const { backup } = heldLeases(2)
  const lease = leaseOf('write', 'VecRestore/ns/r/uid-r')
  const leases = { write: { kind: 'write' as const, lease, jobs: [] }, backup }
  t.equal(deletedJobs({ active: 1, ready: 1 }, { leases }), 1, 'it has lost its Leases')
})

t.test('a Job that the API server refuses, or that gets no pod, is reported', async (t) => {
  const first = sync(repairDue(), context)
  const { name } = helmJob({ verb: 'shards', run: 2 }).metadata
  const refused = `Job ${name} could not be created: kubectl describe veccluster a -n ns shows the cause in an Event, such as a quota or an admission webhook`
  const later = (status: typeof first.status) =>
    sync(repairDue({ cluster: threeNodes({ status }) }), context)
  const repeated = later(first.status)
  t.ok(createdJob(repeated))
  t.strictSame(condition(repeated, 'ShardsPlaced'), ['False', 'JobNotStarted', refused])
  t.equal(condition(later(repeated.status), 'ShardsPlaced')?.[2], refused)
  const jobs = [helmJob({ verb: 'shards', run: 2, createdAgo: 61 })]
  const stuck = sync(observedShards({ jobs }), context)
  matchWhole(t, condition(stuck, 'ShardsPlaced')?.slice(1), [
    'JobNotStarted',
    /^Job \S+ has no pod/,
  ])
})

t.test(
  'the same plan rests for a minute after it was done, and five after it failed',
  async (t) => {
    const { hash: plan } = jobPlan(sync(repairDue(), context), ShardsPlan)
    const stepAfter = (report: Parameters<typeof progress>[0]) => {
      const observed = repairDue({
        progress: progress({ verb: 'shards', plan, applied: applied(), ...report }),
      })
      return nextShardStep(observed, context).is
    }
    t.equal(stepAfter({ at: ago(59) }), 'none')
    t.equal(stepAfter({ at: ago(60) }), 'due')
    t.equal(stepAfter({ at: ago(1), shards: { ...RESULT, isYielded: true } }), 'due')
    t.equal(stepAfter({ at: ago(299), state: 'Failed' }), 'none')
    t.equal(stepAfter({ at: ago(300), state: 'Failed' }), 'due')
    t.equal(stepAfter({ at: ago(599), state: 'Refused' }), 'none')
    t.equal(stepAfter({ at: ago(1), state: 'Failed', plan: 'other' }), 'due', 'another plan')
  },
)

t.test('a failure rests even if a later helm run has replaced its report', async (t) => {
  const { hash: plan } = jobPlan(sync(repairDue(), context), ShardsPlan)
  const jobs = [helmJob({ verb: 'shards', run: 2, ended: ['Failed', 100], plan, failed: 7 })]
  const observed = repairDue({ jobs, progress: progress({ run: 3, applied: applied() }) })
  t.strictSame(lastShardsRun(observed, context), {
    plan,
    failure: { reason: 'JobCrashed', message: 'Job crashed 7 times' },
    restSeconds: 200,
  })
  t.equal(nextShardStep(observed, context).is, 'none')
})

t.test('the last report of a Job that has ended is awaited', async (t) => {
  const jobs = [helmJob({ verb: 'shards', run: 2, ended: ['Complete', 5] })]
  const started = progress({ verb: 'shards', run: 2, state: 'Started', applied: applied() })
  const decision = sync(repairDue({ jobs, progress: started }), context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.resyncAfterSeconds, 2)
  t.equal(decision.leases, undefined, 'no Lease is acquired for the next Job')
  t.equal(condition(decision, 'ShardsPlaced')?.[1], 'ReplicasNotActive', 'none is announced')
})

t.test('RBAC of the Job is deleted once the status does not announce a Job', async (t) => {
  const own = shardsRbac(threeNodes())
  const gone = (cluster: Observed['cluster']) => {
    const { pruned = [] } = sync(observedShards({ cluster }), context)
    return own.filter(({ kind, metadata }) =>
      pruned.some((entry) => entry.kind === kind && entry.name === metadata.name),
    ).length
  }
  const recorded = (reason: string) => {
    const { status } = sync(observedShards(), context)
    const conditions = (status.conditions ?? []).map((entry) =>
      entry.type === 'ShardsPlaced' ? { ...entry, status: 'False' as const, reason } : entry,
    )
    return threeNodes({ status: { ...status, conditions } })
  }
  t.equal(gone(recorded('Repairing')), 0, 'the cache may not have a Job that was just created')
  t.equal(gone(recorded('ReplicasNotActive')), 4)
})

t.test(
  'a cluster in the middle of a drain is not asked to drain while it is not known how',
  async (t) => {
    const cluster = threeNodes({ spec: { replicas: 2 }, status: { phase: 'Draining' } })
    const { shards: _, ...observed } = observedShards({ cluster, statefulSet: statefulSet(3) })
    const decision = sync({ ...observed, progress: progress({ applied: applied() }) }, context)
    t.equal(decision.status.phase, 'Draining')
    t.equal(createdJob(decision), undefined)
    t.strictSame(
      decision.children.map(({ kind }) => kind),
      observed.children.map(unchanged).map(({ kind }) => kind),
    )
  },
)

t.test('the account may report on its own VecCluster, and nothing else', async (t) => {
  const [account, ...others] = shardsRbac(threeNodes())
  t.match(account.metadata.name, /^cluster-[0-9a-f]{12}$/)
  const role = others.find(({ kind }) => kind === 'Role')
  matchWhole(t, role, { rules: [{ resources: ['vecclusters'], resourceNames: ['a'] }] })
})

t.test('the Job has the API key, and the certificate if the engine uses TLS', async (t) => {
  const secretsWith = (tls: Observed['cluster']['spec']['tls']) =>
    jobPod(sync(repairDue({ cluster: threeNodes({ spec: { tls } }) }), context)).volumes.flatMap(
      ({ secret }) => secret?.secretName ?? [],
    )
  const key = 'vec-a-apikey'
  t.strictSame(secretsWith({ enabled: false }), [key])
  t.strictSame(secretsWith({ enabled: false, secretRef: { name: 'cert' } }), [key], 'not in use')
  t.strictSame(secretsWith({ enabled: true }), [key])
  t.strictSame(secretsWith({ enabled: true, secretRef: { name: 'cert' } }), [key, 'cert'])
})

t.test('a capacity that cannot be parsed counts as unknown', async (t) => {
  const capacityOf = (size: string) => {
    const persistence = { ...threeNodes().spec.persistence, size }
    const cluster = threeNodes({ spec: { persistence } })
    return jobPlan(sync(repairDue({ cluster }), context), ShardsPlan).volumeBytes
  }
  t.equal(capacityOf('1Gi'), 2 ** 30)
  for (const size of ['0', '-1Gi', 'many', '9999999Ei']) t.equal(capacityOf(size), undefined, size)
})

t.test('settings of helm Jobs apply to it', async (t) => {
  const { container } = jobPod(sync(repairDue(), context))
  t.strictSame(container.resources, settings.jobResources.helm)
})

t.test('RBAC objects that are deleted while the Job runs are created again', async (t) => {
  const jobs = [helmJob({ verb: 'shards' })]
  const [account, ...others] = shardsRbac(threeNodes())
  const { children } = sync(repairDue({ jobs, children: others }), context)
  t.strictSame(children.at(-1), account)
  t.equal(children.length, others.length + 2)
})
