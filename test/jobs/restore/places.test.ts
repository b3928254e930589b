/** Where the shards of a backup by shard go, how they get there, and whether there is room: as functions. */
import t from 'tap'
import type { ShardCollection } from '../../../crds/manifest.ts'
import { inLanes } from '../../../jobs/lanes.ts'
import { factorOf, noLoad, placesOf, type Load } from '../../../jobs/restore/places.ts'
import { changesOf, strayed } from '../../../jobs/restore/placing.ts'
import { refuseShares } from '../../../jobs/restore/room.ts'
import { firstCopies, type Copies, type Sight } from '../../../jobs/restore/sight.ts'
import type { ShardWanted } from '../../../jobs/restore/wanted.ts'

const GIB = 2 ** 30

/** Each shard by its size in GiB and the nodes that held it. */
function wanted(shards: [number, number[]][], nodeCount = 3, replicationFactor = 1): ShardWanted {
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

function sight(shards: Record<number, number[]>): Sight {
  const copies: Copies = new Map(
    Object.entries(shards).map(([shard, nodes]) => [
      Number(shard),
      new Map(nodes.map((node) => [node, 'Active'])),
    ]),
  )
  return { copies: [copies], keys: new Map(), peers: [10, 11, 12] }
}

const into = (nodes: number, replicationFactor?: number) => ({ nodes, replicationFactor })

function placed(one: ShardWanted, nodes: number, factor?: number, load?: Load) {
  return Object.fromEntries(placesOf(one, {}, into(nodes, factor), load))
}

t.test('in as many nodes every shard is where it was', async (t) => {
  const one = wanted(
    [
      [1, [2, 0]],
      [1, [0, 1]],
      [1, [1, 2]],
    ],
    3,
    2,
  )
  const places = placed(one, 3)
  for (const [shard, { nodes }] of one.source.shards.entries()) {
    t.strictSame(places[shard]?.toSorted(), nodes.toSorted())
  }
  t.equal(new Set(Object.values(places).map(([first]) => first)).size, 3, 'one fetched by each')
})

t.test('in another number of nodes the fewest bytes decide', async (t) => {
  const one = wanted([
    [8, [0]],
    [1, [1]],
    [1, [2]],
    [6, [0]],
  ])
  t.strictSame(placed(one, 2), { 0: [0], 1: [1], 2: [1], 3: [1] })
  t.strictSame(placed(one, 1), { 0: [0], 1: [0], 2: [0], 3: [0] })
})

t.test('what other collections bring counts too', async (t) => {
  const load = noLoad(into(2))
  t.strictSame(placed(wanted([[4, [0]]]), 2, undefined, load), { 0: [0] })
  t.strictSame(placed(wanted([[2, [0]]]), 2, undefined, load), { 0: [1] })
  t.strictSame(load, [4 * GIB, 2 * GIB])
})

t.test('copies are on different nodes, and never more than there are', async (t) => {
  const one = wanted([[1, [0, 1]]], 3, 2)
  t.equal(placed(one, 5)[0]?.length, 2)
  t.equal(placed(one, 1)[0]?.length, 1)
  t.equal(new Set(placed(one, 5, 4)[0]).size, 4, 'as many as the spec asks for')
  t.equal(factorOf(one, into(1)), 1)
  t.equal(factorOf(one, into(5, 9)), 5)
  const capped = wanted([[1, [0]]], 1, 3)
  t.equal(placed(capped, 3)[0]?.length, 3, 'the source had no room for as many as it wanted')
})

t.test('a shard that is there stays where it is', async (t) => {
  const one = wanted([[1, [0]]])
  const known = { sight: sight({ 0: [2] }) }
  t.strictSame(Object.fromEntries(placesOf(one, known, into(3))), { 0: [2] })
  const planned = new Map([[0, [2, 1]]])
  t.strictSame(placesOf(one, { ...known, planned }, into(3, 2)).get(0), [2, 1], 'copies as planned')
})

t.test('a shard goes to its node, and copies that are too many are dropped', async (t) => {
  const places = new Map([
    [0, [1]],
    [1, [0]],
    [2, [2]],
  ])
  t.strictSame(changesOf(places, sight({ 0: [0], 1: [0, 2], 2: [2] })), [
    { shard: 0, from: 10, to: 11 },
    { shard: 1, drop: 12 },
  ])
  t.equal(
    strayed(places, firstCopies(sight({ 0: [1], 1: [0, 2] }))),
    'shard 1 is on nodes 0, 2, not on node 0 alone',
  )
})

t.test('more than all disks of a node is refused', async (t) => {
  const share = { node: 1, bytes: 5 * GIB }
  t.doesNotThrow(() => refuseShares([share, { ...share, disk: 5 * GIB }]))
  t.throws(() => refuseShares([{ ...share, disk: 4 * GIB }]), {
    message: 'node 1 has disks of 4 GiB, but shards of 5 GiB are to go there',
  })
})

t.test('past a failure nothing more is begun, and what is under way ends', async (t) => {
  const begun: string[] = []
  const ended: string[] = []
  const gate = Promise.withResolvers<undefined>()
  const lanes = [
    ['a', 'b'],
    ['c', 'd'],
    ['e', 'f'],
  ]
  const work = inLanes(lanes, 2, async (item) => {
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
