/** What the status of a VecCluster says about its shards and nodes. */
import t from 'tap'
import type { VecCluster } from '../../../../crds/cluster.ts'
import { EngineError, KubernetesError } from '../../../../crds/contract/errors.ts'
import { criticalConditions } from '../../../../crds/critical-conditions.ts'
import { ANNOTATIONS } from '../../../../crds/contract/names.ts'
import { desiredRun } from '../../../../hooks/cluster/job.ts'
import { withKstatus } from '../../../../hooks/conditions.ts'
import type { Decision } from '../../../../hooks/cluster/decision.ts'
import { isDraining } from '../../../../hooks/cluster/shards/status.ts'
import type { Observed, PodConsensus } from '../../../../hooks/cluster/ports.ts'
import type { ShardsSummary } from '../../../../hooks/cluster/shards/summary.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  observed,
  progress,
  settings,
  statefulSet,
} from '../../../builders.ts'
import { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { createdJob, jobPlan } from '../../decisions.ts'
import { condition, sync } from '../decisions.ts'
import { member, observedShards, recordedNodes, threeNodes } from '../shards.ts'

function placed(summary: Partial<ShardsSummary>, parts: Partial<Observed> = {}) {
  return condition(sync(observedShards(parts, summary), context), 'ShardsPlaced')
}

function eventReasons({ events = [] }: Decision): string[] {
  return events.map(({ reason }) => reason)
}

/** Node 2 has another volume than was recorded. */
const LOST: Partial<ShardsSummary> = {
  nodes: [0, 1, 2].map((ordinal) => ({
    ordinal,
    volume: ordinal === 2 ? 'other' : `volume-${ordinal}`,
  })),
  peers: [member(0), member(1), { ...member(2), isMember: false }],
  activeReplicas: 8,
}

t.test('every replica is Active: Placed', async (t) => {
  const decision = sync(observedShards(), context)
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['True', 'Placed', '12 of 12 replicas are Active'],
  ])
  t.strictSame(eventReasons(decision), ['RolloutComplete'], 'which is worth no Event at first')
  const { nodes, balancedNodes, shards, selector } = decision.status
  t.strictSame(
    { nodes, balancedNodes, shards, selector },
    {
      nodes: recordedNodes(3),
      balancedNodes: 3,
      shards: { replicas: 12, activeReplicas: 12 },
      selector: 'app.kubernetes.io/instance=vec-a',
    },
  )
})

t.test('replicas that are not Active are counted, with what is waited for', async (t) => {
  const message = 'docs/1 on node 2 is Dead; the engine usually repairs it'
  const repair = { is: 'waiting', purpose: 'repair', message } as const
  t.strictSame(placed({ activeReplicas: 11, plans: { repair } }), [
    ...['False', 'ReplicasNotActive', `11 of 12 replicas are Active: ${message}`],
  ])
  const cluster = threeNodes({ spec: { healing: { replicas: false, lostNodes: 'Manual' } } })
  t.strictSame(placed({ activeReplicas: 11 }, { cluster })?.slice(1), [
    'ReplicasNotActive',
    '11 of 12 replicas are Active; spec.healing.replicas is false, so they are not repaired',
  ])
})

t.test('nodes that do not agree for a moment change nothing', async (t) => {
  const repair = { is: 'waiting', purpose: 'agreement', message: 'commits differ' } as const
  const before = sync(observedShards(), context).status
  const cluster = threeNodes({ status: before })
  const decision = sync(
    observedShards({ cluster }, { activeReplicas: 3, plans: { repair } }),
    context,
  )
  t.strictSame(decision.status, before)
})

t.test('nodes that do not agree for ten minutes: Unknown', async (t) => {
  const message = 'node 1 does not list the replica of docs/2 on peer 100'
  const repair = { is: 'waiting', purpose: 'agreement', message } as const
  const cluster = threeNodes({ status: sync(observedShards(), context).status })
  const since = (seconds: number) =>
    placed({ plans: { repair }, unsettledSince: ago(seconds) }, { cluster })
  t.strictSame(since(599), ['True', 'Placed', '12 of 12 replicas are Active'])
  t.strictSame(since(600), [
    ...['Unknown', 'ShardsUnknown', `the nodes do not agree about the shards: ${message}`],
  ])
})

