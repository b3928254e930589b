/** spec.hibernate: what helm applies, what the status says, and what is not done meanwhile. */
import t from 'tap'
import { criticalConditions } from '../../../crds/critical-conditions.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { KeyAnswers } from '../../../hooks/cluster/keys/ports.ts'
import { BackgroundTasks } from '../../../hooks/background-task.ts'
import { HelmConcurrency } from '../../../hooks/cluster/helm-slots.ts'
import { hibernationBlocker } from '../../../hooks/cross-namespace.ts'
import { isHibernated } from '../../../hooks/cluster/hibernate.ts'
import { observe } from '../../../hooks/cluster/observe.ts'
import { nextShardStep } from '../../../hooks/cluster/shards/next-step.ts'
import { withKstatus } from '../../../hooks/conditions.ts'
import type { ClusterPorts, Observed, PodConsensus } from '../../../hooks/cluster/ports.ts'
import type { ShardsSummary } from '../../../hooks/cluster/shards/summary.ts'
import {
  applied,
  cluster,
  context,
  newJob,
  progress,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { createdJob } from '../decisions.ts'
import { hookRequest } from '../request.ts'
import { condition, ready, running, sync, upgradePlan } from './decisions.ts'
import { fakePorts } from './ports.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { heldLeases, observedShards, recordedNodes, threeNodes } from './shards.ts'

const MESSAGE = 'spec.hibernate is true: no pods run, and the volumes stay'
const STARTS = 'no pods run until the next helm run has started them'
const NO_PODS = statefulSet(0)

const STATUS = {
  phase: 'Running' as const,
  formedNodes: 3,
  shards: { replicas: 12, activeReplicas: 12 },
  conditions: [
    {
      ...{ type: 'Consensus', status: 'True' as const, reason: 'ConsensusWorking' },
      ...{ message: 'consensus works on 3 nodes', observedGeneration: 1 },
      lastTransitionTime: '2026-02-28T00:00:00Z',
    },
  ],
}

function hibernating(overrides: ClusterOverrides = {}) {
  const { spec, status, ...rest } = overrides
  return threeNodes({
    ...rest,
    spec: { hibernate: true, ...spec },
    status: { ...STATUS, ...status },
  })
}

/** Helm has applied it, and the status shows the run. */
function asleep(parts: Partial<Observed> = {}) {
  const { shards: _, ...rest } = observedShards({
    cluster: hibernating(),
    statefulSet: NO_PODS,
    ...parts,
  })
  return rest
}

/** Helm has not applied the spec. */
const RUN_DUE = { progress: progress({ applied: applied() }), unfinishedHelmJobs: 0 }

function dependenciesOf(ports: ClusterPorts) {
  return {
    ...{ ports, helmConcurrency: new HelmConcurrency() },
    consensus: new BackgroundTasks<PodConsensus[]>(15),
    shards: new BackgroundTasks<ShardsSummary>(60),
    nodeKeys: new BackgroundTasks<KeyAnswers>(60),
  }
}

t.test('helm scales to 0 nodes, and spec.replicas stays', async (t) => {
  const decision = sync(observedShards({ cluster: hibernating(), ...RUN_DUE }), context)
  const { values, spec } = upgradePlan(decision)
  t.match(values, { replicaCount: 0 })
  t.equal(spec.replicas, 3)
  t.equal(decision.status.replicas, 3, 'an autoscaler sees the number of nodes of the spec')
  t.equal(decision.status.phase, 'Running', 'until helm has run')
  const awake = sync(observedShards({ cluster: threeNodes(), ...RUN_DUE }), context)
  t.match(upgradePlan(awake).values, { replicaCount: 3 })
  const off = threeNodes({ spec: { hibernate: false } })
  t.match(upgradePlan(sync(observedShards({ cluster: off, ...RUN_DUE }), context)).values, {
    replicaCount: 3,
  })
})

t.test('helm waits for a backup, as with every run', async (t) => {
  const { write } = heldLeases(2)
  const backup = {
    kind: 'backup' as const,
    lease: leaseOf('backup', 'VecBackup/ns/b/uid-b'),
    jobs: [],
  }
  const leases = { write, backup }
  const decision = sync(observedShards({ cluster: hibernating(), ...RUN_DUE, leases }), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    'False',
    'ClusterBusy',
    'waiting for VecBackup ns/b',
  ])
})

