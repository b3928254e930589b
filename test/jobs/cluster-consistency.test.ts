/** Whether nodes are one cluster, from the report of each node. */
import t from 'tap'
import type { ClusterStatus } from '../../jobs/clients/engine/responses.ts'
import { findInconsistency, type NodeState } from '../../jobs/cluster-consistency.ts'

interface Said {
  peer: number
  peers?: number[]
  leader?: number | null
  thread?: string
  collections?: string[]
}

function viewOf({
  peer,
  peers = [1, 2, 3],
  leader = 1,
  thread = 'working',
  ...rest
}: Said): NodeState {
  const cluster: ClusterStatus = {
    status: 'enabled',
    peer_id: peer,
    peers: Object.fromEntries(peers.map((id) => [id, { uri: `http://peer-${id}:6335/` }])),
    raft_info: { leader },
    consensus_thread_status: { consensus_thread_status: thread },
  }
  return { cluster, collections: rest.collections ?? ['a', 'b'] }
}

const MANY = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
const ALL: Said[] = [{ peer: 1 }, { peer: 2 }, { peer: 3 }]

/** Deviations in what three nodes report, and the message about each. */
const DIVIDED: [string, Partial<Said>[], string][] = [
  [
    'a node that is a cluster of its own',
    [{ peers: [1], collections: [] }, { peers: [1, 2, 3] }, { peers: [1, 2, 3] }],
    'the nodes do not see one cluster: node 0 sees node 0, with 0 collections; nodes 1, 2 see node 0, node 1, node 2, with 2 collections',
  ],
  [
    'a node that came back as another peer, which the others do not know',
    [{ peer: 9, peers: [9], collections: [] }, {}, {}],
    'the nodes do not see one cluster: node 0 sees node 0, with 0 collections; nodes 1, 2 see peer 1, which is none of the pods, node 1, node 2, with 2 collections',
  ],
  [
    'a peer that only one node knows',
    [{ peers: [1, 2, 3, 7] }, {}, {}],
    'the nodes do not see one cluster: node 0 sees node 0, node 1, node 2, peer 7, which is none of the pods, with 2 collections; nodes 1, 2 see node 0, node 1, node 2, with 2 collections',
  ],
  [
    'two pods with one volume',
    [{ peer: 2 }, {}, {}],
    'two pods are the same peer: node 0 is peer 2, node 1 is peer 2, node 2 is peer 3',
  ],
  ['no leader', [{}, { leader: null }, {}], 'node 1 knows of no leader'],
  ['two leaders', [{}, {}, { leader: 3 }], 'nodes 0 and 2 follow different leaders: peers 1 and 3'],
  [
    'a dead consensus thread',
    [{}, { thread: 'stopped_with_err' }, {}],
    'consensus is stopped_with_err on node 1, which a restart of its pod repairs: no reason given',
  ],
  [
    'lists of collections that differ',
    [{ collections: ['b'] }, { collections: ['a', 'b', 'c'] }, {}],
    'the nodes do not list the same collections: node 0 does not list a, c; node 2 does not list c',
  ],
  [
    'many collections that are missing on one node',
    [{ collections: [] }, { collections: MANY }, { collections: MANY }],
    'the nodes do not list the same collections: node 0 does not list a, b, c, d, e and 2 more',
  ],
]

for (const [what, changes, message] of DIVIDED) {
  t.test(`${what}: they are not one cluster, and the message names each node`, async (t) => {
    const views = ALL.map((said, index) => viewOf({ ...said, ...changes[index] }))
    t.equal(findInconsistency(views), message)
  })
}

t.test(
  'nodes that see each other, one leader and the same collections are one cluster',
  async (t) => {
    t.equal(findInconsistency(ALL.map(viewOf)), undefined)
    const dead = ALL.map((said) => viewOf({ ...said, peers: [1, 2, 3, 9] }))
    t.equal(findInconsistency(dead), undefined, 'also with a peer that all of them still list')
    t.equal(findInconsistency([{ cluster: { status: 'disabled' }, collections: ['a'] }]), undefined)
  },
)