t.test('nodes that could not be asked: Unknown', async (t) => {
  const { shards: _, ...unknown } = observedShards()
  const error = new EngineError('no answer')
  const decision = sync({ ...unknown, shardsFailure: { error } }, context)
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['Unknown', 'ShardsUnknown', 'querying the shards failed: no answer'],
  ])
  t.strictSame(decision.failures, [{ error }])
  t.equal(condition(sync(unknown, context), 'ShardsPlaced'), undefined, 'not asked yet')
  const obstruction = { reason: 'NoLeader', message: 'no leader is known to node 0' }
  const repair = { is: 'refused', ...obstruction } as const
  t.strictSame(placed({ obstruction, plans: { repair }, activeReplicas: 0 }), [
    ...['Unknown', 'ShardsUnknown', 'no leader is known to node 0'],
  ])
})

t.test('the errors of all queries are in the decision, for the log', async (t) => {
  const consensusFailure = { error: new KubernetesError('GET secrets/vec-a-apikey answered 403') }
  const shardsFailure = { error: new TypeError('x') }
  const keysFailure = { error: new TypeError('y') }
  const seen = { ...observedShards(), consensusFailure, shardsFailure, keysFailure }
  t.strictSame(sync(seen, context).failures, [consensusFailure, shardsFailure, keysFailure])
  t.notOk('failures' in sync(observedShards(), context))
})

t.test('a plan that a user has to unblock is the reason', async (t) => {
  const repair = { is: 'refused', reason: 'NoCapacity', message: 'no node has space' } as const
  t.strictSame(placed({ plans: { repair }, activeReplicas: 11 }), [
    ...['False', 'NoCapacity', 'no node has space'],
  ])
  const lost = { is: 'refused', reason: 'LastReplicaLost', message: 'docs/1 is lost' } as const
  t.equal(
    placed({ plans: { repair: lost }, backups: ['ns/b2', 'ns/b1'] })?.[2],
    'docs/1 is lost; the newest Completed backups: ns/b2, ns/b1',
  )
  t.equal(
    placed({ plans: { repair: lost } })?.[2],
    'docs/1 is lost; no Completed VecBackup of the cluster exists',
  )
})

t.test('a resharding by another client is the reason, and no danger', async (t) => {
  const other = { is: 'refused', reason: 'ForeignResharding', message: 'm' } as const
  const plans = { repair: other, reshard: other }
  t.strictSame(placed({ plans }), ['False', 'ForeignResharding', 'm'])
  const { conditions = [] } = sync(observedShards({}, { plans }), context).status
  t.strictSame(criticalConditions(conditions), [])
})

t.test('a lost node: what to annotate if it is safe, and Stalled', async (t) => {
  const decision = sync(observedShards({}, LOST), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['False', 'LostNode'],
    'node 2 has lost its data (its volume is a new one): every shard on it has an Active replica on another node, so it can be replaced: annotate the VecCluster with vec-operator.dev/replace="2"',
  ])
  t.strictSame(decision.status.nodes, recordedNodes(3), 'the record stays')
  t.match(decision.events?.at(-1), { type: 'Warning', reason: 'LostNode' })
  const { conditions = [] } = withKstatus(threeNodes(), decision.status, context.now)
  t.match(conditions.at(-1), { type: 'Stalled', reason: 'LostNode' })
})

t.test('a lost node with the last replica of a shard: which one, and the backups', async (t) => {
  const onlyOn = [{ peer: 102, shards: ['docs/3', 'docs/5'] }]
  const message = (summary: Partial<ShardsSummary>) => placed({ ...LOST, onlyOn, ...summary })?.[2]
  const start =
    'node 2 has lost its data (its volume is a new one): no other node has an Active replica of docs/3, docs/5: restore them from a backup (a VecRestore with spec.shards), or delete their collections; '
  t.equal(message({ backups: ['ns/b'] }), `${start}the newest Completed backups: ns/b`)
  t.equal(message({}), `${start}no Completed VecBackup of the cluster exists`)
})

