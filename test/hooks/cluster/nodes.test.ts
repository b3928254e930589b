/** The record of the nodes, and which of them have lost their data. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import {
  intactNodes,
  lostNodeMessage,
  lostNodes,
  nodeRecord,
  replacedPeers,
} from '../../../hooks/cluster/nodes.ts'
import type { NodeFacts, PeerFacts } from '../../../hooks/cluster/shards/summary.ts'
import { shardTargets } from '../../../hooks/cluster/shards/next-step.ts'
import { cluster, progress, statefulSet } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { member, recordedNodes, threeNodes } from './shards.ts'

const PEERS: PeerFacts[] = [member(0), member(1), { ...member(2), isMember: false }]
const NODES: NodeFacts[] = [0, 1, 2].map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))

/** The lost nodes if this is what is known about node 2, whose pod is not a member. */
function lostWith(node: Partial<NodeFacts>, peers = PEERS, annotations = {}) {
  const nodes = [...NODES.slice(0, 2), { ordinal: 2, ...node }]
  return lostNodes(threeNodes({ annotations }), { nodes, peers })
}

t.test('a node that is only not ready has lost nothing', async (t) => {
  t.strictSame(lostWith({ volume: 'volume-2' }), [])
  t.strictSame(lostWith({ volume: 'volume-2', isUnschedulable: true }), [])
  t.strictSame(lostWith({ volume: 'volume-2', isNodeGone: true }), [], 'its pod can run elsewhere')
  t.strictSame(lostWith({}), [], 'nothing is known about its volume')
  const status = { nodes: [{ ordinal: 2, peer: 102, node: 'worker-2' }] }
  const lostWithRecord = (node: Partial<NodeFacts>) =>
    lostNodes(threeNodes({ status }), {
      nodes: [...NODES.slice(0, 2), { ordinal: 2, ...node }],
      peers: PEERS,
    })
  t.strictSame(lostWithRecord({ isNodeGone: true }), [])
  t.strictSame(lostWithRecord({ isUnschedulable: true }), [])
  t.equal(lostWithRecord({ isNodeGone: true, isUnschedulable: true }).length, 1, 'both')
})

t.test('a node with another volume, or without one, has lost its data', async (t) => {
  const lost = { ordinal: 2, peer: 102, isConfirmed: false }
  t.strictSame(lostWith({ volume: 'other' }), [{ ...lost, evidence: 'its volume is a new one' }])
  t.strictSame(lostWith({ isVolumeMissing: true }), [
    { ...lost, evidence: 'its volume was deleted' },
  ])
})

t.test('a local volume is lost with its Kubernetes node', async (t) => {
  const { cluster, node } = {
    cluster: threeNodes({
      status: { nodes: recordedNodes(3).map((entry) => ({ ...entry, node: 'worker-2' })) },
    }),
    node: { ordinal: 2, volume: 'volume-2', isNodeGone: true, isUnschedulable: true } as const,
  }
  t.strictSame(lostNodes(cluster, { nodes: [...NODES.slice(0, 2), node], peers: PEERS }), [
    {
      ...{ ordinal: 2, peer: 102, isConfirmed: false },
      evidence: 'the Kubernetes node worker-2 with its volume does not exist any more',
    },
  ])
})

t.test('WhenSafe replaces no pod whose Kubernetes node may be registered again', async (t) => {
  const recorded = recordedNodes(3).map((entry) => ({ ...entry, node: 'worker-2' }))
  const spec = { healing: { replicas: true, lostNodes: 'WhenSafe' } } as const
  const lostAfter = (goneSeconds: number, facts: Partial<NodeFacts> = {}, annotations = {}) => {
    const node = {
      ordinal: 2,
      volume: 'volume-2',
      isNodeGone: true,
      isUnschedulable: true,
    } as const
    const nodes = [...NODES.slice(0, 2), { ...node, goneSeconds, ...facts }]
    const resource = threeNodes({ spec, annotations, status: { nodes: recorded } })
    const known = { nodes, peers: PEERS }
    const observed = { cluster: resource, statefulSet: statefulSet(3), progress: progress() }
    return {
      awaited: lostNodes(resource, known).map(({ isAwaited }) => isAwaited ?? false),
      replaced: shardTargets(observed, known).repair.lost,
    }
  }
  t.strictSame(lostAfter(0), { awaited: [true], replaced: [] })
  t.strictSame(lostAfter(599), { awaited: [true], replaced: [] })
  t.strictSame(lostAfter(600), { awaited: [false], replaced: [102] })
  t.strictSame(lostAfter(0, { volume: 'other' }), { awaited: [false], replaced: [102] })
  const annotations = { [ANNOTATIONS.replace]: '2' }
  t.strictSame(lostAfter(0, {}, annotations), { awaited: [false], replaced: [102] })
})

