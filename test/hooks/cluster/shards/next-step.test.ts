/** What goes first: work on the shards of a VecCluster, or its helm run. One test for each rule. */
import t from 'tap'
import { ANNOTATIONS } from '../../../../crds/contract/names.ts'
import { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { LABELS } from '../../../../crds/contract/names.ts'
import type { Decision } from '../../../../hooks/cluster/decision.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import type {
  PlanOutcome,
  ShardsSummary,
  ShardTargets,
} from '../../../../hooks/cluster/shards/summary.ts'
import {
  ago,
  applied,
  context,
  helmJob,
  progress,
  settings,
  statefulSet,
  type ClusterOverrides,
} from '../../../builders.ts'
import { createdJob, jobPlan } from '../../decisions.ts'
import { desiredRun } from '../../../../hooks/cluster/job.ts'
import {
  isCurrent,
  nextShardStep,
  shardTargets,
  withoutProgress,
} from '../../../../hooks/cluster/shards/next-step.ts'
import { EngineError } from '../../../../crds/contract/errors.ts'
import { condition, sync } from '../decisions.ts'
import { member, observedShards, podsOf, threeNodes } from '../shards.ts'

const REPAIR: PlanOutcome = { is: 'step', purpose: 'repair' }
const NONE = { is: 'none' }
const RESULT = {
  ...{ startedAt: ago(700), stepsDone: 3, stepsLeft: 2, bytesMoved: 0, bytesLeft: 0 },
  moves: [],
}
const DONE: PlanOutcome = { is: 'done' }
const REFUSED: PlanOutcome = { is: 'refused', reason: 'NoCapacity', message: 'no node has space' }

/** A helm run is due: the applied plan is another one. */
const RUN_DUE = { progress: progress({ applied: applied() }), unfinishedHelmJobs: 0 }

function plans(repair: PlanOutcome, balance?: PlanOutcome): Partial<ShardsSummary> {
  return { plans: { repair, ...(balance && { balance }) } }
}

function verbOf(decision: Decision): string | undefined {
  return createdJob(decision)?.metadata.labels?.[LABELS.verb]
}

/** Three nodes, of which the spec wants two. */
function scaledIn(overrides: ClusterOverrides = {}, parts: Partial<Observed> = {}) {
  return { cluster: threeNodes({ ...overrides, spec: { replicas: 2 } }), ...RUN_DUE, ...parts }
}

t.test('a running Job goes first, whatever else is due', async (t) => {
  for (const verb of ['upgrade', 'shards']) {
    const jobs = [helmJob({ verb })]
    const started = progress({ verb, state: 'Started', applied: applied() })
    const decision = sync(observedShards({ jobs, progress: started }, plans(REPAIR)), context)
    t.equal(createdJob(decision), undefined, verb)
  }
  t.ok(createdJob(sync(observedShards(RUN_DUE, plans(REPAIR)), context)), 'without one')
})

t.test('a repair goes before a helm run', async (t) => {
  const decision = sync(observedShards(RUN_DUE, plans(REPAIR)), context)
  t.equal(verbOf(decision), 'shards')
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'ShardsRunning', 'helm runs once the work on the shards has ended'],
  ])
})

t.test('a repair does not go before a helm run while pods are not ready', async (t) => {
  const pods = statefulSet(3, { readyReplicas: 2 })
  const decision = sync(observedShards({ ...RUN_DUE, statefulSet: pods }, plans(REPAIR)), context)
  t.equal(verbOf(decision), 'upgrade')
  const alone = sync(observedShards({ statefulSet: pods }, plans(REPAIR)), context)
  t.equal(verbOf(alone), 'shards', 'without a helm run it does not wait for them')
})

t.test('a repair goes before a helm run that fails while pods are not ready', async (t) => {
  const pods = statefulSet(3, { readyReplicas: 2 })
  const plan = desiredRun(observedShards(), settings).hash
  const failed = progress({ state: 'Failed', plan, at: ago(5), applied: applied() })
  const decision = sync(
    observedShards({ statefulSet: pods, progress: failed }, plans(REPAIR)),
    context,
  )
  t.equal(verbOf(decision), 'shards')
})

