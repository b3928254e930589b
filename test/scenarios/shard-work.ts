/** Work on shards that users ask for: nodes that are replaced, added and removed, and shards that are moved. */
import type { Test } from 'tap'
import { API_VERSION, LABELS } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { NotSupported, type Reference, type User, type World } from '../world/world.ts'
import { eventually, fill, points } from './backup-parts.ts'
import { deletePod, isReal, NODES, THREE_NODES, TWO_COPIES, untilAgreed } from './formation.ts'
import {
  conditionIn,
  eventsAbout,
  jobsIn,
  passing,
  phaseOf,
  reasonIn,
  replicasOf,
  running,
  statusOf,
  untilReason,
  type Scenario,
} from './scenario.ts'

const PATH = '/collections/books'
const POINTS = 80
const LOST = 0
const SHARDS = 4
const SECONDS = 900
/** With `balance: Always` the move of a user is undone after 110 s: a look at the shards, the next sync, a Job. */
const OBSERVED_SECONDS = 150

interface Placement {
  result: {
    peer_id: number
    local_shards: { shard_id: number; state: string }[]
    shard_transfers: unknown[]
  }
}

interface Point {
  id: number
}

/** Points of shards, by the id of the shard. */
type Shards = Record<number, Point[]>

interface NodePlacement {
  node: number
  peer: number
  /** Ids of the shards of which it has an Active replica. */
  ids: number[]
  isInTransfer: boolean
}

/** A node with the points of its replicas. */
interface NodeReplicas extends NodePlacement {
  shards: Shards
}

function podOf(namespace: string, node: number) {
  return { namespace, name: `vec-a-${node}` }
}

/** What each node answers about its own replicas. */
async function placements(world: World, namespace: string, nodes: readonly number[]) {
  return Promise.all(
    nodes.map(async (node): Promise<NodePlacement> => {
      const answer = await world.engine(podOf(namespace, node), 'GET', `${PATH}/cluster`)
      const { peer_id: peer, local_shards, shard_transfers } = (answer as Placement).result
      const active = local_shards.filter(({ state }) => state === 'Active')
      const ids = active.map(({ shard_id }) => shard_id).toSorted()
      return { node, peer, ids, isInTransfer: shard_transfers.length > 0 }
    }),
  )
}

/** The same, with the points that each node reads from its own replicas. */
async function ownReplicas(world: World, namespace: string, nodes: readonly number[]) {
  const body = { limit: 10 * POINTS, with_payload: true, with_vector: true }
  const placed = await placements(world, namespace, nodes)
  return Promise.all(
    placed.map(async (placement): Promise<NodeReplicas> => {
      const shards: Shards = {}
      for (const id of placement.ids) {
        const pod = podOf(namespace, placement.node)
        const path = `${PATH}/shards/${id}/points/scroll`
        const page = await world.engine(pod, 'POST', path, body)
        shards[id] = (page as { result: { points: Point[] } }).result.points
      }
      return { ...placement, shards }
    }),
  )
}

/** Ids of the shards of each node, by its ordinal. */
function layoutOf(placed: readonly NodePlacement[]): Record<number, number[]> {
  return Object.fromEntries(placed.map(({ node, ids }) => [node, ids]))
}

/** The points of each shard; each point that was written has to be in one of them. */
function contentsOf(t: Test, replicas: readonly NodeReplicas[], written: object[]): Shards {
  const contents: Shards = Object.fromEntries(
    replicas.flatMap(({ shards }) => Object.entries(shards)),
  )
  const all = Object.values(contents).flat()
  t.strictSame(
    all.toSorted((one, other) => one.id - other.id),
    written,
    'every point is in one shard',
  )
  return contents
}

/** Each shard is on two of these nodes, and each replica has all points of its shard and no others. */
function checkReplicas(t: Test, replicas: readonly NodeReplicas[], contents: Shards, when: string) {
  for (const { node, ids, shards } of replicas) {
    const expected = Object.fromEntries(ids.map((id) => [id, contents[id]]))
    t.strictSame(shards, expected, `the points on node ${node} ${when}`)
  }
  const twice = Object.keys(contents).flatMap((id) => [Number(id), Number(id)])
  const placed = replicas.flatMap(({ ids }) => ids).toSorted()
  t.strictSame(placed, twice, `two replicas of each shard ${when}`)
}

function isPlaced(object: AnyObject | undefined): boolean {
  return conditionIn(object, 'ShardsPlaced')?.status === 'True'
}

