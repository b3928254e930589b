/** The record that a cluster was formed: when it is created, and how it is stored. */
import t from 'tap'
import type { ConfigMap } from '../../../crds/kubernetes.ts'
import { writeFormation } from '../../../hooks/cluster/consensus.ts'
import { applyDecision } from '../../../hooks/cluster/index.ts'
import type { Observed, PodConsensus } from '../../../hooks/cluster/ports.ts'
import { context, cluster, statefulSet } from '../../builders.ts'
import { running, sync } from './decisions.ts'
import { fakePorts } from './ports.ts'

function pods(count: number): PodConsensus[] {
  const peers = Array.from({ length: count }, (_, ordinal) => ({ id: 10 + ordinal, ordinal }))
  return peers.map(({ id, ordinal }) => ({
    ...{ ordinal, state: 'working' as const, peerId: id },
    ...{ peers, hasLeader: true },
  }))
}

interface Options {
  replicas: number
  recorded?: number
  consensus?: PodConsensus[]
  ready?: number
  wasWorking?: boolean
}

function observe({ replicas, recorded, consensus, ready, wasWorking = true }: Options): Observed {
  const conditions = wasWorking
    ? [
        {
          ...{ type: 'Consensus', status: 'True' as const, reason: 'ConsensusWorking' },
          ...{ message: '', lastTransitionTime: '2026-03-01T11:00:00Z' },
        },
      ]
    : []
  const formed = recorded === undefined ? {} : { formedNodes: recorded }
  const parent = cluster({
    spec: { replicas },
    status: { phase: 'Running', appliedRun: 1, conditions, ...formed },
  })
  return running({
    cluster: parent,
    statefulSet: statefulSet(replicas, { readyReplicas: ready ?? replicas }),
    consensus: consensus ?? pods(replicas),
  })
}

function decide(options: Options) {
  const { status, formation } = sync(observe(options), context)
  return { nodes: status.formedNodes, record: formation?.data }
}

t.test('a cluster whose pods are all members of one consensus is recorded with its nodes', (t) => {
  const { status, formation } = sync(observe({ replicas: 3 }), context)
  t.equal(status.formedNodes, 3)
  t.strictSame(formation, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      namespace: 'ns',
      name: 'vec-a.formed',
      labels: { 'app.kubernetes.io/managed-by': 'vec-operator' },
      ownerReferences: [
        {
          apiVersion: 'vec-operator.dev/v1alpha1',
          kind: 'VecCluster',
          name: 'a',
          uid: cluster().metadata.uid,
        },
      ],
    },
    data: { nodes: '3' },
  })
  t.end()
})

const NOT_FORMED: [title: string, options: Options][] = [
  ['a pod that founded another cluster', { replicas: 3, consensus: [...pods(2), alone(2)] }],
  ['one pod of three', { replicas: 3, consensus: [...pods(1), silent(1), silent(2)] }],
  ['pods without a leader', { replicas: 3, consensus: [...leaderless(2), silent(2)] }],
  [
    'pods that are not known to each other',
    { replicas: 3, consensus: [...strangers(), silent(2)] },
  ],
  [
    'a stopped consensus',
    { replicas: 2, consensus: [...pods(1), { ordinal: 1, state: 'stopped' }] },
  ],
]
for (const [title, options] of NOT_FORMED) {
  t.test(`${title} makes no record, and does not change one`, (t) => {
    t.strictSame(decide(options), { nodes: undefined, record: undefined })
    t.strictSame(decide({ ...options, recorded: 5 }), { nodes: 5, record: undefined })
    t.end()
  })
}