t.test('a helm run goes before the rest of a repair that has ended early for it', async (t) => {
  const shards = {
    ...{ startedAt: ago(700), stepsDone: 3, stepsLeft: 2, bytesMoved: 0, bytesLeft: 0 },
    ...{ moves: [], isYielded: true },
  }
  const ended = progress({ verb: 'shards', applied: applied(), shards })
  const decision = sync(
    observedShards({ progress: ended, unfinishedHelmJobs: 0 }, plans(REPAIR)),
    context,
  )
  t.equal(verbOf(decision), 'upgrade')
})

t.test('a volume is deleted once the pod of a removed node has ended after its Job', async (t) => {
  const ended = (removedOrdinal?: number) =>
    progress({
      ...{ verb: 'shards', applied: applied(), at: ago(3600) },
      shards: {
        ...{ ...RESULT, isYielded: true },
        ...(removedOrdinal !== undefined && { removedOrdinal }),
      },
    })
  const verb = (removedOrdinal?: number, parts: Partial<Observed> = {}) => {
    const observed = { progress: ended(removedOrdinal), unfinishedHelmJobs: 0, ...parts }
    return verbOf(sync(observedShards(observed, plans(DONE)), context))
  }
  t.equal(verb(3), 'shards')
  t.equal(verb(2), 'upgrade', 'its node is needed again')
  t.equal(verb(), 'upgrade', 'it is deleted')
  const set = statefulSet(3)
  const terminating = { ...set, status: { ...set.status, replicas: 4 } }
  t.equal(verb(3, { statefulSet: terminating }), 'upgrade', 'its pod still exists')
})

t.test('repairs do not wait for the pod of a removed node, and further removals do', async (t) => {
  const set = statefulSet(3)
  const known = {
    ...scaledIn(),
    statefulSet: { ...set, status: { ...set.status, replicas: 4 } },
    pods: podsOf(['r1', 'r1', 'r1', 'r1']),
    progress: progress({
      ...{ verb: 'shards', applied: applied(), at: ago(3600) },
      shards: { ...RESULT, isYielded: true, removedOrdinal: 3 },
    }),
  }
  t.equal(verbOf(sync(observedShards(known, plans(REPAIR)), context)), 'shards')
  const decision = sync(observedShards(known), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'Draining'],
    'spec.replicas: 3 -> 2 waits: the pod of node 3, which was removed, has not ended; if its Kubernetes node does not answer, delete that node, or the pod with --force',
  ])
  const ended = sync(observedShards({ ...known, statefulSet: set, pods: [] }), context)
  t.match(jobPlan(ended, ShardsPlan), { nodes: 3 }, 'first its volume is deleted')
})

t.test('a helm run does not wait for a repair that is refused, or that fails', async (t) => {
  t.equal(verbOf(sync(observedShards(RUN_DUE, plans(REFUSED)), context)), 'upgrade')
  const due = sync(observedShards({}, plans(REPAIR)), context)
  const { hash: plan } = jobPlan(due, ShardsPlan)
  const report = { verb: 'shards', state: 'Failed', plan, at: ago(60) } as const
  const failed = progress({ ...report, applied: applied() })
  const decision = sync(
    observedShards({ progress: failed, unfinishedHelmJobs: 0 }, plans(REPAIR)),
    context,
  )
  t.equal(verbOf(decision), 'upgrade')
})

t.test('a repair that waits for other work does not keep helm from running', async (t) => {
  const conflictingWork = ['VecMigration ns/m']
  const decision = sync(observedShards({ ...RUN_DUE, conflictingWork }, plans(REPAIR)), context)
  t.equal(verbOf(decision), 'upgrade')
  const alone = sync(observedShards({ conflictingWork }, plans(REPAIR)), context)
  t.equal(createdJob(alone), undefined)
  t.strictSame(condition(alone, 'ShardsPlaced'), [
    ...['False', 'Repairing', 'waiting for VecMigration ns/m'],
  ])
})

t.test('a removed node is drained before helm runs', async (t) => {
  const decision = sync(observedShards(scaledIn()), context)
  t.equal(verbOf(decision), 'shards')
  t.match(jobPlan(decision, ShardsPlan), { nodes: 2, balance: false, cluster: { replicas: 3 } })
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'Draining'],
    'spec.replicas: 3 -> 2 is applied node by node, once the shards of each removed node are on other nodes',
  ])
  t.equal(decision.status.phase, 'Draining')
})