t.test(
  'a node with a new volume that joined, or whose peer was removed, is not lost',
  async (t) => {
    t.strictSame(lostWith({ volume: 'other' }, [member(0), member(1), member(2)]), [])
    t.strictSame(lostWith({ volume: 'other' }, [member(0), member(1)]), [], 'its peer is gone')
    const joined = { id: 7, ordinal: 2, isMember: true }
    t.strictSame(lostWith({ volume: 'other' }, [...PEERS, joined]), [], 'its pod is a new member')
  },
)

t.test('the annotation names a lost node, unless its pod is a member', async (t) => {
  const replace = (ordinals: string) => ({ [ANNOTATIONS.replace]: ordinals })
  const confirmed = [
    {
      ...{ ordinal: 2, peer: 102, isConfirmed: true },
      evidence: 'the annotation vec-operator.dev/replace names it',
    },
  ]
  const withoutVolumes = (ordinals: string) => {
    const status = { nodes: recordedNodes(3).map(({ ordinal, peer }) => ({ ordinal, peer })) }
    return lostNodes(threeNodes({ annotations: replace(ordinals), status }), {
      nodes: NODES,
      peers: PEERS,
    })
  }
  t.strictSame(withoutVolumes('2'), confirmed)
  t.strictSame(withoutVolumes('0, 2'), confirmed)
  t.strictSame(withoutVolumes('1'), [], 'node 1 is a member')
  t.strictSame(withoutVolumes('two'), [])
  matchWhole(t, lostWith({ volume: 'other' }, PEERS, replace('2')), [
    { isConfirmed: true, evidence: 'its volume is a new one' },
  ])
})

t.test('the annotation does not give up a node whose volume is intact', async (t) => {
  const annotations = { [ANNOTATIONS.replace]: '2' }
  const named = (node: Partial<NodeFacts>, peers = PEERS, status = {}) => {
    const facts = { nodes: [...NODES.slice(0, 2), { ordinal: 2, ...node }], peers }
    const resource = threeNodes({ annotations, status })
    return {
      lost: lostNodes(resource, facts).map(({ peer }) => peer),
      intact: intactNodes(resource, facts),
    }
  }
  const intact = [{ ordinal: 2, peer: 102 }]
  t.strictSame(named({ volume: 'volume-2' }), { lost: [], intact })
  t.strictSame(named({}), { lost: [], intact: [] }, 'nothing is known about its volume')
  t.strictSame(named({ volume: 'other' }), { lost: [102], intact: [] })
  t.strictSame(named({ isVolumeMissing: true }), { lost: [102], intact: [] })
  const running = [member(0), member(1), member(2)]
  t.strictSame(named({ volume: 'volume-2' }, running), { lost: [], intact: [] })
  // It was replaced with this annotation, and restarts now.
  const nodes = [...recordedNodes(2), { ordinal: 2, peer: 7, volume: 'volume-2' }]
  const status = { nodes, replacedPeers: [{ ordinal: 2, peer: 102 }] }
  const restarting = [member(0), member(1), { id: 7, ordinal: 2, isMember: false }]
  t.strictSame(named({ volume: 'volume-2' }, restarting, status), { lost: [], intact: [] })
  // It was set while the node was running.
  const ignored = { replacedPeers: [{ ordinal: 2, peer: 102, isIgnored: true as const }] }
  t.strictSame(named({ volume: 'volume-2' }, PEERS, ignored), { lost: [], intact: [] })
})

t.test('a peer whose address names no pod is identified by the recorded peer id', async (t) => {
  const nowhere = { id: 102, isMember: false }
  matchWhole(t, lostWith({ volume: 'other' }, [member(0), member(1), nowhere]), [
    { ordinal: 2, peer: 102, evidence: 'its volume is a new one' },
  ])
  const elsewhere = { id: 102, ordinal: 1, isMember: true }
  t.strictSame(lostWith({ volume: 'other' }, [member(0), elsewhere]), [], 'it answers as node 1')
})