t.test('the pods are stopped once no migration works on the cluster', async (t) => {
  const conflictingWork = ['VecMigration ns/m']
  const decide = (parts: Partial<Observed> = {}) =>
    sync(observedShards({ cluster: hibernating(), ...RUN_DUE, conflictingWork, ...parts }), context)
  const waiting = decide()
  t.equal(createdJob(waiting), undefined)
  t.strictSame(condition(waiting, 'Applied'), [
    'False',
    'ClusterBusy',
    'waiting for VecMigration ns/m',
  ])
  t.equal(waiting.resyncAfterSeconds, 30)
  t.strictSame(
    waiting.leases?.map(({ action }) => action),
    ['drop', 'drop'],
    'the Leases are released',
  )
  t.ok(createdJob(decide({ conflictingWork: [] })))
  t.ok(createdJob(decide({ cluster: threeNodes() })), 'a run that lets the pods run')
  t.ok(createdJob(decide({ statefulSet: NO_PODS, cluster: hibernating({ generation: 2 }) })))
  // The cache does not have the Job of the run yet.
  const owner = { kind: 'cluster', verb: 'upgrade', resource: 'a', uid: 'uid-a' }
  const job = { ...newJob(owner, {}), status: { active: 1 } }
  const own = decide({ liveJobs: [job], conflictingWork: ['helm Job a-upgrade-2'] })
  t.equal(condition(own, 'Applied')?.[1], 'HelmRunning')
  t.equal(own.leases, undefined)
  // It may last longer than the backup counts.
  const scheduled = hibernating({
    spec: { hibernation: { backupScheduleRef: { name: 'nightly' } } },
  })
  t.equal(condition(decide({ cluster: scheduled }), 'Applied')?.[1], 'ClusterBusy')
})

t.test('other work is read only for a run that stops pods', async (t) => {
  let reads = 0
  const { ports } = fakePorts({
    async conflictingWork() {
      reads += 1
      return ['VecMigration ns/m']
    },
  })
  const dependencies = dependenciesOf(ports)
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(RUN_DUE.progress) }
  const readsFor = async (parent: Observed['cluster'], replicas: number) => {
    reads = 0
    const set = [statefulSet(replicas)]
    const found = await observe(hookRequest(parent, [], set), dependencies, context)
    return [reads, found.conflictingWork]
  }
  t.strictSame(await readsFor(hibernating({ annotations }), 3), [1, ['VecMigration ns/m']])
  t.strictSame(await readsFor(hibernating({ annotations }), 0), [0, undefined])
  t.strictSame(await readsFor(threeNodes({ annotations }), 3), [0, undefined])
})

t.test('without pods: Hibernated, and no condition that an alert fires on', async (t) => {
  const decision = sync(asleep(), context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.status.phase, 'Hibernated')
  t.strictSame(condition(decision, 'Progressing'), ['False', 'Hibernated', MESSAGE])
  t.strictSame(condition(decision, 'Ready'), ['False', 'Hibernated', MESSAGE])
  t.strictSame(condition(decision, 'Consensus'), ['Unknown', 'Hibernated', MESSAGE])
  t.strictSame(condition(decision, 'ShardsPlaced'), ['Unknown', 'Hibernated', MESSAGE])
  t.strictSame(condition(decision, 'Applied')?.[0], 'True')
  const { conditions = [] } = withKstatus(hibernating(), decision.status, context.now)
  t.strictSame(criticalConditions(conditions), [])
  t.strictSame(
    conditions.filter(({ type }) => ['Reconciling', 'Stalled'].includes(type)),
    [],
  )
  matchWhole(t, decision.events, [{ type: 'Normal', reason: 'Hibernated' }])
  t.equal(decision.events?.length, 1)
})

t.test('nodes, formed nodes and numbers of replicas stay as they were last known', async (t) => {
  const { nodes, formedNodes, shards, balancedNodes } = sync(asleep(), context).status
  t.strictSame(nodes, recordedNodes(3))
  t.equal(formedNodes, 3)
  t.equal(balancedNodes, 3)
  t.strictSame(shards, STATUS.shards)
})