t.test('a repair goes before a drain', async (t) => {
  const observed = observedShards(scaledIn(), {
    plans: { repair: REPAIR, drain: { is: 'step', purpose: 'repair' } },
  })
  t.match(jobPlan(sync(observed, context), ShardsPlan), { nodes: 3 })
})

t.test('helm does not remove a node whose drain is refused, and says why', async (t) => {
  const refused = { is: 'refused', reason: 'NotEnoughNodes', message: 'factor 3' } as const
  const decision = sync(
    observedShards(scaledIn(), { plans: { repair: DONE, drain: refused } }),
    context,
  )
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), ['False', 'NotEnoughNodes', 'factor 3'])
  t.strictSame(condition(decision, 'ShardsPlaced'), ['False', 'NotEnoughNodes', 'factor 3'])
  t.equal(decision.status.phase, 'Running')
  t.equal(decision.events?.filter(({ reason }) => reason === 'NotEnoughNodes').length, 1)
  t.equal(decision.resyncAfterSeconds, 30)
  t.strictSame(
    decision.leases?.map(({ action }) => action),
    ['drop', 'drop'],
    'it does not block others',
  )
})

/** The peer of node 2 was removed and its pod was not, and then the spec was raised to four nodes. */
function halfRemoved(summary: Partial<ShardsSummary> = {}, parts: Partial<Observed> = {}) {
  const shards = { ...RESULT, removedPeer: { ordinal: 2, peer: 102 } }
  return observedShards(
    {
      cluster: threeNodes({ spec: { replicas: 4 } }),
      statefulSet: statefulSet(3),
      unfinishedHelmJobs: 0,
      progress: progress({ verb: 'shards', applied: applied(), shards }),
      ...parts,
    },
    { peers: [member(0), member(1)], ...summary },
  )
}

t.test('a node whose peer was removed is removed before others are added', async (t) => {
  // The others do not know the pod, and its consensus does not work.
  const consensus = [0, 1, 2].map((ordinal) => ({
    ...{ ordinal, state: 'working' as const, peerId: 100 + ordinal, hasLeader: ordinal < 2 },
    peers: (ordinal < 2 ? [0, 1] : [0, 1, 2]).map((other) => ({ id: 100 + other, ordinal: other })),
  }))
  const decision = sync(halfRemoved({}, { consensus }), context)
  t.equal(verbOf(decision), 'shards')
  t.match(jobPlan(decision, ShardsPlan), { nodes: 2, cluster: { replicas: 3 } })
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'Draining'],
    'node 2 was removed from the cluster: its pod is removed before spec.replicas is applied',
  ])
  t.equal(condition(decision, 'Consensus')?.[1], 'PeersMissing')
})

t.test('until the nodes have reported whether it was removed, helm waits', async (t) => {
  const { shards: _, ...unknown } = halfRemoved()
  const decision = sync(unknown, context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'Draining'],
    'the removal of node 2 waits until the nodes report their shards',
  ])
})

t.test('a node that is a member, again or still, is not removed', async (t) => {
  const others = [member(0), member(1)]
  const rejoined = { id: 500, ordinal: 2, isMember: true }
  for (const peer of [member(2), { ...member(2), isMember: false }, rejoined]) {
    t.equal(verbOf(sync(halfRemoved({ peers: [...others, peer] }), context)), 'upgrade')
  }
  t.equal(verbOf(sync(halfRemoved({}, { statefulSet: statefulSet(4) }), context)), 'upgrade')
})

t.test('helm does not remove a node before the nodes have reported their shards', async (t) => {
  const { shards: _, ...unknown } = observedShards(scaledIn())
  const decision = sync(unknown, context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'Draining', 'spec.replicas: 3 -> 2 waits until the nodes report their shards'],
  ])
})

t.test(
  'a drain waits while the nodes do not agree, and while consensus does not work',
  async (t) => {
    const waiting = {
      is: 'waiting',
      purpose: 'transfer',
      message: 'docs/1 is copied (62 %)',
    } as const
    const copied = sync(
      observedShards(scaledIn(), { plans: { repair: DONE, drain: waiting } }),
      context,
    )
    t.strictSame(condition(copied, 'Applied'), [
      ...['False', 'Draining', 'spec.replicas: 3 -> 2 waits: docs/1 is copied'],
    ])
    const consensus = [{ ordinal: 0, state: 'stopped' as const }]
    const stopped = sync(observedShards({ ...scaledIn(), consensus }), context)
    t.equal(createdJob(stopped), undefined)
    t.strictSame(condition(stopped, 'Applied'), [
      ...['False', 'Draining', 'spec.replicas: 3 -> 2 waits until consensus works'],
    ])
  },
)