/** The peer that is recorded for a node. */
function recordedPeer(object: AnyObject | undefined, node: number): number | undefined {
  return statusOf(object).nodes?.find(({ ordinal }) => ordinal === node)?.peer
}

/** Waits until the cluster has this number of nodes and its shards are balanced over them. */
async function untilBalanced(world: World, cluster: Reference, nodes: number) {
  const isBalanced = (object: AnyObject | undefined) => {
    const { appliedGeneration, balancedNodes, nodes: recorded = [] } = statusOf(object)
    return (
      phaseOf(object) === 'Running' &&
      reasonIn(object) === undefined &&
      appliedGeneration === object?.metadata.generation &&
      recorded.length === nodes &&
      balancedNodes === nodes &&
      isPlaced(object)
    )
  }
  return world.waitFor(cluster, `balanced over ${nodes} nodes`, isBalanced, SECONDS)
}

/** Writes the points into a collection, and reads them from each node once the shards are balanced. */
async function fillBalanced(
  world: World,
  t: Test,
  { cluster, nodes, spec }: { cluster: Reference; nodes: readonly number[]; spec: object },
) {
  const { upsert } = await fill(world, cluster.namespace, 'books', spec)
  await upsert({ points: points(POINTS) })
  const recorded = await untilBalanced(world, cluster, nodes.length)
  const before = await ownReplicas(world, cluster.namespace, nodes)
  const contents = contentsOf(t, before, points(POINTS))
  checkReplicas(t, before, contents, 'before')
  return { recorded, before, contents }
}

const whenSafe: Scenario = {
  title:
    'healing.lostNodes WhenSafe: node 0 without its volume is replaced without an annotation, and then each node has the shards and points of before',
  only: 'cluster',
  async run(world, t) {
    if (!isReal(world)) throw new NotSupported('only the real engine and chart form a cluster')
    const namespace = await world.namespace('when-safe')
    const healing = { lostNodes: 'WhenSafe' }
    const cluster = await running(world, namespace, 'a', { ...THREE_NODES, healing })
    const filled = await fillBalanced(world, t, { cluster, nodes: NODES, spec: TWO_COPIES })
    const { recorded, before, contents } = filled
    const peers = await untilAgreed(world, cluster)
    const former = recordedPeer(recorded, LOST)
    t.equal(former, before[LOST]?.peer)

    await deletePod(world, namespace, LOST, true)
    const object = await world.waitFor(
      cluster,
      'the node is replaced and every shard is placed',
      (found) => recordedPeer(found, LOST) !== former && isPlaced(found),
      SECONDS,
    )
    t.equal(conditionIn(object, 'ShardsPlaced')?.message, '6 of 6 replicas are Active')
    const members = await untilAgreed(world, cluster)
    const others = peers.filter((peer) => peer !== String(former))
    t.strictSame(
      members.filter((peer) => peers.includes(peer)),
      others,
      'only its peer is another one',
    )
    const after = await ownReplicas(world, namespace, NODES)
    checkReplicas(t, after, contents, 'afterwards')
    t.strictSame(layoutOf(after), layoutOf(before), 'each node has the shards of before')
    const events = await eventsAbout(world, cluster)
    t.ok('ReplacingNode' in events)
    t.notOk('LostNode' in events, 'no user was asked')
  },
}

/** A user of the namespace, who changes the number of nodes through the scale subresource, as kubectl scale does. */
async function scaler(world: World, cluster: Reference) {
  const user = await world.tenant(cluster.namespace, 'edit')
  return {
    user,
    scale: (replicas: number) =>
      user.patch(cluster, { spec: { replicas } }, { subresource: 'scale' }),
  }
}