/** No leader is known, and the volumes of these nodes are other ones than was recorded. */
function withoutLeader(lost: number[], parts: Partial<ShardsSummary> = {}) {
  const obstruction = { reason: 'NoLeader', message: 'no leader is known to node 2' }
  const nodes = [0, 1, 2].map((ordinal) => ({
    ordinal,
    volume: lost.includes(ordinal) ? 'other' : `volume-${ordinal}`,
  }))
  const repair = { is: 'refused', ...obstruction } as const
  return { obstruction, nodes, peers: [], plans: { repair }, activeReplicas: 0, ...parts }
}

t.test('most nodes have lost their data: no node can be replaced, and what is left', async (t) => {
  const summary = withoutLeader([0, 1], { backups: ['ns/b'] })
  const start =
    'node 0 has lost its data (its volume is a new one); node 1 has lost its data (its volume is a new one): no majority is left (1 of 3 nodes), so no node can be replaced: restore a backup into a new cluster; '
  t.strictSame(placed(summary), [
    ...['False', 'LostNode', `${start}the newest Completed backups: ns/b`],
  ])
  const without = withoutLeader([0, 1])
  t.equal(placed(without)?.[2], `${start}no Completed VecBackup of the cluster exists`)
  const safe = threeNodes({ spec: { healing: { replicas: true, lostNodes: 'WhenSafe' } } })
  const annotated = threeNodes({ annotations: { [ANNOTATIONS.replace]: '0,1' } })
  for (const cluster of [safe, annotated]) {
    const decision = sync(observedShards({ cluster }, summary), context)
    t.equal(condition(decision, 'ShardsPlaced')?.[1], 'LostNode')
    t.strictSame(decision.status.nodes, recordedNodes(3), 'the record stays')
    t.equal(createdJob(decision), undefined)
  }
})

t.test('half of two nodes are no majority either', async (t) => {
  const cluster = threeNodes({ spec: { replicas: 2 }, status: { nodes: recordedNodes(2) } })
  const { nodes, ...summary } = withoutLeader([1])
  const parts = { cluster, statefulSet: statefulSet(2) }
  t.match(placed({ ...summary, nodes: nodes.slice(0, 2) }, parts)?.[2], /\(1 of 2 nodes\)/)
})

t.test('no leader is known, and most nodes have their volumes: Unknown', async (t) => {
  const unknown = ['Unknown', 'ShardsUnknown', 'no leader is known to node 2']
  t.strictSame(placed(withoutLeader([])), unknown)
  t.strictSame(placed(withoutLeader([0])), unknown)
  const consensus: PodConsensus[] = [
    { ordinal: 1, state: 'working', peerId: 7, peers: [], hasLeader: false },
  ]
  const replaced = 'a node that answers is one that was replaced, whatever is recorded'
  t.strictSame(placed(withoutLeader([0, 1]), { consensus }), unknown, replaced)
  const obstruction = { reason: 'SplitBrain', message: 'the pods form 2 separate clusters' }
  t.equal(placed(withoutLeader([0, 1], { obstruction }))?.[1], 'ShardsUnknown')
  const gone = { isNodeGone: true, isUnschedulable: true } as const
  const returning = [0, 1, 2].map((ordinal) => ({
    ...{ ordinal, volume: `volume-${ordinal}` },
    ...(ordinal < 2 && { ...gone, goneSeconds: 599 }),
  }))
  const recorded = recordedNodes(3).map((node) => ({ ...node, node: `w-${node.ordinal}` }))
  const cluster = threeNodes({ status: { nodes: recorded } })
  t.strictSame(placed(withoutLeader([], { nodes: returning }), { cluster }), unknown)
  const left = returning.map((node) => ({ ...node, ...(node.ordinal < 2 && { goneSeconds: 600 }) }))
  t.match(
    placed(withoutLeader([], { nodes: left }), { cluster })?.[2],
    /^node 0 has lost its data \(the Kubernetes node w-0 with its volume does not exist any more\); node 1 /,
  )
})