const TRANSFER = { collection: 'docs', shard: 0, from: 100, to: 101 }
const LEFT = { isTransferLeft: true } as const

/** A Job has ended, and its transfer has not. */
function leftTransfer(report: Parameters<typeof progress>[0] = {}, transfers = [TRANSFER]) {
  const { hash } = desiredRun(observedShards(), settings)
  const shards = { ...RESULT, transfers }
  return {
    progress: progress({
      ...{ verb: 'shards', applied: applied({ planHash: hash }), at: ago(3600), shards },
      ...report,
    }),
    unfinishedHelmJobs: 0,
  }
}

t.test('a transfer that an ended Job has left makes a Job due, which can abort it', async (t) => {
  const transfer: PlanOutcome = { is: 'waiting', purpose: 'transfer', message: 'docs/0 is copied' }
  const waiting = plans(transfer)
  const verb = (parts: Partial<Observed>, summary: Partial<ShardsSummary> = LEFT) =>
    verbOf(sync(observedShards(parts, { ...waiting, ...summary }), context))
  t.equal(verb(leftTransfer()), 'shards')
  t.equal(verb(leftTransfer(), {}), undefined, 'that of another client')
  t.equal(verb(leftTransfer({}, [])), undefined, 'a Job has seen its end since')
  t.equal(verb({ ...leftTransfer(), consensus: [{ ordinal: 0, state: 'stopped' }] }), undefined)
  const failed = { state: 'Failed', reason: 'TransferFailed', message: 'x', plan: 'other' } as const
  t.equal(verb(leftTransfer({ ...failed, at: ago(299) })), undefined, 'what failed rests')
  t.equal(verb(leftTransfer({ ...failed, at: ago(301) })), 'shards')
  const drain = { plans: { repair: transfer, drain: transfer }, ...LEFT }
  const drained = sync(observedShards({ ...leftTransfer(), ...scaledTo(2) }, drain), context)
  t.match(jobPlan(drained, ShardsPlan), { nodes: 3 }, 'the drain waits for it')
  t.equal(
    verb({
      ...leftTransfer(),
      ...RUN_DUE,
      progress: leftTransfer({ applied: applied() }).progress,
    }),
    'upgrade',
    'helm goes first',
  )
})

function scaledTo(replicas: number) {
  return { cluster: threeNodes({ spec: { replicas } }) }
}

t.test('a drain says which transfer it waits for if no Job aborts that', async (t) => {
  const stalled: PlanOutcome = {
    ...{ is: 'refused', reason: 'TransferStalled' },
    message: 'docs/0 is copied from node 0 to node 1 without progress since 10:00',
  }
  const summary = { plans: { repair: stalled, drain: stalled } }
  const decision = sync(observedShards(scaledIn(), summary), context)
  t.equal(createdJob(decision), undefined)
  for (const type of ['Applied', 'ShardsPlaced']) {
    t.strictSame(condition(decision, type), ['False', 'TransferStalled', stalled.message], type)
  }
  const eventsOf = ({ events = [] }: Decision) =>
    events.flatMap(({ reason, type }) => (reason === 'TransferStalled' ? [type] : []))
  t.strictSame(eventsOf(decision), ['Warning'], 'both conditions are one Event')
  const { conditions = [] } = decision.status
  const again = sync(observedShards(scaledIn({ status: { conditions } }), summary), context)
  t.strictSame(eventsOf(again), [])
})

t.test('helm runs once the StatefulSet has the desired number of nodes', async (t) => {
  const decision = sync(observedShards({ ...scaledIn(), statefulSet: statefulSet(2) }), context)
  t.equal(verbOf(decision), 'upgrade')
})

t.test('with shard-loss accepted, helm removes nodes without a drain', async (t) => {
  const annotations = { [ANNOTATIONS.acceptRisk]: 'shard-loss' }
  const decision = sync(observedShards(scaledIn({ annotations })), context)
  t.equal(verbOf(decision), 'upgrade')
})

