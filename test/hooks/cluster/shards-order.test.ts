/** What goes first: work on the shards of a VecCluster, or its helm run. One test for each rule. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import { LABELS } from '../../../crds/contract/names.ts'
import type { Decision } from '../../../hooks/cluster/desired-state.ts'
import type { Observed } from '../../../hooks/cluster/observed.ts'
import type { PlanOutcome, ShardsSummary } from '../../../hooks/cluster/shards-summary.ts'
import {
  ago,
  applied,
  context,
  helmJob,
  progress,
  settings,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { createdJob, jobPlan } from '../decisions.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { condition, sync } from './decisions.ts'
import { observedShards, threeNodes } from './shards.ts'

const REPAIR: PlanOutcome = { is: 'step', purpose: 'repair' }
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