t.test('H21: the annotation, or WhenSafe, gives the lost peer to the Job', async (t) => {
  const plans = { repair: { is: 'step', purpose: 'lost node' } } as const
  for (const lost of [
    threeNodes({ annotations: { [ANNOTATIONS.replace]: '2' } }),
    threeNodes({ spec: { healing: { replicas: true, lostNodes: 'WhenSafe' } } }),
  ]) {
    const known = observedShards({ cluster: lost }, { ...LOST, plans })
    t.strictSame(known.shards?.targets.repair.lost, [102])
    const decision = sync(known, context)
    t.type(createdJob(decision), 'object')
    t.equal(condition(decision, 'ShardsPlaced')?.[1], 'ReplacingNode')
  }
  t.strictSame(observedShards({}, LOST).shards?.targets.repair.lost, [])
})

t.test(
  'a node with an intact volume is not replaced: why, what to do, and the price',
  async (t) => {
    const named = threeNodes({ annotations: { [ANNOTATIONS.replace]: '2' } })
    const absent: Partial<ShardsSummary> = {
      peers: [member(0), member(1), { ...member(2), isMember: false }],
      plans: { repair: { is: 'waiting', purpose: 'repair', message: 'node 2 has not joined' } },
      activeReplicas: 8,
    }
    const known = observedShards({ cluster: named }, absent)
    t.strictSame(known.shards?.targets.repair.lost, [])
    const decision = sync(known, context)
    t.equal(createdJob(decision), undefined)
    const start =
      'node 2, which the annotation vec-operator.dev/replace names, is not replaced while its volume exists, with which its pod could not join as a new node: repair the pod, or delete PersistentVolumeClaim qdrant-storage-vec-a-2 and pod vec-a-2, and the node is replaced; '
    t.strictSame(condition(decision, 'ShardsPlaced'), [
      ...['False', 'VolumeIntact'],
      `${start}every shard on it has an Active replica on another node`,
    ])
    t.match(decision.events?.at(-1), { type: 'Warning', reason: 'VolumeIntact' })
    const { conditions = [] } = withKstatus(named, decision.status, context.now)
    t.match(conditions.at(-1), { type: 'Stalled', reason: 'VolumeIntact' })

    const onlyOn = [{ peer: 102, shards: ['docs/3'] }]
    const lastOnes = sync(observedShards({ cluster: named }, { ...absent, onlyOn }), context)
    t.equal(
      condition(lastOnes, 'ShardsPlaced')?.[2],
      `${start}no other node has an Active replica of docs/3, which would be lost`,
    )
    // Without its volume it is replaced, with the same annotation.
    const nodes = [0, 1].map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))
    const deleted = { ...absent, nodes: [...nodes, { ordinal: 2, isVolumeMissing: true as const }] }
    t.strictSame(observedShards({ cluster: named }, deleted).shards?.targets.repair.lost, [102])
  },
)

t.test('the message says that an annotation set on a running node has no effect', async (t) => {
  const named = threeNodes({ annotations: { [ANNOTATIONS.replace]: '2' } })
  const decision = sync(observedShards({ cluster: named }), context)
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['True', 'Placed'],
    '12 of 12 replicas are Active; the annotation vec-operator.dev/replace has no effect on node 2: it was set while the node was running',
  ])
})

t.test(
  'the peer that the annotation gave up is recorded until the annotation is removed',
  async (t) => {
    const annotations = { [ANNOTATIONS.replace]: '2' }
    const given = [{ ordinal: 2, peer: 102 }]
    const replaced = (cluster: VecCluster, summary: Partial<ShardsSummary> = {}) =>
      sync(observedShards({ cluster }, summary), context).status.replacedPeers
    t.strictSame(replaced(threeNodes({ annotations }), LOST), given)
    const status = { replacedPeers: given }
    t.strictSame(replaced(threeNodes({ annotations, status })), given, 'all nodes are members')
    t.equal(replaced(threeNodes({ status })), undefined)
    const ignored = [{ ordinal: 2, peer: 102, isIgnored: true }]
    t.strictSame(replaced(threeNodes({ annotations })), ignored, 'no node is absent')
  },
)

