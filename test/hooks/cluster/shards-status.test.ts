/** What the status of a VecCluster says about its shards and nodes. */
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { withKstatus } from '../../../hooks/conditions.ts'
import type { Decision } from '../../../hooks/cluster/desired-state.ts'
import { isDraining } from '../../../hooks/cluster/shards-status.ts'
import type { Observed } from '../../../hooks/cluster/observed.ts'
import type { ShardsSummary } from '../../../hooks/cluster/shards-summary.ts'
import {
  ago,
  applied,
  cluster,
  context,
  observed,
  progress,
  settings,
  statefulSet,
} from '../../builders.ts'
import { createdJob } from '../decisions.ts'
import { condition, sync } from './decisions.ts'
import { member, observedShards, recordedNodes, threeNodes } from './shards.ts'

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

t.test('nodes that could not be asked: Unknown', async (t) => {
  const { shards: _, ...unknown } = observedShards()
  const error = new EngineError('no answer')
  const decision = sync({ ...unknown, shardsFailure: { error } }, context)
  t.strictSame(condition(decision, 'ShardsPlaced'), [
    ...['Unknown', 'ShardsUnknown', 'querying the shards failed: no answer'],
  ])
  t.strictSame(decision.failure, { error })
  t.equal(condition(sync(unknown, context), 'ShardsPlaced'), undefined, 'not asked yet')
  const obstruction = { reason: 'NoLeader', message: 'no leader is known to node 0' }
  const repair = { is: 'refused', ...obstruction } as const
  t.strictSame(placed({ obstruction, plans: { repair }, activeReplicas: 0 }), [
    ...['Unknown', 'ShardsUnknown', 'no leader is known to node 0'],
  ])
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
    'node 2 has lost its data (its volume is a new one): no other node has an Active replica of docs/3, docs/5: restore them from a backup, or delete their collections; '
  t.equal(message({ backups: ['ns/b'] }), `${start}the newest Completed backups: ns/b`)
  t.equal(message({}), `${start}no Completed VecBackup of the cluster exists`)
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

t.test('the failure of the last Job is shown while its work is still due', async (t) => {
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

t.test('a single node without consensus has no shards to place', async (t) => {
  const alone = cluster({
    spec: { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } },
  })
  const decision = sync(observedShards({ cluster: alone, statefulSet: statefulSet(1) }), context)
  t.equal(condition(decision, 'ShardsPlaced'), undefined)
  t.equal(decision.status.shards, undefined)
  t.equal(createdJob(decision), undefined)
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