t.test('a peer that failed to join at the address of a lost node has lost nothing', async (t) => {
  const joining = { id: 7, ordinal: 2, isMember: false }
  matchWhole(t, lostWith({ volume: 'other' }, [...PEERS, joining]), [{ peer: 102 }])
  t.equal(lostWith({ volume: 'other' }, [...PEERS, joining]).length, 1)
})

t.test('of two absent nodes, only the one that the annotation names is replaced', async (t) => {
  const peers = [member(0), { ...member(1), isMember: false }, { ...member(2), isMember: false }]
  const annotations = { [ANNOTATIONS.replace]: '2' }
  t.strictSame(
    lostWith({ volume: 'other' }, peers, annotations).map(({ peer }) => peer),
    [102],
  )
})

t.test('ordinals in the annotation are read whole', async (t) => {
  const nodes = [0, 1, 2, 12].map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))
  const peers = [member(0), member(1), { ...member(2), isMember: false }]
  const replacedBy = (annotation: string, absent: PeerFacts[]) =>
    lostNodes(
      threeNodes({ annotations: { [ANNOTATIONS.replace]: annotation }, status: { nodes: [] } }),
      {
        nodes,
        peers: [...peers, ...absent],
      },
    ).map(({ ordinal }) => ordinal)
  const twelfth = { ...member(12), isMember: false }
  t.strictSame(replacedBy('12', [twelfth]), [12])
  t.strictSame(replacedBy('12,2', [twelfth]), [2, 12])
  t.strictSame(replacedBy('node 2, 2x', [twelfth]), [])
})

t.test('without a record of the nodes, only the annotation names lost ones', async (t) => {
  const recorded = cluster({ status: { phase: 'Running' } })
  const facts = { nodes: [...NODES.slice(0, 2), { ordinal: 2, volume: 'other' }], peers: PEERS }
  t.strictSame(lostNodes(recorded, facts), [])
  t.strictSame(lostNodes(cluster(), facts), [], 'nor without a status')
  matchWhole(t, lostNodes(cluster({ annotations: { [ANNOTATIONS.replace]: '2' } }), facts), [
    { ordinal: 2, peer: 102, isConfirmed: true },
  ])
})

t.test('a record without a volume, or without a Kubernetes node, shows no loss', async (t) => {
  const lostWithRecord = (node: Partial<NodeFacts>) =>
    lostNodes(threeNodes({ status: { nodes: [{ ordinal: 2, peer: 102 }] } }), {
      nodes: [...NODES.slice(0, 2), { ordinal: 2, ...node }],
      peers: PEERS,
    })
  t.strictSame(lostWithRecord({ volume: 'other' }), [])
  t.strictSame(lostWithRecord({ isVolumeMissing: true }), [])
  t.strictSame(lostWithRecord({ isNodeGone: true, isUnschedulable: true }), [])
})

t.test('the nodes are recorded only while all of them are members', async (t) => {
  const before = recordedNodes(3)
  t.strictSame(nodeRecord(undefined, { nodes: NODES, peers: PEERS }), undefined)
  t.strictSame(nodeRecord(before, { nodes: NODES, peers: PEERS }), before)
  const nodes = [{ ordinal: 0, volume: 'v', zone: 'a', node: 'worker' }, { ordinal: 1 }]
  t.strictSame(nodeRecord(before, { nodes, peers: [member(0), member(1)] }), [
    { ordinal: 0, peer: 100, volume: 'v', zone: 'a', node: 'worker' },
    { ordinal: 1, peer: 101 },
  ])
  const twice = [member(0), member(1), { id: 7, ordinal: 1, isMember: true }]
  t.strictSame(nodeRecord(before, { nodes, peers: twice }), before, 'two peers at one address')
  t.strictSame(nodeRecord(before, { nodes: [], peers: PEERS }), before, 'hibernated: no pods')
})