t.test('a spec that is not valid does not drain nodes, and does not stop repairs', async (t) => {
  const spec = { replicas: 2, config: { service: { http_port: 1 } } }
  const invalid = { cluster: threeNodes({ spec }), ...RUN_DUE }
  const decision = sync(observedShards(invalid), context)
  t.equal(createdJob(decision), undefined)
  t.equal(condition(decision, 'Applied')?.[1], 'InvalidSpec')
  const observed = observedShards(invalid, { plans: { repair: REPAIR } })
  t.match(jobPlan(sync(observed, context), ShardsPlan), { nodes: 3 })
})

t.test('H22: a node is not added over the kept volume of a removed one', async (t) => {
  const cluster = threeNodes({ spec: { replicas: 4 } })
  const retainedVolumes = ['qdrant-storage-vec-a-3']
  const decision = sync(observedShards({ cluster, ...RUN_DUE, retainedVolumes }), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'VolumeKept'],
    'spec.replicas would start a node with the volume of a removed one: delete PersistentVolumeClaim qdrant-storage-vec-a-3, and the node starts empty',
  ])
})

t.test('balance goes last: after a helm run', async (t) => {
  const cluster = threeNodes({ status: { balancedNodes: 2 } })
  const step: PlanOutcome = { is: 'step', purpose: 'balance' }
  const behind = sync(observedShards({ cluster, ...RUN_DUE }, plans(DONE, step)), context)
  t.equal(verbOf(behind), 'upgrade')
  const alone = sync(observedShards({ cluster }, plans(DONE, step)), context)
  t.match(jobPlan(alone, ShardsPlan), { nodes: 3, balance: true })
})

const NUMBERS = [{ collection: 'docs', shards: 6, source: { namespace: 'ns', name: 'docs' } }]

t.test('another number of shards goes after a helm run and before balance', async (t) => {
  const cluster = threeNodes({ status: { balancedNodes: 2 } })
  const balance: PlanOutcome = { is: 'step', purpose: 'balance' }
  const reshard: PlanOutcome = { is: 'step', purpose: 'resharding' }
  const summary = { shardNumbers: NUMBERS, plans: { repair: DONE, reshard, balance } }
  const behind = sync(observedShards({ cluster, ...RUN_DUE }, summary), context)
  t.equal(verbOf(behind), 'upgrade')
  const alone = sync(observedShards({ cluster }, summary), context)
  t.match(jobPlan(alone, ShardsPlan), {
    ...{ nodes: 3, balance: false },
    resharding: { numbers: NUMBERS, mayStart: true },
  })
})

t.test(
  'numbers of shards are changed only where they are known, and moves only as asked',
  async (t) => {
    const known = observedShards({}, { shardNumbers: NUMBERS })
    const facts = { nodes: [], peers: [] }
    t.notOk('reshard' in shardTargets(known, facts))
    const targets = shardTargets(known, { ...facts, shardNumbers: NUMBERS })
    t.strictSame(targets.repair.resharding, { numbers: NUMBERS, mayStart: false })
    // Also where every collection has its number: moves of a user are not undone for it.
    t.match(targets.reshard, { balance: false, resharding: { numbers: NUMBERS, mayStart: true } })
    t.notOk('balance' in targets)
    const other = [
      { ...NUMBERS[0], collection: 'docs', shards: 3, source: { namespace: 'ns', name: 'docs' } },
    ]
    t.ok(known.shards && isCurrent(known.shards, targets))
    t.notOk(
      known.shards &&
        isCurrent(known.shards, shardTargets(known, { ...facts, shardNumbers: other })),
    )
  },
)

t.test(
  'a cluster without consensus, pods or an applied release has no work on shards',
  async (t) => {
    const due = observedShards({}, plans(REPAIR))
    const alone = { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } }
    const { statefulSet: _, ...withoutPods } = due
    t.strictSame(nextShardStep({ ...due, cluster: threeNodes({ spec: alone }) }, context), NONE)
    t.strictSame(nextShardStep(withoutPods, context), NONE)
    t.strictSame(nextShardStep({ ...due, progress: progress() }, context), NONE)
    t.strictSame(nextShardStep(observedShards(), context), NONE)
    const pendingRun = desiredRun(due, settings)
    t.strictSame(nextShardStep({ ...observedShards(), pendingRun }, context), NONE)
  },
)

t.test('nodes are removed by helm once the plan says that they are drained', async (t) => {
  const drained = observedShards(scaledIn(), { plans: { repair: DONE, drain: DONE } })
  t.strictSame(nextShardStep(drained, context), NONE)
  t.equal(verbOf(sync(drained, context)), 'upgrade')
})