const PARTLY_FORMED: [title: string, options: Options, nodes: number][] = [
  ['a pod that is not ready', { replicas: 3, ready: 2 }, 3],
  ['a pod that does not answer', { replicas: 3, consensus: [...pods(2), silent(2)] }, 2],
  ['a pod in between that does not answer', { replicas: 3, consensus: withoutSecond() }, 3],
  ['fewer pods that were asked than there are', { replicas: 3, consensus: pods(2) }, 2],
]
for (const [title, options, nodes] of PARTLY_FORMED) {
  t.test(`with ${title}, those that have joined are recorded, and never fewer than before`, (t) => {
    t.strictSame(decide(options), { nodes, record: { nodes: String(nodes) } })
    t.strictSame(decide({ ...options, recorded: 1 }), { nodes, record: { nodes: String(nodes) } })
    t.strictSame(decide({ ...options, recorded: 5 }), { nodes: 5, record: undefined })
    t.end()
  })
}

t.test('pods above the number of nodes are not recorded', (t) => {
  t.strictSame(decide({ replicas: 1, ready: 0, consensus: pods(3) }).nodes, undefined)
  t.end()
})

function leaderless(count: number): PodConsensus[] {
  return pods(count).map((pod) => ({ ...pod, hasLeader: false }))
}

/** Each lists the other one's address with another id. */
function strangers(): PodConsensus[] {
  return pods(2).map((pod) => ({ ...pod, peerId: (pod.peerId ?? 0) + 100 }))
}

function withoutSecond(): PodConsensus[] {
  const [first, second, third] = pods(3)
  if (first === undefined || second === undefined || third === undefined) return []
  return [first, { ordinal: 1, state: 'unknown' }, third]
}

function silent(ordinal: number): PodConsensus {
  return { ordinal, state: 'unknown' }
}

function alone(ordinal: number): PodConsensus {
  const peers = [{ id: 10 + ordinal, ordinal }]
  return { ordinal, state: 'working', peerId: 10 + ordinal, peers, hasLeader: true }
}

t.test(
  'the record follows the number of nodes, and is stored again when consensus returns',
  (t) => {
    const cases: [Options, ReturnType<typeof decide>][] = [
      [
        { replicas: 3, recorded: 3 },
        { nodes: 3, record: undefined },
      ],
      [
        { replicas: 5, recorded: 3 },
        { nodes: 5, record: { nodes: '5' } },
      ],
      [
        { replicas: 1, recorded: 3 },
        { nodes: 1, record: { nodes: '1' } },
      ],
      [{ replicas: 1 }, { nodes: undefined, record: undefined }],
      // A user deletes the ConfigMap to found a cluster again whose volumes are all lost.
      [
        { replicas: 3, recorded: 3, wasWorking: false },
        { nodes: 3, record: { nodes: '3' } },
      ],
    ]
    for (const [options, expected] of cases) t.strictSame(decide(options), expected)
    t.end()
  },
)

const RECORD: ConfigMap = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'ns', name: 'vec-a.formed' },
  data: { nodes: '3' },
}

t.test('the record is written with the decision, once, and only where it differs', async (t) => {
  const first = fakePorts()
  const decision = sync(observe({ replicas: 3 }), context)
  await applyDecision(decision, first.ports)
  t.strictSame(first.writes.configMaps, [decision.formation])

  const stored: ConfigMap = {
    ...RECORD,
    metadata: { ...RECORD.metadata, resourceVersion: '7' },
    data: { nodes: '3', note: 'of a user' },
  }
  const same = fakePorts({ configMap: async () => stored })
  await writeFormation(RECORD, same.ports)
  t.strictSame(same.writes.configMaps, [])

  const other = fakePorts({ configMap: async () => stored })
  await writeFormation({ ...RECORD, data: { nodes: '5' } }, other.ports)
  t.strictSame(other.writes.configMaps, [{ ...stored, data: { nodes: '5', note: 'of a user' } }])
})

t.test(
  'a record that changed since it was read fails the hook, which then reads it again',
  async (t) => {
    const { ports } = fakePorts({ writeConfigMap: async () => false })
    await t.rejects(writeFormation(RECORD, ports), {
      message: 'ConfigMap ns/vec-a.formed has changed since it was read',
    })
  },
)
