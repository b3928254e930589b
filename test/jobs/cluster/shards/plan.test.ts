/** The next step for clusters that need one, and the message for those that cannot get one. */
import t from 'tap'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import { planAll } from '../../../../jobs/cluster/shards/simulate.ts'
import type { Plan } from '../../../../jobs/cluster/shards/step.ts'
import type { ClusterView, DesiredShards } from '../../../../jobs/cluster/shards/view.ts'
import { DESIRED, THREE_NODES, viewOf, type Model } from './model.ts'

interface Case {
  title: string
  model?: Partial<Model>
  view?: Partial<ClusterView>
  desired?: Partial<DesiredShards>
  plan: Plan
}

const TWO_NODES = {
  pods: 2,
  peers: { 1: { ordinal: 0, isUp: true }, 2: { ordinal: 1, isUp: true } },
} as const
const ALL_ACTIVE = { 1: 'Active', 2: 'Active', 3: 'Active' } as const

const CASES: Case[] = [
  { title: 'a cluster with all replicas needs nothing', plan: { is: 'done' } },
  {
    title: 'a missing replica goes to the node with the least data',
    model: { shards: { 'docs/0': { 1: 'Active' }, 'docs/1': { 2: 'Active', 1: 'Active' } } },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'a missing replica stays missing if repair is off',
    model: { shards: { 'docs/0': { 1: 'Active' } } },
    desired: { repair: false },
    plan: { is: 'done' },
  },
  {
    title: 'a missing replica goes to a zone without one',
    model: {
      peers: {
        1: { ordinal: 0, isUp: true, zone: 'a' },
        2: { ordinal: 1, isUp: true, zone: 'a' },
        3: { ordinal: 2, isUp: true, zone: 'b' },
      },
      shards: { 'docs/0': { 1: 'Active' }, 'docs/1': { 3: 'Active', 1: 'Active' } },
    },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'the engine gets ten minutes to repair a Dead replica',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    desired: { defectSeconds: () => 599 },
    plan: {
      is: 'waiting',
      purpose: 'repair',
      message: 'docs/0 on node 1 is Dead; the engine usually repairs it',
    },
  },
  {
    title: 'a Dead replica is copied again after ten minutes',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    desired: { defectSeconds: () => 600 },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'repair', collection: 'docs', shard: 0, from: 1, to: 2 },
    },
  },
  {
    title: 'an Incomplete replica is copied again after half a minute',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Incomplete' } } },
    desired: { defectSeconds: () => 30 },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'repair', collection: 'docs', shard: 0, from: 1, to: 2 },
    },
  },
  {
    title: 'an Unreadable replica is dropped, and replaced later',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Unreadable' } } },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 2 },
    },
  },
  {
    title: 'a Disputed replica is replaced by one on a free node first',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Disputed' } } },
    desired: { defectSeconds: () => 0 },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 100 },
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'it is dropped once the shard has its replicas without it',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Disputed', 3: 'Active' } } },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 2 },
    },
  },
  {
    title: 'without a free node it is dropped when the copy that replaces it can begin',
    model: { ...TWO_NODES, shards: { 'docs/0': { 1: 'Active', 2: 'Disputed' } } },
    desired: { nodes: 2 },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 2 },
    },
  },
  {
    title: 'until then it stays',
    model: {
      ...TWO_NODES,
      shards: {
        'docs/0': { 1: 'Active', 2: 'Disputed' },
        'users/0': { 1: 'Active', 2: 'InTransfer' },
      },
    },
    view: { transfers: [{ collection: 'users', shard: 0, from: 1, to: 2 }] },
    desired: { nodes: 2 },
    plan: {
      ...{ is: 'waiting', purpose: 'transfer' },
      message: 'users/0 is copied from node 0 to node 1',
    },
  },
  {
    title: 'of two Disputed replicas one is dropped',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Disputed', 3: 'Disputed' } }, factor: 3 },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 2 },
    },
  },
  {
    title: 'and replaced, before the other one is',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Disputed' } }, factor: 3 },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 100 },
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 2 },
    },
  },
  {
    title: 'a Disputed replica stays while a node is away, which may know it as the better one',
    model: {
      peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Disputed' } },
    },
    plan: {
      ...{ is: 'waiting', purpose: 'repair', isExternal: true },
      message: 'node 2 does not answer',
    },
  },
  {
    title: 'without repair, a Disputed replica on a node to remove is copied from the Active one',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Disputed' } } },
    desired: { nodes: 2, repair: false },
    plan: {
      ...{ is: 'step', purpose: 'scale-in', bytes: 100 },
      step: {
        ...{ do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 2 },
        move: { collection: 'docs', shard: 0, from: 3, to: 2 },
      },
    },
  },
  {
    title: 'a drop does not wait for copies of the engine that follow each other for half an hour',
    model: { shards: { 'docs/0': ALL_ACTIVE, 'docs/1': { 3: 'Active', 1: 'InTransfer' } } },
    view: { transfers: [{ collection: 'docs', shard: 1, from: 3, to: 1 }] },
    desired: {
      moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }],
      defectSeconds: (one) => (one === 'docs/copies/3' ? 1800 : 0),
      isOwnCopy: () => false,
    },
    plan: {
      ...{ is: 'step', purpose: 'balance', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'until then it does',
    model: { shards: { 'docs/0': ALL_ACTIVE, 'docs/1': { 3: 'Active', 1: 'InTransfer' } } },
    view: { transfers: [{ collection: 'docs', shard: 1, from: 3, to: 1 }] },
    desired: {
      moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }],
      defectSeconds: (one) => (one === 'docs/copies/3' ? 1799 : 0),
      isOwnCopy: () => false,
    },
    plan: {
      ...{ is: 'waiting', purpose: 'balance' },
      message: 'docs/0 on node 2 is kept until docs/1 is copied',
    },
  },
  {
    title: 'a defective replica on a node that does not answer is left alone',
    model: {
      peers: { ...THREE_NODES.peers, 2: { ordinal: 1, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } },
    },
    plan: { is: 'done' },
  },
  {
    title: 'a shard that is being created is not reported as lost',
    model: { shards: { 'docs/0': { 1: 'Incomplete', 2: 'Incomplete' } } },
    desired: { defectSeconds: () => 599 },
    plan: { is: 'waiting', purpose: 'repair', message: 'docs/0 on node 0 is Incomplete' },
  },
  {
    title: 'a shard without any Active replica is named',
    model: { shards: { 'docs/0': { 1: 'Dead', 2: 'Dead' } } },
    plan: {
      is: 'refused',
      reason: 'NoActiveReplica',
      message:
        'docs/0 has no Active replica to repair that on node 0 from: restore the collection from a backup',
    },
  },
  {
    title: 'no second transfer begins above the limit',
    model: {
      shards: {
        'docs/0': { 1: 'Active', 3: 'InTransfer' },
        'docs/1': { 2: 'Active' },
      },
      transfers: { 'docs/0': { from: 1, to: 3, isNew: true } },
    },
    plan: {
      is: 'waiting',
      purpose: 'transfer',
      message: 'docs/0 is copied from node 0 to node 2',
    },
  },
  {
    title: 'a transfer that no Job aborts is named with the call that does, first',
    view: {
      transfers: [
        { collection: 'docs', shard: 1, from: 2, to: 3 },
        { collection: 'my docs', shard: 0, from: 1, to: 3, stalledSince: '2026-01-01T00:00:00Z' },
      ],
    },
    plan: {
      is: 'refused',
      reason: 'TransferStalled',
      message:
        'my docs/0 is copied from node 0 to node 2 without progress since 2026-01-01T00:00:00Z, and no Job of the operator has started that. To abort it: POST /collections/my%20docs/cluster with {"abort_transfer":{"shard_id":0,"from_peer_id":1,"to_peer_id":3}}',
    },
  },
  {
    title: 'that call has the target of a transfer between shards',
    view: {
      transfers: [
        {
          ...{ collection: 'docs', shard: 0, toShard: 2, from: 1, to: 3 },
          stalledSince: '2026-01-01T00:00:00Z',
        },
      ],
    },
    plan: {
      is: 'refused',
      reason: 'TransferStalled',
      message:
        'docs/0 is copied from node 0 to node 2 without progress since 2026-01-01T00:00:00Z, and no Job of the operator has started that. To abort it: POST /collections/docs/cluster with {"abort_transfer":{"shard_id":0,"from_peer_id":1,"to_peer_id":3,"to_shard_id":2}}',
    },
  },
  ...([{ nodes: 2 }, { balance: true }, {}] as const).map(
    (desired) =>
      ({
        title: `no Job waits for it: ${JSON.stringify(desired)}`,
        model: {
          shards: { 'docs/0': { 1: 'Active', 3: 'InTransfer' }, 'docs/1': { 2: 'Active' } },
        },
        view: {
          transfers: [
            { collection: 'docs', shard: 0, from: 1, to: 3, stalledSince: '2026-01-01T00:00:00Z' },
          ],
        },
        desired,
        plan: {
          is: 'refused',
          reason: 'TransferStalled',
          message:
            'docs/0 is copied from node 0 to node 2 without progress since 2026-01-01T00:00:00Z, and no Job of the operator has started that. To abort it: POST /collections/docs/cluster with {"abort_transfer":{"shard_id":0,"from_peer_id":1,"to_peer_id":3}}',
        },
      }) satisfies Case,
  ),
  {
    title: 'a node to remove first loses the replicas that others have as well',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } } },
    desired: { nodes: 2 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'a node to remove is copied from before it loses a replica that is needed',
    desired: { nodes: 2 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 100,
      step: {
        ...{ do: 'replicate', collection: 'docs', shard: 1, from: 2, to: 1 },
        move: { collection: 'docs', shard: 1, from: 3, to: 1 },
      },
    },
  },
  {
    title: 'a replica that was copied for a scale-in is dropped when that is cancelled',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } } },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }] },
    plan: {
      ...{ is: 'step', purpose: 'balance', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'a moved replica is kept until another shard of its collection is copied from its node',
    model: { shards: { 'docs/0': ALL_ACTIVE, 'docs/1': { 3: 'Active', 1: 'InTransfer' } } },
    view: { transfers: [{ collection: 'docs', shard: 1, from: 3, to: 1 }] },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }] },
    plan: {
      ...{ is: 'waiting', purpose: 'balance' },
      message: 'docs/0 on node 2 is kept until docs/1 is copied',
    },
  },
  {
    title: 'that of another collection is not waited for',
    model: { shards: { 'docs/0': ALL_ACTIVE, 'users/1': { 3: 'Active', 1: 'InTransfer' } } },
    view: { transfers: [{ collection: 'users', shard: 1, from: 3, to: 1 }] },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }] },
    plan: {
      ...{ is: 'step', purpose: 'balance', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'missing replicas are created meanwhile',
    model: {
      shards: {
        'docs/0': ALL_ACTIVE,
        'docs/1': { 3: 'Active', 1: 'InTransfer' },
        'users/0': { 2: 'Active' },
      },
    },
    view: { transfers: [{ collection: 'docs', shard: 1, from: 3, to: 1 }] },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }], maxTransfers: 2 },
    plan: {
      ...{ is: 'step', purpose: 'repair', bytes: 100 },
      step: { do: 'replicate', collection: 'users', shard: 0, from: 2, to: 3 },
    },
  },
  {
    title:
      'a copy that keeps a replica and makes no progress is named with the call that aborts it',
    model: { shards: { 'docs/0': ALL_ACTIVE, 'docs/1': { 3: 'Active', 1: 'InTransfer' } } },
    view: {
      transfers: [
        { collection: 'docs', shard: 1, from: 3, to: 1, stalledSince: '2026-01-01T00:00:00Z' },
      ],
    },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 3, to: 1 }] },
    plan: {
      is: 'refused',
      reason: 'TransferStalled',
      message:
        'docs/1 is copied from node 2 to node 0 without progress since 2026-01-01T00:00:00Z, and no Job of the operator has started that. To abort it: POST /collections/docs/cluster with {"abort_transfer":{"shard_id":1,"from_peer_id":3,"to_peer_id":1}}',
    },
  },
  {
    title: 'a replica on a lost node is not kept for a copy from it, which fails on every node',
    model: {
      peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': ALL_ACTIVE, 'docs/1': { 3: 'Active', 1: 'InTransfer' } },
    },
    view: { transfers: [{ collection: 'docs', shard: 1, from: 3, to: 1 }] },
    desired: { lost: [3] },
    plan: {
      ...{ is: 'step', purpose: 'lost node', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'a node to remove keeps its replicas until another shard is copied from it',
    model: { shards: { 'docs/0': ALL_ACTIVE, 'docs/1': { 3: 'Active', 1: 'InTransfer' } } },
    view: { transfers: [{ collection: 'docs', shard: 1, from: 3, to: 1 }] },
    desired: { nodes: 2 },
    plan: {
      ...{ is: 'waiting', purpose: 'scale-in' },
      message: 'docs/0 on node 2 is kept until docs/1 is copied',
    },
  },
  {
    title:
      'without repair, the engine gets ten minutes to repair a Dead replica on a node to remove',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } } },
    desired: { nodes: 2, repair: false, defectSeconds: (one) => (one === 'docs/0/3' ? 599 : 0) },
    plan: {
      is: 'waiting',
      purpose: 'scale-in',
      message: 'docs/0 on node 2 is Dead; the engine usually repairs it',
    },
  },
  {
    title: 'without repair, a replica that stays Dead does not keep its node from being removed',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } } },
    desired: { nodes: 2, repair: false, defectSeconds: (one) => (one === 'docs/0/3' ? 600 : 0) },
    plan: {
      ...{ is: 'step', purpose: 'scale-in', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'without repair, a node to remove that is down gets ten minutes to return',
    model: {
      peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } },
    },
    desired: { nodes: 2, repair: false, defectSeconds: (one) => (one === 'node 2' ? 599 : 0) },
    plan: {
      is: 'waiting',
      purpose: 'scale-in',
      message: 'docs/0 on node 2 is Dead; the engine usually repairs it',
    },
  },
  {
    title: 'a Dead replica on a node to remove is dropped at once if there are enough others',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Dead' } } },
    desired: { nodes: 2, repair: false, defectSeconds: () => 0 },
    plan: {
      ...{ is: 'step', purpose: 'scale-in', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'a Dead replica on a node to remove is dropped at once if it will be created again',
    model: {
      peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } },
    },
    desired: { nodes: 2, defectSeconds: () => 0 },
    plan: {
      ...{ is: 'step', purpose: 'scale-in', bytes: 0 },
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'an empty node to remove is removed from the consensus',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active' } } },
    desired: { nodes: 2 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 0,
      step: { do: 'removePeer', peer: 3, ordinal: 2 },
    },
  },
  {
    title: 'a node with a replica of a resharding that no node reports stays',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Resharding' } } },
    desired: { nodes: 2 },
    plan: {
      is: 'waiting',
      purpose: 'scale-in',
      message: 'docs/0 on node 2 is Resharding',
    },
  },
  {
    title: 'a pod without a peer is removed',
    model: {
      peers: { 1: { ordinal: 0, isUp: true }, 2: { ordinal: 1, isUp: true } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Active' } },
    },
    desired: { nodes: 2 },
    plan: { is: 'step', purpose: 'scale-in', bytes: 0, step: { do: 'scaleDown', nodes: 2 } },
  },
  {
    title: 'fewer nodes than replicas are rejected with the collections',
    desired: { nodes: 1 },
    plan: {
      is: 'refused',
      reason: 'NotEnoughNodes',
      message:
        'spec.replicas: 3 -> 1: "docs" has replication factor 2; lower the factor of the collections, keep more nodes, or accept fewer replicas with the annotation vec-operator.dev/accept-risk: fewer-replicas',
    },
  },
  {
    title: 'fewer nodes than a shard key has replicas are rejected with the key',
    model: {
      shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } },
      keys: { 'docs/0': 'berlin' },
    },
    desired: { nodes: 2 },
    plan: {
      is: 'refused',
      reason: 'NotEnoughNodes',
      message:
        'spec.replicas: 3 -> 2: shard key "berlin" of "docs" has 3 replicas; lower the factor of the collections, keep more nodes, or accept fewer replicas with the annotation vec-operator.dev/accept-risk: fewer-replicas',
    },
  },
  {
    title: 'shards without a key need no more replicas than the factor',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } } },
    desired: { nodes: 2 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title: 'fewer replicas of a shard key may be accepted',
    model: {
      shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } },
      keys: { 'docs/0': 'berlin' },
    },
    desired: { nodes: 2, allowsFewerReplicas: true },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
    },
  },
  {
    title:
      'the replica of a shard key on a removed node is copied first, and the copy takes its place',
    model: {
      pods: 4,
      peers: { ...THREE_NODES.peers, 4: { ordinal: 3, isUp: true } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Active', 4: 'Active' } },
      keys: { 'docs/0': 'berlin' },
    },
    desired: { nodes: 3 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 100,
      step: {
        ...{ do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
        move: { collection: 'docs', shard: 0, key: 'berlin', from: 4, to: 3 },
      },
    },
  },
  {
    title: 'the replica of a shard key on a removed node is dropped once its copy is Active',
    model: {
      pods: 4,
      peers: { ...THREE_NODES.peers, 4: { ordinal: 3, isUp: true } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active', 4: 'Active' } },
      keys: { 'docs/0': 'berlin' },
    },
    desired: {
      nodes: 3,
      moves: [{ collection: 'docs', shard: 0, key: 'berlin', from: 4, to: 3 }],
    },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 4 },
    },
  },
  {
    title: 'a move is not finished for another shard key that has got the id of its shard',
    model: {
      pods: 4,
      peers: { ...THREE_NODES.peers, 4: { ordinal: 3, isUp: true } },
      shards: { 'docs/0': { 1: 'Active', 3: 'Active', 4: 'Active' } },
      keys: { 'docs/0': 'hamburg' },
    },
    desired: {
      nodes: 4,
      moves: [{ collection: 'docs', shard: 0, key: 'berlin', from: 4, to: 3 }],
    },
    plan: { is: 'done' },
  },
  {
    title: 'a shard key with fewer replicas than the factor gets the missing ones',
    model: { shards: { 'docs/0': { 1: 'Active' } }, keys: { 'docs/0': 'berlin' } },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 2 },
    },
  },
  {
    title: 'a factor above the number of nodes asks for one replica on each node',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } }, factor: 5 },
    desired: { balance: true },
    plan: { is: 'done' },
  },
  {
    title: 'a factor above the number of nodes is filled up to that number',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active' } }, factor: 5 },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'the only node of a zone retains a replica of each shard, however full it is',
    model: {
      peers: {
        1: { ordinal: 0, isUp: true, zone: 'a' },
        2: { ordinal: 1, isUp: true, zone: 'a' },
        3: { ordinal: 2, isUp: true, zone: 'b' },
      },
      shards: {
        'docs/0': { 1: 'Active', 3: 'Active' },
        'docs/1': { 2: 'Active', 3: 'Active' },
        'docs/2': { 1: 'Active', 3: 'Active' },
        'docs/3': { 2: 'Active', 3: 'Active' },
      },
    },
    desired: { balance: true },
    plan: { is: 'done' },
  },
  {
    title: 'without the only node of a zone, both replicas are in the other one',
    model: {
      peers: {
        1: { ordinal: 0, isUp: true, zone: 'a' },
        2: { ordinal: 1, isUp: true, zone: 'a' },
        3: { ordinal: 2, isUp: true, zone: 'b' },
      },
      shards: { 'docs/0': { 1: 'Active', 3: 'Active' } },
    },
    desired: { nodes: 2 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 100,
      step: {
        ...{ do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 2 },
        move: { collection: 'docs', shard: 0, from: 3, to: 2 },
      },
    },
  },
  {
    title: 'two lost nodes that had both replicas of a shard are named, and it is not dropped',
    model: {
      pods: 5,
      peers: {
        ...THREE_NODES.peers,
        4: { ordinal: 3, isUp: false },
        5: { ordinal: 4, isUp: false },
      },
      shards: { 'docs/0': { 4: 'Active', 5: 'Active' }, 'docs/1': { 1: 'Active', 2: 'Active' } },
    },
    desired: { nodes: 5, lost: [4, 5] },
    plan: {
      is: 'refused',
      reason: 'LastReplicaLost',
      message:
        'no other node has an Active replica of docs/0 on node 3, docs/0 on node 4: restore these shards from a backup, or delete their collections',
    },
  },
  {
    title: 'nodes without space get nothing',
    view: {
      peers: [
        { id: 1, ordinal: 0, isMember: true },
        { id: 2, ordinal: 1, isMember: true, freeBytes: 149 },
        { id: 3, ordinal: 2, isMember: true },
      ],
    },
    model: { shards: { 'docs/0': { 3: 'Active' }, 'docs/1': { 1: 'Active' } }, factor: 1 },
    desired: { nodes: 2, moves: [] },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 100,
      step: {
        ...{ do: 'replicate', collection: 'docs', shard: 0, from: 3, to: 1 },
        move: { collection: 'docs', shard: 0, from: 3, to: 1 },
      },
    },
  },
  {
    title: 'a drain stops with the number of bytes if no node has space',
    view: {
      peers: [
        { id: 1, ordinal: 0, isMember: true, freeBytes: 149 },
        { id: 2, ordinal: 1, isMember: true },
      ],
      nodes: 2,
    },
    model: { shards: { 'docs/0': { 2: 'Active' } }, factor: 1 },
    desired: { nodes: 1 },
    plan: {
      is: 'refused',
      reason: 'NoCapacity',
      message:
        'no node has space for another replica of docs/0, about 100 bytes: enlarge the volumes or delete data',
    },
  },
  {
    title: 'a drain waits for a node that does not answer',
    model: { peers: { ...THREE_NODES.peers, 1: { ordinal: 0, isUp: false } } },
    desired: { nodes: 2 },
    plan: { is: 'waiting', purpose: 'scale-in', message: 'node 0 does not answer' },
  },
  {
    title: 'a lost node loses its replicas',
    model: { peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } } },
    desired: { lost: [3] },
    plan: {
      is: 'step',
      purpose: 'lost node',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 1, peer: 3 },
    },
  },
  {
    title: 'a node that answers is not lost, whatever was said about it',
    desired: { lost: [3] },
    plan: { is: 'done' },
  },
  {
    title: 'a lost node without replicas is removed from the consensus',
    model: {
      peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Active' } },
    },
    desired: { lost: [3] },
    plan: {
      is: 'step',
      purpose: 'lost node',
      bytes: 0,
      step: { do: 'removePeer', peer: 3, ordinal: 2 },
    },
  },
  {
    title: 'the last replica of a lost node is kept and named',
    model: {
      peers: { ...THREE_NODES.peers, 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 2: 'Active' }, 'docs/1': { 3: 'Active' } },
      factor: 1,
    },
    desired: { lost: [3] },
    plan: {
      is: 'refused',
      reason: 'LastReplicaLost',
      message:
        'no other node has an Active replica of docs/1 on node 2: restore these shards from a backup, or delete their collections',
    },
  },
  {
    title: 'a replaced node gets ten minutes to join before its replicas go elsewhere',
    model: {
      peers: { 1: { ordinal: 0, isUp: true }, 2: { ordinal: 1, isUp: true } },
      shards: { 'docs/0': { 1: 'Active' } },
    },
    desired: { defectSeconds: () => 599 },
    plan: {
      is: 'waiting',
      purpose: 'repair',
      message: 'node 2 has not joined the cluster yet',
    },
  },
  {
    title: 'peers of pods that are long gone are removed once they hold nothing',
    model: { peers: { ...THREE_NODES.peers, 4: { ordinal: 3, isUp: false } } },
    plan: {
      is: 'step',
      purpose: 'lost node',
      bytes: 0,
      step: { do: 'removePeer', peer: 4, ordinal: 3 },
    },
  },
  {
    title: 'peers of pods that are long gone lose replicas that are Active elsewhere',
    model: {
      peers: { ...THREE_NODES.peers, 4: { ordinal: 3, isUp: false } },
      shards: { 'docs/0': { 4: 'Active' }, 'docs/1': { 1: 'Active', 2: 'Active', 4: 'Dead' } },
      factor: 1,
    },
    plan: {
      is: 'step',
      purpose: 'lost node',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 1, peer: 4 },
    },
  },
  {
    title: 'peers of pods that are long gone keep the last replica of a shard',
    model: {
      peers: { ...THREE_NODES.peers, 4: { ordinal: 3, isUp: false } },
      shards: { 'docs/0': { 4: 'Active' } },
      factor: 1,
    },
    plan: { is: 'done' },
  },
  {
    title: 'the source of a transfer is the node with the fewest transfers',
    model: {
      shards: {
        'docs/0': { 1: 'Active', 2: 'InTransfer' },
        'docs/1': { 1: 'Active', 3: 'Active', 2: 'Incomplete' },
      },
      transfers: { 'docs/0': { from: 1, to: 2, isNew: true } },
    },
    desired: { maxTransfers: 2 },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'repair', collection: 'docs', shard: 1, from: 3, to: 2 },
    },
  },
  {
    title: 'a shard that cannot be moved away does not keep others on a node to remove',
    view: {
      peers: [
        { id: 1, ordinal: 0, isMember: true, freeBytes: 149 },
        { id: 2, ordinal: 1, isMember: true },
      ],
      nodes: 2,
    },
    model: {
      shards: { 'docs/0': { 2: 'Active' }, 'docs/1': { 1: 'Active', 2: 'Active' } },
      factor: 1,
    },
    desired: { nodes: 1 },
    plan: {
      is: 'step',
      purpose: 'scale-in',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 1, peer: 2 },
    },
  },
  {
    title: 'a move of a collection that was deleted is forgotten',
    desired: { moves: [{ collection: 'gone', shard: 0, from: 1, to: 3 }] },
    plan: { is: 'done' },
  },
  {
    title: 'a shard is not moved for a gain of a fifth of its size',
    model: {
      shards: {
        'docs/0': { 1: 'Active' },
        'docs/1': { 2: 'Active' },
        'docs/2': { 3: 'Active' },
        'docs/3': { 1: 'Active' },
      },
      factor: 1,
    },
    desired: { balance: true },
    plan: { is: 'done' },
  },
  {
    title: 'shards are not balanced while a node does not answer',
    model: {
      peers: {
        1: { ordinal: 0, isUp: true },
        2: { ordinal: 1, isUp: true },
        3: { ordinal: 2, isUp: false },
      },
    },
    desired: { balance: true },
    plan: { is: 'waiting', purpose: 'balance', message: 'node 2 does not answer' },
  },
  {
    title: 'a new node gets a replica of the fullest one',
    model: {
      shards: {
        'docs/0': { 1: 'Active', 2: 'Active' },
        'docs/1': { 1: 'Active', 2: 'Active' },
      },
    },
    desired: { balance: true },
    plan: {
      is: 'step',
      purpose: 'balance',
      bytes: 100,
      step: {
        do: 'replicate',
        collection: 'docs',
        shard: 0,
        from: 1,
        to: 3,
        move: { collection: 'docs', shard: 0, from: 1, to: 3 },
      },
    },
  },
  {
    title: 'a shard that cannot be repaired does not keep others from being balanced',
    model: {
      shards: {
        'users/0': { 2: 'Dead', 3: 'Dead' },
        'docs/0': { 1: 'Active', 2: 'Active' },
        'docs/1': { 1: 'Active', 2: 'Active' },
      },
    },
    desired: { balance: true },
    plan: {
      is: 'step',
      purpose: 'balance',
      bytes: 100,
      step: {
        ...{ do: 'replicate', collection: 'docs', shard: 0, from: 2, to: 3 },
        move: { collection: 'docs', shard: 0, from: 2, to: 3 },
      },
    },
  },
  {
    title: 'a shard that cannot be repaired is named once the others are balanced',
    model: {
      shards: { 'users/0': { 2: 'Dead', 3: 'Dead' }, 'docs/0': { 1: 'Active', 2: 'Active' } },
    },
    desired: { balance: true },
    plan: {
      is: 'refused',
      reason: 'NoActiveReplica',
      message:
        'users/0 has no Active replica to repair that on node 1 from: restore the collection from a backup',
    },
  },
  {
    title: 'a move ends with the drop of its source',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } } },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 1, to: 3 }] },
    plan: {
      is: 'step',
      purpose: 'balance',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 1 },
    },
  },
  {
    title: 'a move keeps its source while its target is not Active',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Incomplete' } } },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 1, to: 3 }], defectSeconds: () => 0 },
    plan: {
      is: 'waiting',
      purpose: 'repair',
      message: 'docs/0 on node 2 is Incomplete',
    },
  },
  {
    title: 'a move whose copy has failed is undone, also without repair',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Dead' } } },
    desired: {
      ...{ moves: [{ collection: 'docs', shard: 0, from: 1, to: 3 }], repair: false },
      defectSeconds: () => 0,
    },
    plan: {
      is: 'step',
      purpose: 'balance',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 3, isUndo: true },
    },
  },
  {
    title: 'the target of a move is not missed less than another replica',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead', 3: 'Dead' } } },
    desired: { moves: [{ collection: 'docs', shard: 0, from: 1, to: 3 }], defectSeconds: () => 0 },
    plan: {
      is: 'waiting',
      purpose: 'repair',
      message: 'docs/0 on node 1 is Dead; the engine usually repairs it',
    },
  },
  {
    title: 'a missing replica is not created where copies fail',
    model: { shards: { 'docs/0': { 1: 'Active' } } },
    desired: { closedTargets: new Map([[2, 'no space']]) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'a new replica that cannot be filled makes way for one on another node',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    desired: { copyFailure: () => ({ createdOn: [2] }) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 2 },
    },
  },
  {
    title: 'a missing replica is not created again where it could not be filled',
    model: { shards: { 'docs/0': { 1: 'Active' } } },
    desired: { copyFailure: () => ({ createdOn: [2] }) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'a replica that could not be filled stays once no other node can have it',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Dead' } } },
    desired: {
      copyFailure: () => ({ givenUp: new Map([[3, 'no space']]), createdOn: [2, 3] }),
    },
    plan: { is: 'refused', reason: 'TransferFailed', message: 'no space' },
  },
  {
    title:
      'a missing replica is created again where it could not be filled if no other node is free',
    model: { shards: { 'docs/0': { 1: 'Active' } } },
    desired: { copyFailure: () => ({ createdOn: [2, 3] }) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 2 },
    },
  },
  {
    title: 'a replica that could not be filled stays while no other node has space',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    view: {
      peers: [
        { id: 1, ordinal: 0, isMember: true },
        { id: 2, ordinal: 1, isMember: true },
        { id: 3, ordinal: 2, isMember: true, freeBytes: 149 },
      ],
    },
    desired: { copyFailure: () => ({ createdOn: [2] }) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'repair', collection: 'docs', shard: 0, from: 1, to: 2 },
    },
  },
  {
    title: 'a replica that may have points stays until another node has one in its place',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    desired: { copyFailure: () => ({ givenUp: new Map([[2, 'no space']]) }) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'a replica that cannot be copied to is dropped once others are enough',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead', 3: 'Active' } } },
    desired: { copyFailure: () => ({ givenUp: new Map([[2, 'no space']]) }) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 0,
      step: { do: 'drop', collection: 'docs', shard: 0, peer: 2 },
    },
  },
  {
    title: 'copies that have failed on every node are named, and not repeated',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    desired: {
      copyFailure: () => ({
        createdOn: [2],
        givenUp: new Map([
          [2, 'no space'],
          [3, 'rejected'],
        ]),
      }),
    },
    plan: { is: 'refused', reason: 'TransferFailed', message: 'no space' },
  },
  {
    title: 'a replica that waits does not keep another one of its shard from being repaired',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead', 3: 'Incomplete' } }, factor: 3 },
    desired: { defectSeconds: (defect) => (defect === 'docs/0/2' ? 10 : 600) },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'repair', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'a replica that waits does not keep a missing one from being created',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } }, factor: 3 },
    desired: { defectSeconds: () => 10 },
    plan: {
      is: 'step',
      purpose: 'repair',
      bytes: 100,
      step: { do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 3 },
    },
  },
  {
    title: 'a new replica is not dropped while the engine repairs it',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Dead' } } },
    desired: { copyFailure: () => ({ createdOn: [2] }), defectSeconds: () => 599 },
    plan: {
      is: 'waiting',
      purpose: 'repair',
      message: 'docs/0 on node 1 is Dead; the engine usually repairs it',
    },
  },
  {
    title: 'a new replica that cannot be filled stays if it may be the last',
    model: { shards: { 'docs/0': { 1: 'Dead', 2: 'Dead' } } },
    desired: { copyFailure: () => ({ createdOn: [2] }) },
    plan: {
      is: 'refused',
      reason: 'NoActiveReplica',
      message:
        'docs/0 has no Active replica to repair that on node 0 from: restore the collection from a backup',
    },
  },
  {
    title: 'without another node, the failure of the copies is named',
    model: { shards: { 'docs/0': { 1: 'Active', 3: 'Active' } }, factor: 3 },
    desired: { closedTargets: new Map([[2, 'no space']]) },
    plan: { is: 'refused', reason: 'TransferFailed', message: 'no space' },
  },
  {
    title: 'nodes are not called balanced while copies to one of them fail',
    model: { shards: { 'docs/0': { 1: 'Active' }, 'docs/1': { 1: 'Active' } }, factor: 1 },
    desired: {
      balance: true,
      closedTargets: new Map([
        [2, 'no space'],
        [3, 'no space either'],
      ]),
    },
    plan: { is: 'refused', reason: 'TransferFailed', message: 'no space' },
  },
  {
    title: 'copies that have failed do not matter to nodes that are balanced',
    model: {
      ...{ shards: { 'docs/0': { 1: 'Active' }, 'docs/1': { 2: 'Active' } }, factor: 1 },
    },
    desired: { balance: true, closedTargets: new Map([[3, 'no space']]) },
    plan: { is: 'done' },
  },
  {
    title: 'a shard that a user recovers is moved to a new node later',
    model: {
      shards: {
        'docs/0': { 1: 'Active', 2: 'InTransfer' },
        'docs/1': { 1: 'InTransfer', 2: 'Active' },
      },
    },
    desired: { balance: true },
    plan: {
      is: 'waiting',
      purpose: 'balance',
      message: 'docs/0 is moved to node 2 once all of its replicas are Active',
      isExternal: true,
    },
  },
  {
    title: 'without repair, shards with a Dead or missing replica do not count as balanced',
    model: {
      shards: { 'docs/0': { 1: 'Active', 2: 'Dead' }, 'docs/1': { 1: 'Active' } },
    },
    desired: { balance: true, repair: false },
    plan: {
      is: 'waiting',
      purpose: 'balance',
      message: 'docs/0 is moved to node 2 once all of its replicas are Active',
      isExternal: true,
    },
  },
  {
    title: 'a shard in recovery that would not be moved anyway is not waited for',
    model: {
      shards: {
        'docs/0': { 1: 'InTransfer' },
        'docs/1': { 2: 'Active' },
        'docs/2': { 3: 'Active' },
      },
      factor: 1,
    },
    desired: { balance: true },
    plan: { is: 'done' },
  },
  {
    title: 'a replica that a user created in addition stays',
    model: { shards: { 'docs/0': { 1: 'Active', 2: 'Active', 3: 'Active' } } },
    plan: { is: 'done' },
  },
]