async function scaleOf(user: User, { namespace, name }: Reference): Promise<unknown> {
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/vecclusters/${name}/scale`
  return JSON.parse(await user.raw('GET', path))
}

/**
 * Moves a shard from the node with the fewest replicas to one that has more, as a user does. Returns the layout once
 * the engine has moved it.
 */
async function moveShard(world: World, namespace: string) {
  const before = await placements(world, namespace, NODES)
  const [from, ...others] = before.toSorted((one, other) => one.ids.length - other.ids.length)
  const [shard = -1] = from?.ids ?? []
  const to = others.find(({ ids }) => !ids.includes(shard))
  if (from === undefined || to === undefined) {
    throw new Error(`no shard can be moved: ${JSON.stringify(layoutOf(before))}`)
  }
  const move_shard = { shard_id: shard, from_peer_id: from.peer, to_peer_id: to.peer }
  await world.engine(podOf(namespace, 0), 'POST', `${PATH}/cluster`, { move_shard })
  let layout: Record<number, number[]> = {}
  await eventually(world, `shard ${shard} is on node ${to.node}`, async () => {
    const placed = await placements(world, namespace, NODES)
    layout = layoutOf(placed)
    const isMoved = layout[to.node]?.includes(shard) === true && !placed.some(isInTransfer)
    return isMoved && layout[from.node]?.includes(shard) === false
  })
  return layout
}

function isInTransfer(placement: NodePlacement): boolean {
  return placement.isInTransfer
}

/** Numbers of replicas of the nodes, the lowest first. */
function countsOf(layout: Record<number, number[]>): number[] {
  return Object.values(layout)
    .map(({ length }) => length)
    .toSorted()
}

const scaled: Scenario = {
  title:
    'scale subresource 2 -> 3 -> 2 -> 3: shards are balanced once, a later move of a user stays; node 2 is drained before it is removed, and onScaleIn Keep keeps its volume, which no node starts with',
  only: 'cluster',
  async run(world, t) {
    if (!isReal(world)) throw new NotSupported('only the real engine and chart form a cluster')
    const namespace = await world.namespace('shard-work')
    const cluster = await running(world, namespace, 'a', { ...THREE_NODES, replicas: 2 })
    const spec = { ...TWO_COPIES, shard_number: SHARDS }
    const { contents } = await fillBalanced(world, t, { cluster, nodes: [0, 1], spec })
    const { user, scale } = await scaler(world, cluster)

    await scale(3)
    const recorded = await untilBalanced(world, cluster, 3)
    t.match(await scaleOf(user, cluster), {
      spec: { replicas: 3 },
      status: { replicas: 3, selector: 'app.kubernetes.io/instance=vec-a' },
    })
    const balanced = await ownReplicas(world, namespace, NODES)
    checkReplicas(t, balanced, contents, 'on three nodes')
    t.strictSame(countsOf(layoutOf(balanced)), [2, 3, 3])

    const jobs = await jobsIn(world, namespace)
    const moved = await moveShard(world, namespace)
    t.strictSame(countsOf(moved), [1, 3, 4])
    await world.advance(OBSERVED_SECONDS)
    const later = await ownReplicas(world, namespace, NODES)
    checkReplicas(t, later, contents, 'after the move of a user')
    t.strictSame(layoutOf(later), moved, 'the move of the user stays')
    t.strictSame(
      (await jobsIn(world, namespace)).filter((job) => !jobs.includes(job)),
      [],
    )

    const claim = {
      ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
      ...{ namespace, name: 'qdrant-storage-vec-a-2' },
    }
    const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
    const volume = await world.get(claim)
    await world.patch(cluster, { spec: { persistence: { onScaleIn: 'Keep' } } })
    await world.waitForPassing(cluster, passing('Draining'), () => scale(2))
    await world.waitFor(set, 'two pods', (found) => replicasOf(found) === 2, SECONDS)
    const drained = await ownReplicas(world, namespace, [0, 1])
    checkReplicas(t, drained, contents, 'when the pod of node 2 is removed')
    await untilBalanced(world, cluster, 2)
    checkReplicas(t, await ownReplicas(world, namespace, [0, 1]), contents, 'without node 2')
    const retained = await world.get(claim)
    t.equal(retained?.metadata.uid, volume?.metadata.uid)
    t.equal(retained?.metadata.labels?.[LABELS.removedPeer], '2')

    await scale(3)
    const blocked = await untilReason(world, cluster, 'VolumeKept')
    t.equal(
      conditionIn(blocked, 'Applied')?.message,
      `spec.replicas would start a node with the volume of a removed one: delete PersistentVolumeClaim ${claim.name}, and the node starts empty`,
    )
    t.equal(replicasOf(await world.get(set)), 2)
    await world.delete(claim)
    const object = await untilBalanced(world, cluster, 3)
    t.not(recordedPeer(object, 2), recordedPeer(recorded, 2), 'node 2 is another peer')
    const fresh = await world.get(claim)
    t.not(fresh?.metadata.uid, volume?.metadata.uid)
    t.equal(fresh?.metadata.labels?.[LABELS.removedPeer], undefined)
    checkReplicas(t, await ownReplicas(world, namespace, NODES), contents, 'in the end')
  },
}

export const shardWork: Scenario[] = [whenSafe, scaled]