t.test('the failure of the last Job is fields while its work is still due', async (t) => {
  const failed = progress({
    ...{ verb: 'shards', run: 2, state: 'Failed', reason: 'TransferFailed', at: ago(5) },
    ...{ message: 'docs/1 failed 3 times', applied: applied() },
  })
  const due = { repair: { is: 'step', purpose: 'repair' } } as const
  const observedFailure = observedShards({ progress: failed }, { plans: due })
  const plan = observedFailure.progress?.plan
  t.equal(plan, 'other', 'of another plan: it is tried at once')
  t.equal(condition(sync(observedFailure, context), 'ShardsPlaced')?.[1], 'Repairing')
  const fixed = observedShards({ progress: failed })
  t.equal(condition(sync(fixed, context), 'ShardsPlaced')?.[1], 'Placed')
})

t.test('an existing cluster counts as balanced: its shards stay where they are', async (t) => {
  const existing = cluster({ spec: { replicas: 3 }, status: { phase: 'Running', appliedRun: 1 } })
  const known = observedShards({ cluster: existing })
  t.strictSame(Object.keys(known.shards?.targets ?? {}), ['repair'], 'balance is not planned')
  const decision = sync(known, context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.status.balancedNodes, 3)
})

t.test('after the number of nodes has changed, balance is planned until it is done', async (t) => {
  const scaled = threeNodes({ status: { balancedNodes: 2 } })
  t.match(observedShards({ cluster: scaled }).shards?.targets, { balance: { balance: true } })
  t.equal(sync(observedShards({ cluster: scaled }), context).status.balancedNodes, 3, 'none needed')
  const due = { repair: { is: 'done' }, balance: { is: 'step', purpose: 'balance' } } as const
  const started = sync(observedShards({ cluster: scaled }, { plans: due }), context)
  t.equal(started.status.balancedNodes, 2)
  const result = {
    ...{ startedAt: ago(60), stepsDone: 3, stepsLeft: 0, bytesMoved: 300, bytesLeft: 0 },
    ...{ moves: [], balancedNodes: 3 },
  }
  const done = progress({ verb: 'shards', run: 2, applied: applied(), shards: result })
  const ended = observedShards({ cluster: scaled, progress: done })
  t.strictSame(Object.keys(ended.shards?.targets ?? {}), ['repair'])
  t.equal(sync(ended, context).status.balancedNodes, 3)
  t.strictSame(Object.keys(observedShards().shards?.targets ?? {}), ['repair'])
})

t.test(
  'a resharding is in the status as the nodes report it, once no Job works on it',
  async (t) => {
    const resharding = {
      ...{ collection: 'docs', uuid: 'u', direction: 'up' as const, shard: 3, peer: 101 },
      ...{ stage: 'migrate' as const, done: [] },
    }
    const result = {
      ...{ startedAt: ago(60), stepsDone: 3, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0 },
      ...{ moves: [], resharding },
    }
    const report = { verb: 'shards', run: 2, applied: applied(), shards: result }
    const job = helmJob({ verb: 'shards', run: 2 })
    const started = progress({ ...report, state: 'Started', job: job.metadata.uid ?? '' })
    const { uuid: _, peer: _peer, done: _done, ...fields } = resharding
    const statusOf = (parts: Partial<Observed>, summary?: Partial<ShardsSummary>) => {
      const { shards, ...observed } = observedShards(parts, summary)
      const known = summary === undefined ? observed : { ...observed, ...(shards && { shards }) }
      return sync(known, context).status.shards?.resharding
    }
    t.strictSame(statusOf({ jobs: [job], progress: started }), fields, 'as its Job reports it')
    const ended = { progress: progress(report) }
    t.strictSame(statusOf(ended), fields, 'until the nodes have answered')
    const record = { ...resharding, stage: 'commit' as const }
    t.strictSame(statusOf(ended, { resharding: record }), { ...fields, stage: 'commit' })
    const points = { copied: 3, total: 9 }
    t.strictSame(statusOf(ended, { resharding: { ...resharding, points } }), { ...fields, points })
    t.equal(statusOf(ended, {}), undefined, 'the engine has aborted it, or the collection is gone')
    const split = { obstruction: { reason: 'ClusterSplit', message: 'two clusters' } }
    t.strictSame(statusOf(ended, split), fields, 'nodes that do not agree do not end it')
  },
)

