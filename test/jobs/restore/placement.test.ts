/** Placement of the shards of a backup by shard, moves, and disk capacity. */
import t from 'tap'
import type { ShardCollection } from '../../../crds/contract/manifest.ts'
import {
  emptyLoad,
  planPlacement,
  replicasOnFirstNode,
  targetFactor,
  type BytesByNode,
  type ReplicaStates,
  type ReportedShards,
} from '../../../jobs/restore/placement.ts'
import type { ShardItem } from '../../../jobs/manifest-check.ts'
import { firstMisplaced, plannedMoves } from '../../../jobs/restore/shard-transfers.ts'
import { nodeLoads, rejectOverCapacity } from '../../../jobs/restore/target-checks.ts'
import { RetryBudget, runGroupsConcurrently } from '../../../jobs/retry.ts'

const GIB = 2 ** 30

/** Each shard by its size in GiB and the nodes that held it. */
function shardItem(shards: [number, number[]][], nodeCount = 3, replicationFactor = 1): ShardItem {
  const source: ShardCollection = {
    name: 'docs',
    config: { params: {} },
    payloadIndexes: {},
    aliases: [],
    shardKeys: [],
    replicationFactor,
    shards: shards.map(([, nodes], shardId) => ({ shardId, nodes })),
    snapshots: shards.map(([size], shardId) => ({
      ...{ shardId, nodeIndex: 0, key: `k${shardId}`, sizeBytes: size * GIB },
      sha256: '0'.repeat(64),
    })),
  }
  return { method: 'Shard', source, name: 'docs', nodeCount }
}

function view(shards: Record<number, number[]>): ReportedShards {
  const replicas: ReplicaStates = new Map(
    Object.entries(shards).map(([shard, nodes]) => [
      Number(shard),
      new Map(nodes.map((node) => [node, 'Active'])),
    ]),
  )
  return { replicas: [replicas], keys: new Map(), peers: [10, 11, 12] }
}

const into = (nodes: number, replicationFactor?: number) => ({ nodes, replicationFactor })

function placed(one: ShardItem, nodes: number, factor?: number, load?: BytesByNode) {
  return Object.fromEntries(planPlacement(one, {}, into(nodes, factor), load))
}

t.test('with the same number of nodes every shard is on its former node', async (t) => {
  const one = shardItem(
    [
      [1, [2, 0]],
      [1, [0, 1]],
      [1, [1, 2]],
    ],
    3,
    2,
  )
  const placement = placed(one, 3)
  for (const [shard, { nodes }] of one.source.shards.entries()) {
    t.strictSame(placement[shard]?.toSorted(), nodes.toSorted())
  }
  t.equal(
    new Set(Object.values(placement).map(([first]) => first)).size,
    3,
    'each node fetches one',
  )
})

t.test(
  'with another number of nodes each shard goes to the node with the fewest bytes',
  async (t) => {
    const one = shardItem([
      [8, [0]],
      [1, [1]],
      [1, [2]],
      [6, [0]],
    ])
    t.strictSame(placed(one, 2), { 0: [0], 1: [1], 2: [1], 3: [1] })
    t.strictSame(placed(one, 1), { 0: [0], 1: [0], 2: [0], 3: [0] })
  },
)

t.test('bytes of other collections count too', async (t) => {
  const load = emptyLoad(into(2))
  t.strictSame(placed(shardItem([[4, [0]]]), 2, undefined, load), { 0: [0] })
  t.strictSame(placed(shardItem([[2, [0]]]), 2, undefined, load), { 0: [1] })
  t.strictSame(load, [4 * GIB, 2 * GIB])
})

t.test('replicas are on different nodes, and never more than there are nodes', async (t) => {
  const one = shardItem([[1, [0, 1]]], 3, 2)
  t.equal(placed(one, 5)[0]?.length, 2)
  t.equal(placed(one, 1)[0]?.length, 1)
  t.equal(new Set(placed(one, 5, 4)[0]).size, 4, 'as many as the spec asks for')
  t.equal(targetFactor(one, into(1)), 1)
  t.equal(targetFactor(one, into(5, 9)), 5)
  const capped = shardItem([[1, [0]]], 1, 3)
  t.equal(placed(capped, 3)[0]?.length, 3, 'the source could not place its replication factor')
})

t.test('an existing shard stays where it is', async (t) => {
  const one = shardItem([[1, [0]]])
  const known = { view: view({ 0: [2] }) }
  t.strictSame(Object.fromEntries(planPlacement(one, known, into(3))), { 0: [2] })
  const planned = new Map([[0, [2, 1]]])
  t.strictSame(
    planPlacement(one, { ...known, planned }, into(3, 2)).get(0),
    [2, 1],
    'copies as planned',
  )
})

t.test('a shard moves to its node, and excess replicas are dropped', async (t) => {
  const placement = new Map([
    [0, [1]],
    [1, [0]],
    [2, [2]],
  ])
  t.strictSame(plannedMoves(placement, view({ 0: [0], 1: [0, 2], 2: [2] })), [
    { shard: 1, drop: 12 },
    { shard: 0, from: 10, to: 11 },
  ])
  t.equal(
    firstMisplaced(placement, replicasOnFirstNode(view({ 0: [1], 1: [0, 2] }))),
    'shard 1 is on nodes 0, 2, not on node 0 alone',
  )
})

t.test('a restore that exceeds the disk of a node is rejected', async (t) => {
  const share = { node: 1, bytes: 5 * GIB }
  t.doesNotThrow(() => rejectOverCapacity([share, { ...share, disk: 5 * GIB }]))
  t.throws(() => rejectOverCapacity([{ ...share, disk: 4 * GIB }]), {
    message: 'node 1 has disks of 4 GiB, but shards of 5 GiB are to go there',
  })
})

t.test('after a failure no task starts, and tasks in progress end', async (t) => {
  const begun: string[] = []
  const ended: string[] = []
  const gate = Promise.withResolvers<undefined>()
  const groups = [
    ['a', 'b'],
    ['c', 'd'],
    ['e', 'f'],
  ]
  const work = runGroupsConcurrently(groups, 2, async (item) => {
    begun.push(item)
    if (item === 'a') await gate.promise
    if (item === 'c') {
      gate.resolve(undefined)
      throw new Error('c failed')
    }
    ended.push(item)
  })
  await t.rejects(work, { message: 'c failed' })
  t.strictSame(begun, ['a', 'c'])
  t.strictSame(ended, ['a'])
})

t.test('a node receives the bytes of the shards that are placed on it', async (t) => {
  const context = {
    plan: { cluster: { replicas: 3 } },
    retryBudget: new RetryBudget(),
    tools: {
      signal: new AbortController().signal,
      engineForPod: (_: unknown, node: number) => ({
        call: async () => ({ app: { system: node === 2 ? {} : { disk_size: 1024 * (node + 1) } } }),
      }),
    },
  } as unknown as Parameters<typeof nodeLoads>[2]
  const docs = shardItem([
    [5, [0]],
    [2, [1]],
  ])
  const logs = { ...shardItem([[1, [0]]]), name: 'logs' }
  const placements = new Map([
    [
      'docs',
      new Map([
        [0, [0, 1]],
        [1, [1]],
      ]),
    ],
    ['logs', new Map([[0, [0]]])],
  ])
  t.strictSame(await nodeLoads([docs, logs], placements, context), [
    { node: 0, bytes: 6 * GIB, disk: 2 ** 20 },
    { node: 1, bytes: 7 * GIB, disk: 2 * 2 ** 20 },
    { node: 2, bytes: 0 },
  ])
  t.strictSame(await nodeLoads([], placements, context), [])
})