t.test('the annotation counts for the peer that it was first seen with', async (t) => {
  const annotations = { [ANNOTATIONS.replace]: '2' }
  const named = threeNodes({ annotations })
  const nodes = [...NODES.slice(0, 2), { ordinal: 2, volume: 'volume-2' }]
  t.strictSame(replacedPeers(named, { nodes, peers: PEERS }), [{ ordinal: 2, peer: 102 }])
  t.strictSame(replacedPeers(named, undefined), [], 'nothing is known about the nodes')
  t.strictSame(replacedPeers(threeNodes(), { nodes, peers: PEERS }), [])
  const running = [member(0), member(1), member(2)]
  const joined = { id: 7, ordinal: 2, isMember: true }
  for (const [peers, peer] of [
    [running, 102],
    [[...PEERS, joined], 7],
  ] as const) {
    t.strictSame(replacedPeers(named, { nodes, peers: [...peers] }), [
      { ordinal: 2, peer, isIgnored: true },
    ])
  }

  const joining = { id: 7, ordinal: 2, isMember: false }
  t.strictSame(
    replacedPeers(named, { nodes, peers: [...PEERS, joining] }),
    [{ ordinal: 2, peer: 102 }],
    'the pod that joins is not given up',
  )
  t.strictSame(
    replacedPeers(named, { nodes, peers: [member(0), member(1), joining] }),
    [{ ordinal: 2, peer: 7 }],
    'the recorded peer is gone',
  )
})

t.test(
  'an annotation that was set on a running node does not give it up when it restarts',
  async (t) => {
    const annotations = { [ANNOTATIONS.replace]: '2' }
    const nodes = [0, 1, 2].map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))
    const running = [member(0), member(1), member(2)]
    const spent = replacedPeers(threeNodes({ annotations }), { nodes, peers: running })
    const status = { nodes: recordedNodes(3), replacedPeers: spent }
    const restarting = [member(0), member(1), { ...member(2), isMember: false }]
    const cluster = threeNodes({ annotations, status })
    t.strictSame(lostNodes(cluster, { nodes, peers: restarting }), [])
    t.strictSame(replacedPeers(cluster, { nodes, peers: restarting }), spent)
    const emptied = [...nodes.slice(0, 2), { ordinal: 2, volume: 'other' }]
    const lost = lostNodes(cluster, { nodes: emptied, peers: restarting })
    matchWhole(t, lost, [{ ordinal: 2, peer: 102, isConfirmed: false }])
    t.match(
      lostNodeMessage(lost, { onlyOn: [], backups: [] }),
      /remove the annotation vec-operator\.dev\/replace, which was set while the node was running, and set vec-operator\.dev\/replace="2" again$/,
    )
  },
)

t.test('a node that was replaced is not replaced again when it restarts', async (t) => {
  const annotations = { [ANNOTATIONS.replace]: '2' }
  const nodes = [0, 1, 2].map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))
  const record = [...recordedNodes(2), { ordinal: 2, peer: 7, volume: 'volume-2' }]
  const given = [{ ordinal: 2, peer: 102 }]
  const status = { nodes: record, replacedPeers: given }
  const restarting = [member(0), member(1), { id: 7, ordinal: 2, isMember: false }]
  const forgotten = threeNodes({ annotations, status })
  t.strictSame(lostNodes(forgotten, { nodes, peers: restarting }), [])
  t.strictSame(replacedPeers(forgotten, { nodes, peers: restarting }), given)
  const emptied = [...nodes.slice(0, 2), { ordinal: 2, volume: 'other' }]
  t.strictSame(lostNodes(forgotten, { nodes: emptied, peers: restarting }), [
    {
      ...{ ordinal: 2, peer: 7, isConfirmed: false, ineffective: { ordinal: 2, peer: 102 } },
      evidence: 'its volume is a new one',
    },
  ])
  t.strictSame(replacedPeers(forgotten, undefined), given, 'kept while nothing is known')
  t.strictSame(replacedPeers(threeNodes({ status }), undefined), [], 'until it is removed')
  const other = threeNodes({ annotations: { [ANNOTATIONS.replace]: '1' }, status })
  t.strictSame(replacedPeers(other, undefined), [], 'another node is named')
  const stillListed = [member(0), member(1), { ...member(2), isMember: false }]
  matchWhole(t, lostNodes(forgotten, { nodes, peers: stillListed }), [
    { peer: 102, isConfirmed: true },
  ])
})