t.test('after another number of shards, balance is planned until it is done', async (t) => {
  const result = {
    ...{ startedAt: ago(60), stepsDone: 3, stepsLeft: 0, bytesMoved: 300, bytesLeft: 0 },
    ...{ moves: [], balancedNodes: 0 },
  }
  const job = helmJob({ verb: 'shards', run: 2 })
  const report = { verb: 'shards', run: 2, applied: applied(), shards: result }
  const started = progress({ ...report, state: 'Started', job: job.metadata.uid ?? '' })
  const working = sync(observedShards({ jobs: [job], progress: started }), context)
  t.equal(working.status.balancedNodes, 0, 'the Job has reported a new shard')
  const ended = progress(report)
  const cluster = threeNodes({ status: { balancedNodes: 0 } })
  const due = observedShards({ cluster, progress: ended })
  t.match(due.shards?.targets, { balance: { balance: true } })
  t.equal(sync(due, context).status.balancedNodes, 3, 'none needed')
  const known = observedShards({ progress: ended })
  t.strictSame(Object.keys(known.shards?.targets ?? {}), ['repair'], 'once, not after each report')
  t.equal(sync(known, context).status.balancedNodes, 3)
})

for (const [balance, isPlanned] of [
  ['Never', false],
  ['Always', true],
] as const) {
  t.test(`spec.shards.balance ${balance}`, async (t) => {
    const spec = { shards: { balance, maxTransfers: 1 } }
    for (const balancedNodes of [2, 3]) {
      const { targets } = observedShards({
        cluster: threeNodes({ spec, status: { balancedNodes } }),
      }).shards ?? { targets: {} }
      t.equal('balance' in targets, isPlanned)
    }
  })
}

t.test('nodes that are to be added are added before shards are balanced', async (t) => {
  const wider = threeNodes({ spec: { replicas: 5 }, status: { balancedNodes: 2 } })
  t.strictSame(Object.keys(observedShards({ cluster: wider }).shards?.targets ?? {}), ['repair'])
})

t.test('fewer replicas are accepted by annotation', async (t) => {
  const annotations = { [ANNOTATIONS.acceptRisk]: 'fewer-replicas' }
  const known = observedShards({ cluster: threeNodes({ annotations }) })
  t.equal(known.shards?.targets.repair.allowsFewerReplicas, true)
})

t.test('a cluster drains while its plan has steps, waits, or has a Job', async (t) => {
  const smaller = threeNodes({ spec: { replicas: 2 } })
  const drain = (outcome: NonNullable<ShardsSummary['plans']['drain']>) =>
    isDraining(
      observedShards({ cluster: smaller }, { plans: { repair: { is: 'done' }, drain: outcome } }),
    )
  t.equal(drain({ is: 'step', purpose: 'scale-in' }), true)
  t.equal(drain({ is: 'waiting', purpose: 'transfer', message: '' }), true)
  t.equal(drain({ is: 'refused', reason: 'NotEnoughNodes', message: '' }), false)
  t.equal(isDraining(observedShards()), false)
})

t.test('a cluster drains only while the spec asks for fewer nodes', async (t) => {
  const status = { phase: 'Draining' as const }
  t.equal(isDraining(observedShards({ cluster: threeNodes({ status }) })), false)
  const { shards: _, ...silent } = observedShards({
    cluster: threeNodes({ spec: { replicas: 2 }, status }),
  })
  t.equal(isDraining(silent), true, 'until the nodes say otherwise')
  t.equal(isDraining({ ...silent, cluster: threeNodes({ spec: { replicas: 2 } }) }), false)
  const unknown = cluster({ spec: { replicas: 2 } })
  t.equal(isDraining({ ...silent, cluster: unknown }), false)
})

t.test('a cluster drains while the Job is unfinished, and not because of a helm run', async (t) => {
  const { shards: _, ...silent } = observedShards({
    cluster: threeNodes({ spec: { replicas: 2 } }),
  })
  const isDrainingWith = (...jobs: Observed['jobs']) => isDraining({ ...silent, jobs })
  t.equal(isDrainingWith(helmJob({ verb: 'shards' })), true)
  t.equal(isDrainingWith(helmJob()), false)
  t.equal(isDrainingWith(helmJob({ verb: 'shards', ended: ['Complete', 5] })), false)
})