t.test('a drain that waits says what for', async (t) => {
  const appliedWith = (parts: Partial<Observed>, summary: Partial<ShardsSummary> = {}) =>
    condition(sync(observedShards(scaledIn({}, parts), summary), context), 'Applied')
  const { shards: _, ...silent } = observedShards(scaledIn())
  const shardsFailure = { error: new EngineError('no answer') }
  t.strictSame(condition(sync({ ...silent, shardsFailure }, context), 'Applied')?.slice(1), [
    'Draining',
    'spec.replicas: 3 -> 2 waits until the nodes report their shards: no answer',
  ])
  const obstruction = { reason: 'SplitBrain', message: 'the nodes form 2 clusters' }
  const refused = { is: 'refused', ...obstruction } as const
  const split = { obstruction, plans: { repair: refused, drain: refused } }
  t.strictSame(appliedWith({}, split)?.slice(1), [
    'Draining',
    'spec.replicas: 3 -> 2 waits: the nodes form 2 clusters',
  ])
})

t.test('a drain that has failed says why until it is tried again', async (t) => {
  const { hash: plan } = jobPlan(sync(observedShards(scaledIn()), context), ShardsPlan)
  const failed = progress({
    ...{ verb: 'shards', state: 'Failed', plan, at: ago(60), applied: applied() },
    ...{ reason: 'TransferFailed', message: 'docs/1 failed 3 times' },
  })
  const decision = sync(observedShards(scaledIn({}, { progress: failed })), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'TransferFailed', 'docs/1 failed 3 times'],
  ])
})

t.test('a repair does not go before a helm run of another plan than the failed one', async (t) => {
  const pods = statefulSet(3, { readyReplicas: 2 })
  const stepAfter = (report: Parameters<typeof progress>[0]) => {
    const known = observedShards(
      { statefulSet: pods, progress: progress({ applied: applied(), ...report }) },
      plans(REPAIR),
    )
    return nextShardStep({ ...known, pendingRun: desiredRun(known, settings) }, context)
  }
  const { hash: plan } = desiredRun(observedShards(), settings)
  t.match(stepAfter({ state: 'Failed', plan, at: ago(5) }), { is: 'due' })
  t.strictSame(stepAfter({ state: 'Failed', plan: 'other', at: ago(5) }), NONE)
  t.strictSame(stepAfter({ state: 'Done', plan }), NONE, 'it has not failed')
})

t.test('a helm run that waited for other work than a repair does not go before one', async (t) => {
  const shards = { ...RESULT, isYielded: true }
  const ended = progress({ verb: 'upgrade', applied: applied(), shards })
  const decision = sync(observedShards({ ...RUN_DUE, progress: ended }, plans(REPAIR)), context)
  t.equal(verbOf(decision), 'shards', 'the last Job was a helm run')
})

t.test('a summary answers another question once the spec asks for other nodes', async (t) => {
  const asked = (replicas: number) => {
    const known = observedShards({ cluster: threeNodes({ spec: { replicas } }) })
    return shardTargets(known, { nodes: [], peers: [] })
  }
  const summary = observedShards({ cluster: threeNodes({ spec: { replicas: 2 } }) }).shards
  const isStill = (targets: ShardTargets) => summary !== undefined && isCurrent(summary, targets)
  t.equal(isStill(asked(2)), true)
  t.equal(isStill(asked(1)), false)
  t.equal(isStill(asked(3)), false)
  const { repair } = asked(2)
  t.equal(isStill({ ...asked(2), repair: { ...repair, maxTransfers: 4 } }), false)
})

t.test('a cluster without a StatefulSet has one node to ask about', async (t) => {
  const facts = { nodes: [], peers: [] }
  t.match(shardTargets({ cluster: threeNodes() }, facts), { repair: { nodes: 1 } })
})

t.test('the share of a copy that is done is no part of the message', async (t) => {
  t.equal(withoutProgress('docs/1 is copied (62 %)'), 'docs/1 is copied')
  t.equal(withoutProgress('docs/1 (key a) is copied\n(62 %, 3 of 5)'), 'docs/1')
  t.equal(withoutProgress('docs/1 (key a) is copied'), 'docs/1 (key a) is copied')
})