for (const { title, model, view, desired, plan } of CASES) {
  t.test(title, (t) => {
    const observed = { ...viewOf({ ...THREE_NODES, ...model }), ...view }
    t.strictSame(planShards(observed, { ...DESIRED, ...desired }), plan)
    t.end()
  })
}

t.test('a whole plan lists every step and the bytes it copies', (t) => {
  const view = viewOf({ ...THREE_NODES, shards: { 'docs/0': { 3: 'Active', 1: 'Active' } } })
  t.strictSame(planAll(view, { ...DESIRED, nodes: 2 }), {
    steps: [
      {
        step: {
          ...{ do: 'replicate', collection: 'docs', shard: 0, from: 1, to: 2 },
          move: { collection: 'docs', shard: 0, from: 3, to: 2 },
        },
        purpose: 'scale-in',
        bytes: 100,
      },
      {
        step: { do: 'drop', collection: 'docs', shard: 0, peer: 3 },
        purpose: 'scale-in',
        bytes: 0,
      },
      { step: { do: 'removePeer', peer: 3, ordinal: 2 }, purpose: 'scale-in', bytes: 0 },
      { step: { do: 'scaleDown', nodes: 2 }, purpose: 'scale-in', bytes: 0 },
    ],
    end: { is: 'done' },
  })
  t.end()
})