t.test('before the first helm run has ended, nothing is said about shards', async (t) => {
  const { status } = sync(observedShards({ progress: progress() }), context)
  t.strictSame([status.selector, status.shards, status.nodes], [undefined, undefined, undefined])
  t.equal(condition({ status, children: [] }, 'ShardsPlaced'), undefined)
  const ended = sync(observedShards(), context)
  t.ok(ended.status.selector && ended.status.shards && ended.status.nodes)
  t.ok(condition(ended, 'ShardsPlaced'))
})

t.test('the nodes are recorded once all of them are members', async (t) => {
  const formed = cluster({ spec: { replicas: 3 }, status: { phase: 'Running', appliedRun: 1 } })
  t.strictSame(sync(observedShards({ cluster: formed }), context).status.nodes, recordedNodes(3))
})

t.test('the last known number of replicas stays while the nodes cannot be asked', async (t) => {
  const shards = { replicas: 12, activeReplicas: 11 }
  const cluster = threeNodes({ status: { shards } })
  const obstruction = { reason: 'NoLeader', message: 'no leader is known to node 0' }
  const plans = { repair: { is: 'refused', ...obstruction } } as const
  const decision = sync(observedShards({ cluster }, { obstruction, plans, replicas: 0 }), context)
  t.strictSame(decision.status.shards, shards)
})

t.test('the steps of a Job are fields while it runs, once it has reported', async (t) => {
  const shards = {
    ...{ startedAt: ago(60), stepsDone: 3, stepsLeft: 9, bytesMoved: 300, bytesLeft: 900 },
    ...{ moves: [], bytesPerSecond: 5 },
  }
  const stepsWith = (
    job: ReturnType<typeof helmJob>,
    report: Parameters<typeof progress>[0] = {},
  ) => {
    const reported = progress({
      ...{ verb: 'shards', run: 2, state: 'Started', job: 'job-2', applied: applied(), shards },
      ...report,
    })
    const { shards: _, ...silent } = observedShards({ jobs: [job], progress: reported })
    return sync(silent, context).status.shards
  }
  const { startedAt: _started, moves: _moves, ...steps } = shards
  t.strictSame(stepsWith(helmJob({ verb: 'shards', run: 2 })), steps)
  t.equal(stepsWith(helmJob({ verb: 'shards', run: 3 })), undefined, 'it has not reported')
  t.equal(stepsWith(helmJob({ run: 2 })), undefined, 'a helm run has no steps')
  t.equal(stepsWith(helmJob({ verb: 'shards', run: 2, ended: ['Complete', 5] })), undefined)
})

t.test('a Job is named with what it reports, or with what was announced before', async (t) => {
  const job = helmJob({ verb: 'shards', run: 2 })
  const reasonWith = (purpose: string | undefined, announced?: string, running = job) => {
    const known = {
      ...{ type: 'ShardsPlaced', status: 'False' as const, reason: announced ?? '', message: '' },
      ...{ lastTransitionTime: ago(60), observedGeneration: 1 },
    }
    const status = announced === undefined ? {} : { conditions: [known] }
    const shards = {
      ...{ startedAt: ago(60), stepsDone: 0, stepsLeft: 1, bytesMoved: 0, bytesLeft: 0, moves: [] },
      ...(purpose !== undefined && { purpose }),
    }
    const report = { verb: 'shards', run: 2, state: 'Started', job: 'job-2' } as const
    const { shards: _, ...silent } = observedShards({
      ...{ cluster: threeNodes({ status }), jobs: [running] },
      progress: progress({ ...report, applied: applied(), shards }),
    })
    return condition(sync(silent, context), 'ShardsPlaced')?.[1]
  }
  t.equal(reasonWith('balance', 'Draining'), 'Balancing')
  t.equal(reasonWith(undefined, 'Draining'), 'Draining')
  t.equal(reasonWith('of a later release', 'Balancing'), 'Balancing')
  t.equal(reasonWith(undefined), 'Repairing')
  t.equal(reasonWith(undefined, 'LostNode'), 'Repairing')
  const unreported = helmJob({ verb: 'shards', run: 3 })
  t.equal(reasonWith('balance', 'ReplacingNode', unreported), 'ReplacingNode')
  t.equal(reasonWith('balance', 'LostNode', helmJob({ run: 2 })), 'LostNode', 'helm runs')
})