t.test('while pods are stopping, the cluster is not Hibernated yet', async (t) => {
  const stopping = asleep({
    cluster: hibernating({ status: { phase: 'Upgrading' } }),
    statefulSet: statefulSet(0, { replicas: 2, readyReplicas: 0 }),
  })
  const decision = sync(stopping, context)
  t.equal(decision.status.phase, 'Upgrading')
  t.equal(condition(decision, 'Progressing')?.[0], 'True')
  const types = (decision.status.conditions ?? []).map(({ type }) => type)
  t.equal(new Set(types).size, types.length, 'each condition once')
  t.strictSame(condition(decision, 'Ready'), ['False', 'Hibernated', MESSAGE])
})

t.test('the conditions have the generation that hibernates the pods', async (t) => {
  const earlier = {
    ...{ type: 'Ready', status: 'True' as const, reason: 'AllReplicasReady', message: '' },
    ...{ lastTransitionTime: '2026-02-28T00:00:00Z', observedGeneration: 6 },
  }
  const hibernated = hibernating({ generation: 7, status: { conditions: [earlier] } })
  const { status } = sync(
    asleep({
      cluster: hibernated,
      progress: progress({ applied: applied({ generation: 7 }) }),
    }),
    context,
  )
  const ready = status.conditions?.find(({ type }) => type === 'Ready')
  t.equal(ready?.observedGeneration, 7)
})

t.test('pods that are missing for another reason are not hibernated', async (t) => {
  const scaledByHand = asleep({ cluster: threeNodes() })
  t.equal(isHibernated(scaledByHand), false)
  t.strictSame(condition(sync(scaledByHand, context), 'Ready')?.slice(0, 2), [
    ...['False', 'ReplicasNotReady'],
  ])
  t.equal(isHibernated({ cluster: hibernating(), statefulSet: statefulSet(3) }), false)
  t.equal(isHibernated({ cluster: hibernating() }), false)
})

t.test('a cluster of one node without consensus hibernates too', async (t) => {
  const spec = {
    ...{ hibernate: true, replicas: 1 },
    cluster: { enabled: false, p2p: { port: 6335, enableTls: false } },
  }
  const alone = running({
    cluster: cluster({ spec, status: { phase: 'Running', appliedRun: 1 } }),
    statefulSet: NO_PODS,
  })
  const decision = sync(alone, context)
  t.equal(decision.status.phase, 'Hibernated')
  t.equal(condition(decision, 'Consensus'), undefined)
  t.equal(condition(decision, 'ShardsPlaced'), undefined)
})

t.test('a cluster can be created without pods', async (t) => {
  const decision = sync(ready({ cluster: cluster({ spec: { hibernate: true } }) }), context)
  t.match(upgradePlan(decision).values, { replicaCount: 0 })
})

t.test('hibernate false: helm starts all nodes, which have no conditions at first', async (t) => {
  const woken = threeNodes({ status: { ...sync(asleep(), context).status } })
  const due = asleep({ cluster: woken, ...RUN_DUE })
  const decision = sync(due, context)
  t.match(upgradePlan(decision).values, { replicaCount: 3 })
  t.equal(decision.status.phase, 'Hibernated')
  t.strictSame(condition(decision, 'Ready')?.slice(1), ['Hibernated', STARTS])

  const starting = asleep({
    cluster: woken,
    statefulSet: statefulSet(3, { readyReplicas: 0 }),
    progress: progress({ applied: applied({ run: 2 }) }),
  })
  const started = sync(starting, context)
  t.equal(started.status.phase, 'Upgrading')
  t.equal(condition(started, 'Consensus'), undefined)
  t.equal(condition(started, 'ShardsPlaced'), undefined)
  t.equal(condition(started, 'Ready')?.[1], 'ReplicasNotReady')
  t.strictSame(started.status.nodes, recordedNodes(3))
})