t.test('a whole plan repairs each defective replica once', (t) => {
  const shards = {
    'docs/0': { 1: 'Active' as const, 2: 'Dead' as const, 3: 'Incomplete' as const },
  }
  const { steps, end } = planAll(viewOf({ ...THREE_NODES, shards }), DESIRED)
  t.strictSame(
    steps.map(({ step }) => step),
    [
      { do: 'repair', collection: 'docs', shard: 0, from: 1, to: 2 },
      { do: 'repair', collection: 'docs', shard: 0, from: 1, to: 3 },
    ],
  )
  t.strictSame(end, { is: 'done' })
  t.end()
})

t.test('a difference of exactly 1.2 times a shard is accepted', (t) => {
  const view = viewOf(
    {
      ...THREE_NODES,
      pods: 2,
      peers: { 1: { ordinal: 0, isUp: true }, 2: { ordinal: 1, isUp: true } },
      shards: { 'docs/0': { 1: 'Active' }, 'docs/1': { 1: 'Active' } },
      factor: 1,
    },
    (shard) => (shard === 'docs/0' ? 100 : 20),
  )
  const desired = { ...DESIRED, nodes: 2, balance: true }
  t.match(planShards(view, desired), {
    step: { do: 'replicate', collection: 'docs', shard: 1, from: 1, to: 2 },
  })
  t.end()
})