t.test('a lost node that a Job is to replace is no decision for a user', async (t) => {
  const cluster = threeNodes({ spec: { healing: { replicas: true, lostNodes: 'WhenSafe' } } })
  const message = 'docs/1 is copied'
  const repair = { is: 'waiting', purpose: 'transfer', message } as const
  t.strictSame(placed({ ...LOST, plans: { repair } }, { cluster }), [
    ...['False', 'ReplicasNotActive', `8 of 12 replicas are Active: ${message}`],
  ])
})

t.test('the failure of the last Job stays the reason until it is tried again', async (t) => {
  const cluster = threeNodes({ status: { balancedNodes: 2 } })
  const plans = {
    repair: { is: 'done' },
    balance: { is: 'step', purpose: 'balance' },
  } as const
  const started = sync(observedShards({ cluster }, { plans }), context)
  const { hash: plan } = jobPlan(started, ShardsPlan)
  const failed = progress({
    ...{ verb: 'shards', run: 2, state: 'Failed', plan, reason: 'TransferFailed', at: ago(5) },
    ...{ message: 'docs/1 failed 3 times', applied: applied() },
  })
  const { hash: planHash } = desiredRun(observedShards({ cluster }), settings)
  const report = { ...failed, applied: applied({ planHash }) }
  t.strictSame(placed({ plans }, { cluster, progress: report }), [
    ...['False', 'TransferFailed', 'docs/1 failed 3 times'],
  ])
  t.equal(
    placed({ plans: { repair: { is: 'done' } } }, { cluster, progress: report })?.[1],
    'Placed',
  )
})

t.test('replicas that are not Active and will be repaired are counted', async (t) => {
  t.strictSame(placed({ activeReplicas: 11 })?.slice(1), [
    ...['ReplicasNotActive', '11 of 12 replicas are Active'],
  ])
})

t.test('backups are named where only they help', async (t) => {
  const messageOf = (reason: string) =>
    placed({ plans: { repair: { is: 'refused', reason, message: 'm' } }, backups: ['ns/b'] })?.[2]
  t.equal(messageOf('NoActiveReplica'), 'm; the newest Completed backups: ns/b')
  t.equal(messageOf('NoCapacity'), 'm')
})

t.test('a long message is cut', async (t) => {
  const repair = { is: 'refused', reason: 'NoCapacity', message: 'x'.repeat(2000) } as const
  t.equal(placed({ plans: { repair } })?.[2], 'x'.repeat(1000))
})

t.test('a single node without consensus has no shards to place', async (t) => {
  const alone = cluster({
    spec: { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } },
  })
  const plans = { repair: { is: 'step', purpose: 'repair' } } as const
  const decide = (parts: Partial<Observed> = {}) =>
    sync(observedShards({ statefulSet: statefulSet(1), ...parts }, { plans }), context)
  const decision = decide({ cluster: alone })
  t.equal(condition(decision, 'ShardsPlaced'), undefined)
  t.equal(decision.status.shards, undefined)
  t.equal(createdJob(decision), undefined)
  t.ok(condition(decide(), 'ShardsPlaced'), 'with consensus')
  t.ok(createdJob(decide()))
})

t.test(
  'the new fields do not change the plan of helm: no existing cluster is restarted',
  async (t) => {
    const status = { helmRelease: 'vec-a' }
    const hashOf = (spec: Parameters<typeof cluster>[0]) =>
      desiredRun(observed({ cluster: cluster({ ...spec, status }) }), settings).hash
    // As commit 6842cbf, which has no such fields, computes it for the same spec.
    t.equal(hashOf({}), HASH_OF_THE_PREVIOUS_RELEASE)
    t.equal(hashOf({ spec: { shards: { balance: 'Always', maxTransfers: 4 } } }), hashOf({}))
    t.equal(hashOf({ spec: { healing: { replicas: false, lostNodes: 'WhenSafe' } } }), hashOf({}))
    const retained = {
      size: '10Gi',
      accessModes: ['ReadWriteOnce' as const],
      onScaleIn: 'Keep' as const,
    }
    t.equal(hashOf({ spec: { persistence: retained } }), hashOf({}))
  },
)

const HASH_OF_THE_PREVIOUS_RELEASE = '6536e7e029d5'