t.test('a hibernated cluster is not started with fewer nodes than it has', async (t) => {
  const message =
    'spec.replicas is 2, but the cluster without pods has 3 nodes: set spec.replicas to 3, and lower it once the cluster is Running; or accept the risk with the annotation vec-operator.dev/accept-risk: shard-loss'
  const appliedWith = (overrides: ClusterOverrides) =>
    condition(
      sync(asleep({ cluster: threeNodes({ ...overrides }), ...RUN_DUE }), context),
      'Applied',
    )
  const spec = { replicas: 2 }
  const withStatus = { spec, status: { phase: 'Hibernated' as const } }
  t.strictSame(appliedWith(withStatus), ['False', 'InvalidSpec', message])
  t.strictSame(appliedWith({ ...withStatus, spec: { ...spec, hibernate: true } })?.[2], message)
  const { nodes: _, ...few } = threeNodes({ spec }).status ?? {}
  const unrecorded = {
    ...threeNodes({ spec }),
    status: { ...few, ...withStatus.status, formedNodes: 3 },
  }
  t.equal(
    condition(sync(asleep({ cluster: unrecorded, ...RUN_DUE }), context), 'Applied')?.[2],
    message,
  )
  const formed = { ...withStatus.status, formedNodes: 3, nodes: [] }
  t.equal(appliedWith({ spec, status: formed })?.[2], message)
  const text = JSON.stringify({ replicas: 3 })
  const annotations = { [ANNOTATIONS.lastAppliedSpec]: text }
  const unknown = { ...withStatus.status, nodes: [] }
  t.equal(appliedWith({ spec, status: unknown, annotations })?.[2], message)
  t.equal(appliedWith({ spec, status: unknown })?.[1], 'HelmStarting', 'no other node is known')
  const accepted = { [ANNOTATIONS.acceptRisk]: 'shard-loss' }
  t.equal(appliedWith({ ...withStatus, annotations: accepted })?.[1], 'HelmStarting')
  t.equal(appliedWith({ status: withStatus.status })?.[1], 'HelmStarting', 'the same number')
  t.equal(appliedWith({ ...withStatus, spec: { replicas: 5 } })?.[1], 'HelmStarting', 'more nodes')
})

t.test(
  'a cluster that was drained before it hibernated starts with the nodes that are left',
  async (t) => {
    // The status may still have the number of nodes before the drain.
    const status = { phase: 'Hibernated' as const, formedNodes: 3 }
    const appliedWith = (replicas: number, hibernate: boolean, desired = 2) => {
      const text = JSON.stringify({ replicas, hibernate })
      const annotations = { [ANNOTATIONS.lastAppliedSpec]: text }
      const woken = threeNodes({ spec: { replicas: desired }, status, annotations })
      return condition(sync(asleep({ cluster: woken, ...RUN_DUE }), context), 'Applied')?.slice(1)
    }
    t.equal(
      appliedWith(2, true)?.[0],
      'HelmStarting',
      'the run that stopped the pods had two nodes',
    )
    t.equal(appliedWith(2, false)?.[0], 'InvalidSpec', 'that run had pods')
    t.match(
      appliedWith(2, true, 1)?.[1],
      /^spec.replicas is 1, but the cluster without pods has 2 /,
    )
    t.equal(appliedWith(3, true)?.[0], 'InvalidSpec')
  },
)

t.test('the minor version is not raised while no pods run', async (t) => {
  const appliedAt = (version: string, parts: { label?: string; risk?: string; from?: string }) => {
    const { label, risk, from = '1.17.1' } = parts
    const labels = label === undefined ? {} : { 'app.kubernetes.io/version': label }
    const annotations = risk === undefined ? {} : { [ANNOTATIONS.acceptRisk]: risk }
    const stopped = asleep({
      cluster: threeNodes({ spec: { version }, status: { phase: 'Hibernated' }, annotations }),
      statefulSet: { ...NO_PODS, metadata: { ...NO_PODS.metadata, labels } },
      progress: progress({ applied: applied({ version: from }) }),
      unfinishedHelmJobs: 0,
    })
    return condition(sync(stopped, context), 'Applied')
  }
  const message =
    'spec.version can be raised to another minor version only while pods run: set it to 1.17.1 until the cluster is Running'
  t.strictSame(appliedAt('1.18.3', { label: '1.17.1' }), ['False', 'InvalidSpec', message])
  t.strictSame(appliedAt('1.18.3', {}), ['False', 'InvalidSpec', message], 'no label')
  t.equal(appliedAt('1.19.0', { label: '1.17.1' })?.[2], message, 'the first of two steps')
  const began = appliedAt('1.18.3', { label: '1.18.3' })
  t.equal(began?.[1], 'HelmStarting', 'the StatefulSet has it already, and helm failed')
  t.equal(appliedAt('1.17.2', { label: '1.17.1' })?.[1], 'HelmStarting', 'a patch')
  t.equal(appliedAt('1.16.3', { label: '1.17.1' })?.[1], 'HelmStarting', 'the Job refuses it')
  t.equal(appliedAt('1.18.3', { label: '1.17.1', risk: 'version-skip' })?.[1], 'HelmStarting')
})

