/** Decisions about a VecCluster while its pods are updated one by one. */
import t from 'tap'
import { ANNOTATIONS, LABELS, REVISION_LABEL } from '../../../crds/contract/names.ts'
import { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import { UpgradePlan } from '../../../crds/contract/job.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { Pod, StatefulSet } from '../../../crds/kubernetes.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { canQueryShards } from '../../../hooks/cluster/shards/observe.ts'
import { canQueryPods, isUpdateGated, needsPods } from '../../../hooks/cluster/rollout.ts'
import type { PlanOutcome, ShardsSummary } from '../../../hooks/cluster/shards/summary.ts'
import {
  applied,
  context,
  observed,
  progress,
  settings,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { createdJob, jobPlan } from '../decisions.ts'
import { condition, sync } from './decisions.ts'
import { member, observedShards, podsOf, recordedNodes, threeNodes } from './shards.ts'

const UPDATE: PlanOutcome = { is: 'step', purpose: 'update' }
const APPLIED = 'run 1 of vec-a was applied'
const LAST_COPY = { reason: 'LastCopy', message: 'docs/2 is Active only on node 1' }

/** Three nodes, of which none has the new template, with this partition. */
function outdated(partition = 3, status: StatefulSet['status'] = {}): StatefulSet {
  const set = statefulSet(3)
  return {
    ...set,
    spec: { ...set.spec, updateStrategy: { rollingUpdate: { partition } } },
    status: { ...set.status, currentRevision: 'r1', updateRevision: 'r2', ...status },
  }
}

const NODES = recordedNodes(3).map(({ ordinal }) => ({ ordinal, revision: 'r1' }))

/** A cluster that is being updated, and what the planner answers. */
function updating(
  update: PlanOutcome = UPDATE,
  {
    summary = {},
    cluster = {},
    ...parts
  }: Omit<Partial<Observed>, 'cluster'> & {
    summary?: Partial<ShardsSummary>
    cluster?: ClusterOverrides
  } = {},
): Observed {
  return observedShards(
    {
      statefulSet: outdated(),
      ...parts,
      cluster: threeNodes({ ...cluster, status: { phase: 'Upgrading', ...cluster.status } }),
    },
    { nodes: NODES, plans: { repair: { is: 'done' }, update }, ...summary },
  )
}

t.test('a Job updates the nodes, and the condition says so', (t) => {
  const decision = sync(updating(), context)
  const plan = jobPlan(decision, ShardsPlan)
  t.strictSame(plan.update, { revision: 'r2', singleCopies: 'Restart', allowsLastCopy: false })
  matchWhole(t, condition(decision, 'ShardsPlaced'), [
    'False',
    'Updating',
    /^creating Job a-shards-[0-9a-f]{5}-2$/,
  ])
  matchWhole(t, condition(decision, 'Progressing'), ['True', 'HelmReleaseApplied', APPLIED])
  t.equal(decision.status.phase, 'Upgrading')
  t.end()
})

t.test('the spec and the annotation decide about last replicas', (t) => {
  const cluster: ClusterOverrides = {
    spec: { update: { singleCopies: 'Refuse' } },
    annotations: { [ANNOTATIONS.acceptRisk]: 'last-copy' },
  }
  const plan = jobPlan(sync(updating(UPDATE, { cluster }), context), ShardsPlan)
  t.match(plan.update, { singleCopies: 'Refuse', allowsLastCopy: true })
  t.end()
})

t.test('nothing is balanced until the update is complete', (t) => {
  const cluster: ClusterOverrides = { spec: { shards: { balance: 'Always', maxTransfers: 1 } } }
  t.strictSame(Object.keys(updating(UPDATE, { cluster }).shards?.targets ?? {}), [
    ...['repair', 'update'],
  ])
  t.end()
})

t.test('pods that Kubernetes updates by itself, and complete updates, are no work', (t) => {
  const targets = (set: StatefulSet, nodes = NODES) =>
    Object.keys(
      observedShards({ statefulSet: set }, { nodes, plans: { repair: { is: 'done' } } }).shards
        ?.targets ?? {},
    )
  t.strictSame(targets(outdated(0)), ['repair'])
  const current = NODES.map((node) => ({ ...node, revision: 'r2' }))
  t.strictSame(targets(outdated(), current), ['repair'])
  // The template is that of the current revision again, and one node already had the other one.
  const reverted = outdated(2, { updateRevision: 'r1' })
  t.strictSame(targets(reverted), ['repair'])
  t.strictSame(targets(reverted, [...NODES.slice(0, 2), { ordinal: 2, revision: 'r2' }]), [
    ...['repair', 'update'],
  ])
  t.end()
})

const pod = (ordinal: number, revision: string): Pod => ({
  ...{ apiVersion: 'v1', kind: 'Pod' },
  metadata: { name: `vec-a-${ordinal}`, labels: { [REVISION_LABEL]: revision } },
})

/** The template is r1 again after an update to r2 that one node has got. Both revisions are r1. */
function takenBack(label = 'r2', parts: Parameters<typeof updating>[1] = {}): Observed {
  const status = { updateRevision: 'r1', updatedReplicas: 2 }
  const nodes = [...NODES.slice(0, 2), { ordinal: 2, revision: label }]
  return updating(UPDATE, {
    statefulSet: outdated(3, status),
    pods: [pod(0, 'r1'), pod(1, 'r1'), pod(2, label)],
    ...parts,
    summary: { nodes },
  })
}

t.test(
  'an update that was taken back is not rolled out while a pod has the other template',
  (t) => {
    const observed = takenBack()
    const decision = sync(observed, context)
    t.equal(decision.status.phase, 'Upgrading')
    matchWhole(t, condition(decision, 'Progressing'), ['True', 'HelmReleaseApplied', APPLIED])
    matchWhole(t, condition(decision, 'ShardsPlaced'), [
      'False',
      'Updating',
      /^creating Job a-shards-[0-9a-f]{5}-2$/,
    ])
    t.match(jobPlan(decision, ShardsPlan).update, { revision: 'r1' })
    t.ok(isUpdateGated(observed))
    t.ok(canQueryPods(observed))
    const unlisted = takenBack('r2', { pods: [] })
    t.equal(sync(unlisted, context).status.phase, 'Upgrading', 'pods that cannot be listed')
    // Running cannot come from the phase before.
    const cluster = { status: { phase: 'Running' } } as const
    t.equal(sync(takenBack('r2', { cluster }), context).status.phase, 'Upgrading')
    t.end()
  },
)

t.test('a pod that terminates with the newest template is no update', (t) => {
  const cluster = { status: { phase: 'Running' } } as const
  const decision = sync(takenBack('r1', { cluster }), context)
  t.equal(decision.status.phase, 'Running')
  matchWhole(t, condition(decision, 'Progressing'), [
    'False',
    'RolloutComplete',
    'run 1 of vec-a is rolled out',
  ])
  t.notOk(isUpdateGated(takenBack('r1')))
  t.end()
})

t.test('the pods are read while some may be outdated or are not ready', (t) => {
  const needs = (status: StatefulSet['status'], parts: Partial<Observed> = {}) =>
    needsPods({ ...updating(), statefulSet: outdated(3, status), ...parts })
  const current = { updateRevision: 'r1' }
  t.notOk(needs(current))
  t.ok(needs({ ...current, updatedReplicas: 2 }))
  t.ok(needs({ ...current, readyReplicas: 2 }))
  t.ok(needs({ ...current, updatedReplicas: 2, readyReplicas: 2 }))
  t.end()
})

t.test('the condition Progressing says why the next node is not updated', (t) => {
  const refused: PlanOutcome = { is: 'refused', ...LAST_COPY }
  const decision = sync(updating(refused, { summary: { closedGate: LAST_COPY } }), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Progressing'), ['False', 'LastCopy', LAST_COPY.message])
  t.equal(condition(decision, 'Applied')?.[0], 'True')
  t.equal(decision.status.phase, 'Upgrading')
  const events = decision.events ?? []
  t.match(
    events.find(({ reason }) => reason === 'LastCopy'),
    { type: 'Warning', message: LAST_COPY.message },
  )
  t.end()
})

t.test('the status has the versions of the pods while they differ', (t) => {
  const versionsOf = (...images: (string | undefined)[]) => {
    const pods = podsOf(['r1', 'r1', 'r2', 'r2']).map((one, ordinal) => {
      const image = images[ordinal]
      return image === undefined ? one : { ...one, spec: { containers: [{ image }] } }
    })
    return sync(updating(UPDATE, { pods }), context).status.podVersions
  }
  const [older, newer] = ['qdrant/qdrant:v1.16.3', `x:5000/qdrant:v1.17.1@sha256:${'a'.repeat(64)}`]
  t.strictSame(versionsOf(older, older, newer), ['1.16.3', '1.17.1'])
  t.strictSame(versionsOf(newer, older, newer), ['1.16.3', '1.17.1'])
  t.equal(versionsOf(older, older, older), undefined)
  t.equal(versionsOf(older, older, `${older}-unprivileged`), undefined, 'the same engine')
  t.equal(versionsOf(older, older, older, newer), undefined, 'a removed node that has not ended')
  t.equal(versionsOf(older, 'qdrant:latest', undefined), undefined)
  t.equal(sync(updating(), context).status.podVersions, undefined)
  t.end()
})

t.test('a transfer that no Job aborts holds an update, and is one Event', (t) => {
  const stalled = {
    reason: 'TransferStalled',
    message: 'docs/0 is copied from node 0 to node 1 without progress since 10:00',
  }
  const refused: PlanOutcome = { is: 'refused', ...stalled }
  const plans = { repair: refused, update: refused }
  const summary = { closedGate: stalled, plans }
  const decision = sync(updating(refused, { summary }), context)
  t.equal(createdJob(decision), undefined)
  for (const type of ['Progressing', 'ShardsPlaced']) {
    t.strictSame(condition(decision, type), ['False', stalled.reason, stalled.message], type)
  }
  const events = decision.events?.filter(({ reason }) => reason === stalled.reason)
  matchWhole(t, events, [{ type: 'Warning', message: stalled.message }])
  t.end()
})

t.test('the last wait of a Job remains the reason until the nodes report another', (t) => {
  const difference = 'the replicas of docs/2 have different numbers of points'
  const blocked = {
    reason: 'ReplicasDiffer',
    message: `${difference}: 7 on node 1, 9 on node 2, and node 2 is updated next: drop`,
    differs: 'docs/2',
  }
  const report = progress({
    ...{ verb: 'shards', run: 2, state: 'Done', applied: applied() },
    shards: {
      ...{ startedAt: context.now.toISOString(), stepsDone: 0, stepsLeft: 3, moves: [] },
      ...{ bytesMoved: 0, bytesLeft: 0, purpose: 'update', isYielded: true, blocked },
    },
  })
  const decide = (
    message: string,
    differs: string | undefined,
    conditions: VecCluster['status'] = {},
  ) => {
    const plan: PlanOutcome = {
      ...{ is: 'waiting', purpose: 'update', message },
      ...(differs !== undefined && { differs }),
    }
    return sync(updating(plan, { progress: report, cluster: { status: conditions } }), context)
  }
  const decision = decide('whatever a later release says about it', 'docs/2')
  t.strictSame(condition(decision, 'Progressing'), ['False', blocked.reason, blocked.message])
  for (const differs of [undefined, 'docs/3']) {
    const other = decide(`${difference}: 1 on node 1`, differs)
    t.equal(condition(other, 'Progressing')?.[1], 'HelmReleaseApplied', differs ?? 'none')
  }
  t.equal(decision.events?.filter(({ reason }) => reason === blocked.reason).length, 1)
  // Writes change the numbers.
  const { conditions = [] } = decision.status
  const earlier = conditions.map((one) =>
    one.type === 'Progressing' ? { ...one, message: `${difference}: 5 on node 1` } : one,
  )
  const again = decide(`${difference}: 8 on node 1`, 'docs/2', { conditions: earlier })
  t.equal(again.events?.filter(({ reason }) => reason === blocked.reason).length ?? 0, 0)
  t.end()
})

t.test('the condition remains during a repair, and while nothing newer is observed', (t) => {
  const waiting: PlanOutcome = { is: 'waiting', purpose: 'repair', message: 'docs/2 is Dead' }
  const decision = sync(updating(waiting, { summary: { closedGate: LAST_COPY } }), context)
  matchWhole(t, condition(decision, 'Progressing'), ['False', 'LastCopy', LAST_COPY.message])
  const { shards: _, ...unknown } = updating(waiting, {
    cluster: { status: { conditions: decision.status.conditions ?? [] } },
  })
  matchWhole(t, condition(sync(unknown, context), 'Progressing'), [
    'False',
    'LastCopy',
    LAST_COPY.message,
  ])
  const opened = updating(UPDATE, {
    cluster: { status: { conditions: decision.status.conditions ?? [] } },
  })
  matchWhole(t, condition(sync(opened, context), 'Progressing'), [
    'True',
    'HelmReleaseApplied',
    APPLIED,
  ])
  t.end()
})

t.test('a Job in progress reports why it waits', (t) => {
  const job = { ...createdJobOf(updating()), status: { active: 1, ready: 1 } }
  const report = progress({
    ...{ verb: 'shards', state: 'Started', job: job.metadata.uid, run: 2 },
    applied: applied(),
    shards: {
      ...{ startedAt: context.now.toISOString(), stepsDone: 0, stepsLeft: 0, moves: [] },
      ...{ bytesMoved: 0, bytesLeft: 0, purpose: 'update', blocked: LAST_COPY },
    },
  })
  const { shards: _, ...parts } = updating()
  const decision = sync({ ...parts, jobs: [job], progress: report } as Observed, context)
  matchWhole(t, condition(decision, 'Progressing'), ['False', 'LastCopy', LAST_COPY.message])
  matchWhole(t, condition(decision, 'ShardsPlaced'), [
    'False',
    'Updating',
    /^Job a-shards-[0-9a-f]{5}-2 is in progress$/,
  ])
  t.end()
})

function createdJobOf(known: Observed) {
  const job = createdJob(sync(known, context))
  if (job === undefined) throw new Error('no Job is created')
  return { ...job, metadata: { ...job.metadata, uid: 'job-2' } }
}

t.test('a helm run goes before the update: it may be what repairs it', (t) => {
  const due = { progress: progress({ applied: applied() }), unfinishedHelmJobs: 0 }
  for (const plan of [UPDATE, { is: 'refused', ...LAST_COPY } as const]) {
    const decision = sync(updating(plan, due), context)
    t.equal(createdJob(decision)?.metadata.labels?.[LABELS.verb], 'upgrade')
  }
  t.end()
})

t.test('nodes that cannot be removed do not keep the others from being updated', (t) => {
  const cluster: ClusterOverrides = { spec: { replicas: 2 } }
  const drain: PlanOutcome = { is: 'refused', reason: 'NotEnoughNodes', message: 'too few' }
  const summary = { plans: { repair: { is: 'done' }, drain, update: UPDATE } } as const
  const due = { progress: progress({ applied: applied() }), unfinishedHelmJobs: 0 }
  const decision = sync(updating(UPDATE, { cluster, summary, ...due }), context)
  t.match(jobPlan(decision, ShardsPlan), { nodes: 3, update: { revision: 'r2' } })
  t.end()
})

t.test('nodes that are down are updated although consensus is lost', (t) => {
  const consensus = [0, 1, 2].map((ordinal) => ({ ordinal, state: 'stopped' as const }))
  t.ok(jobPlan(sync(updating(UPDATE, { consensus }), context), ShardsPlan).update)
  t.end()
})

t.test('the nodes are asked although the pod of a removed one has not ended', (t) => {
  const set = statefulSet(3)
  for (const phase of ['Running', 'Draining', 'Upgrading'] as const) {
    const known = (status: StatefulSet['status'] = {}) =>
      observedShards({
        cluster: threeNodes({ status: { phase } }),
        statefulSet: { ...set, status: { ...set.status, replicas: 4, ...status } },
        pods: podsOf(['r1', 'r1', 'r1', 'r0']),
      })
    t.equal(canQueryPods(known()), true, phase)
    t.equal(canQueryShards(known(), context), true, phase)
    t.equal(canQueryShards(known({ readyReplicas: 2 }), context), false, phase)
    t.equal(canQueryShards(known({ observedGeneration: 0 }), context), false, phase)
    t.equal(canQueryShards(known({ updateRevision: 'r2' }), context), false, phase)
  }
  t.end()
})

t.test('the nodes are asked during a gated update, even if none is ready', (t) => {
  const known = (set: StatefulSet) => updating(UPDATE, { statefulSet: set })
  t.equal(canQueryShards(known(outdated()), context), true)
  t.equal(canQueryPods(known(outdated())), true)
  t.equal(canQueryShards(known(outdated(3, { readyReplicas: 0 })), context), true)
  t.equal(canQueryPods(known(outdated(3, { readyReplicas: 0 }))), false)
  t.equal(canQueryShards(known(outdated(0)), context), false)
  // Kubernetes has not processed the last change yet.
  t.equal(isUpdateGated(known(outdated(3, { observedGeneration: 0 }))), false)
  t.end()
})

function runOf(cluster: ClusterOverrides, secretFingerprints: Record<string, string> = {}) {
  const known = threeNodes({ ...cluster, status: { formedNodes: 3, ...cluster.status } })
  const lastSpec = cluster.annotations?.[ANNOTATIONS.lastAppliedSpec]
  const metadata = {
    ...known.metadata,
    annotations: {
      [ANNOTATIONS.lastAppliedSpec]: lastSpec ?? JSON.stringify(known.spec),
      ...cluster.annotations,
    },
  }
  return desiredRun(
    observed({
      cluster: { ...known, metadata },
      progress: progress({ applied: applied({ secretFingerprints }) }),
    }),
    settings,
  )
}

t.test('the pods of a formed cluster are updated by Jobs; its plan hash is as before', (t) => {
  const gated = runOf({})
  t.equal(gated.isGated, true)
  const ungated = runOf({ status: { formedNodes: 1 } })
  t.notOk('isGated' in ungated)
  t.equal(gated.hash, ungated.hash)
  t.equal(runOf({ annotations: { [ANNOTATIONS.acceptRisk]: 'last-copy' } }).hash, gated.hash)
  t.notOk(runOf({ annotations: { [ANNOTATIONS.acceptRisk]: 'last-copy' } }).acceptedRisks.length)
  t.end()
})

t.test('pods with another key or certificate are updated by Kubernetes', (t) => {
  const { spec } = threeNodes()
  const before = (fields: object) => ({
    [ANNOTATIONS.lastAppliedSpec]: JSON.stringify({ ...spec, ...fields }),
  })
  t.equal(runOf({ annotations: before({ version: '1.17.0' }) }).isGated, true)
  t.equal(runOf({ annotations: before({ tls: { enabled: true } }) }).isGated, undefined)
  const apiKey = { autoGenerate: true, jwtRbac: false }
  t.equal(runOf({ annotations: before({ apiKey }) }).isGated, undefined)
  t.equal(runOf({ annotations: { [ANNOTATIONS.lastAppliedSpec]: '{' } }).isGated, undefined)
  t.equal(runOf({}, { 'spec.apiKey': 'other' }).isGated, undefined)
  t.end()
})

t.test('pods with another read-only key are updated by Jobs, which do not use it', (t) => {
  const { spec } = threeNodes()
  const secretRef = (name: string) => ({ secretRef: { name, key: 'k' } })
  const changed = (
    before: object,
    after: NonNullable<ClusterOverrides['spec']>,
    former: Record<string, string>,
  ): boolean | undefined =>
    runOf(
      {
        spec: after,
        annotations: {
          [ANNOTATIONS.lastAppliedSpec]: JSON.stringify({ ...spec, ...before }),
        },
      },
      former,
    ).isGated
  const readOnly = { readOnlyApiKey: { ...secretRef('read'), autoGenerate: false } }
  const autoGenerate = { readOnlyApiKey: { autoGenerate: true } }
  t.equal(changed({}, autoGenerate, {}), true)
  t.equal(changed({}, readOnly, {}), true)
  t.equal(changed(readOnly, readOnly, { read: 'former' }), true, 'the Secret has another key')
  t.equal(changed({ readOnlyApiKey: secretRef('other') }, readOnly, { other: 'former' }), true)
  const both = {
    ...readOnly,
    apiKey: { ...secretRef('read'), autoGenerate: false, jwtRbac: false },
  }
  t.equal(changed(both, both, { read: 'former' }), undefined, 'the other key may be another one')
  t.end()
})

t.test('the plan of a helm Job says whether its pods are updated by Jobs', (t) => {
  const due = { progress: progress({ applied: applied() }), unfinishedHelmJobs: 0 }
  const spec = threeNodes().spec
  const cluster: ClusterOverrides = {
    status: { formedNodes: 3 },
    annotations: { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(spec) },
  }
  t.equal(jobPlan(sync(updating(UPDATE, { ...due, cluster }), context), UpgradePlan).isGated, true)
  t.end()
})

t.test('nodes that are members are recorded while they are updated', (t) => {
  const summary = { peers: [0, 1, 2].map((ordinal) => member(ordinal)) }
  const decision = sync(updating(UPDATE, { summary }), context)
  t.equal(decision.status.nodes?.length, 3)
  t.end()
})