t.test('volumes do not grow while no pods run', async (t) => {
  const sized = (data: string, snapshots?: string) => {
    const set = statefulSet(0, {}, snapshots)
    const [, ...others] = set.spec.volumeClaimTemplates ?? []
    const spec = { resources: { requests: { storage: data } } }
    const volumeClaimTemplates = [{ metadata: { name: 'qdrant-storage' }, spec }, ...others]
    return { ...set, spec: { ...set.spec, volumeClaimTemplates } }
  }
  const appliedWith = (set: Observed['statefulSet'], overrides: ClusterOverrides = {}) =>
    condition(
      sync(
        asleep({ ...RUN_DUE, ...(set && { statefulSet: set }), cluster: hibernating(overrides) }),
        context,
      ),
      'Applied',
    )
  t.strictSame(appliedWith(sized('5Gi')), [
    ...['False', 'InvalidSpec'],
    'spec.persistence.size can be changed only while pods run: set it to 5Gi until the cluster is Running',
  ])
  t.equal(appliedWith(sized('10240Mi'))?.[1], 'HelmStarting', 'the same size')
  const snapshotPersistence = { enabled: true, size: '8Gi' }
  const withSnapshots = { spec: { snapshotPersistence } }
  t.match(
    appliedWith(sized('10Gi', '4Gi'), withSnapshots)?.[2],
    /^spec\.snapshotPersistence\.size /,
  )
  t.equal(appliedWith(sized('10Gi', '8Gi'), withSnapshots)?.[1], 'HelmStarting')
  const awake = observedShards({ ...RUN_DUE, statefulSet: statefulSet(3) })
  t.equal(condition(sync(awake, context), 'Applied')?.[1], 'HelmStarting')
})

t.test('nodes that the spec removes are drained before the others are hibernated', async (t) => {
  const smaller = hibernating({ spec: { replicas: 2 } })
  const decision = sync(observedShards({ cluster: smaller, ...RUN_DUE }), context)
  t.equal(decision.status.phase, 'Draining')
  t.equal(condition(decision, 'Applied')?.[1], 'Draining')
})

t.test('no work on shards is due for a cluster that hibernates', async (t) => {
  const plans = { repair: { is: 'step', purpose: 'repair' } } as const
  const known = observedShards({ cluster: hibernating() }, { plans })
  t.strictSame(nextShardStep(known, context), { is: 'none' })
  t.equal(nextShardStep(observedShards({}, { plans }), context).is, 'due')
})

t.test('earlier answers of the pods are not used', async (t) => {
  let asked = 0
  const { ports } = fakePorts({
    async consensus() {
      asked += 1
      return [{ ordinal: 0, state: 'working' }]
    },
  })
  const dependencies = dependenciesOf(ports)
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(RUN_DUE.progress) }
  const look = (parent: Observed['cluster'], replicas: number) =>
    observe(hookRequest(parent, [], [statefulSet(replicas)]), dependencies, context)
  await look(threeNodes({ annotations }), 3)
  const hibernated = await look(hibernating({ annotations }), 0)
  t.equal(hibernated.consensus, undefined)
  await look(threeNodes({ annotations }), 3)
  t.equal(asked, 2)
  t.equal(dependencies.shards.latest('uid-a')?.replicas, 12)
})

t.test('other resources wait while there are no pods', async (t) => {
  t.strictSame(hibernationBlocker(cluster({ status: { phase: 'Hibernated' } })), {
    reason: 'ClusterHibernated',
    message: 'cluster ns/a is hibernated: no pods run until its spec.hibernate is false',
  })
  t.equal(hibernationBlocker(cluster({ status: { phase: 'Running' } })), undefined)
  t.equal(hibernationBlocker(cluster()), undefined)
})
