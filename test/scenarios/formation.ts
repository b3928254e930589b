/** Node 0 of a formed cluster that loses its volume, or starts with all others: only the real engine shows it. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { NotSupported, type PassingState, type Reference, type World } from '../world/world.ts'
import { fill, points } from './backup-parts.ts'
import { conditionIn, phaseOf, running, type Scenario } from './scenario.ts'

export const NODES = [0, 1, 2]
export const THREE_NODES = { replicas: NODES.length, cluster: { enabled: true } }
export const TWO_COPIES = { shard_number: 3, replication_factor: 2 }
const PATH = '/collections/books/cluster'
/** Longer than node 0 needs to start and to be refused several times. */
const OBSERVED_SECONDS = 60
const POLL_SECONDS = 3

interface ClusterView {
  result: { peer_id: number; peers: Record<string, { uri: string }> }
}

interface Placement {
  result: {
    peer_id: number
    local_shards: { shard_id: number }[]
    remote_shards: { shard_id: number; peer_id: number }[]
  }
}

/** The peers that a node names, sorted; undefined if it does not answer. */
async function peersAccordingTo(world: World, namespace: string, node: number) {
  const pod = { namespace, name: `vec-a-${node}` }
  const view = await world.engine(pod, 'GET', '/cluster').catch(() => undefined)
  return view === undefined ? undefined : Object.keys((view as ClusterView).result.peers).sort()
}

function reference(kind: string, apiVersion: string, namespace: string, name: string): Reference {
  return { apiVersion, kind, namespace, name }
}

/** Deletes a pod, and the volume claim first where it is to come back empty. */
export async function deletePod(
  world: World,
  namespace: string,
  node: number,
  withVolume: boolean,
) {
  const name = `vec-a-${node}`
  const claim = reference('PersistentVolumeClaim', 'v1', namespace, `qdrant-storage-${name}`)
  if (withVolume) await world.delete(claim)
  await world.delete(reference('Pod', 'v1', namespace, name))
}

/** Drops every copy that a peer has; the engine refuses to drop the last Active one. */
async function dropCopies(world: World, namespace: string, peer: string): Promise<number> {
  const survivor = { namespace, name: 'vec-a-1' }
  const { result } = (await world.engine(survivor, 'GET', PATH)) as Placement
  const copies = result.remote_shards.filter(({ peer_id }) => String(peer_id) === peer)
  for (const { shard_id, peer_id } of copies) {
    await world.engine(survivor, 'POST', PATH, { drop_replica: { shard_id, peer_id } })
  }
  return copies.length
}

function isHealthy(object: AnyObject | undefined): boolean {
  const isTrue = (type: string) => conditionIn(object, type)?.status === 'True'
  return phaseOf(object) === 'Running' && isTrue('Ready') && isTrue('Consensus')
}

export async function untilAgreed(world: World, cluster: Reference): Promise<string[]> {
  const { namespace } = cluster
  const deadline = world.now().getTime() + 600_000
  for (;;) {
    const views = await Promise.all(NODES.map((node) => peersAccordingTo(world, namespace, node)))
    const [first = []] = views
    const isAgreed = views.every((view) => view?.join() === first.join())
    if (isAgreed && first.length === NODES.length) {
      await world.waitFor(cluster, 'healthy', isHealthy, 600)
      return first
    }
    if (world.now().getTime() > deadline) throw new Error(`views differ: ${JSON.stringify(views)}`)
    await world.advance(POLL_SECONDS)
  }
}

const lostNodeZero: Scenario = {
  title:
    'H20: node 0 without its volume founds no second cluster, and joins once its copies are dropped',
  only: 'cluster',
  async run(world, t) {
    if (!isReal(world)) throw new NotSupported('only the real engine and chart form a cluster')
    const namespace = await world.namespace('node-zero')
    const cluster = await running(world, namespace, 'a', THREE_NODES)
    const { upsert } = await fill(world, namespace, 'books', TWO_COPIES)
    await upsert({ points: points(60) })
    const record = reference('ConfigMap', 'v1', namespace, 'vec-a.formed')
    const nodesOf = (found: AnyObject | undefined) =>
      (found as { data?: { nodes?: string } } | undefined)?.data?.nodes
    await world.waitFor(record, 'formed with 3 nodes', (found) => nodesOf(found) === '3', 120)
    const before = await untilAgreed(world, cluster)
    const own = (await world.engine({ namespace, name: 'vec-a-0' }, 'GET', PATH)) as Placement
    const lost = String(own.result.peer_id)

    await deletePod(world, namespace, 0, true)
    const seen: string[][] = []
    for (let passed = 0; passed < OBSERVED_SECONDS; passed += POLL_SECONDS) {
      await world.advance(POLL_SECONDS)
      seen.push((await peersAccordingTo(world, namespace, 0)) ?? [])
    }
    t.strictSame(
      seen.filter((peers) => peers.length === 1),
      [],
      'it is in no cluster of its own',
    )
    t.strictSame(await peersAccordingTo(world, namespace, 1), before)

    t.equal(await dropCopies(world, namespace, lost), own.result.local_shards.length)
    const after = await untilAgreed(world, cluster)
    t.notOk(after.includes(lost), 'it is a new peer at the former address')
    t.strictSame(
      before.filter((peer) => peer !== lost),
      before.filter((peer) => after.includes(peer)),
      'the others are the former ones',
    )
    const count = { exact: true }
    const path = '/collections/books/points/count'
    const counted = await world.engine({ namespace, name: 'vec-a-0' }, 'POST', path, count)
    t.match(counted, { result: { count: 60 } })
  },
}

const allRestarted: Scenario = {
  title: 'all nodes of a formed cluster that start together are the cluster of before',
  only: 'cluster',
  async run(world, t) {
    if (!isReal(world)) throw new NotSupported('only the real engine and chart form a cluster')
    const namespace = await world.namespace('all-nodes')
    const cluster = await running(world, namespace, 'a', THREE_NODES)
    const before = await untilAgreed(world, cluster)
    const notReady: PassingState = {
      what: 'not ready',
      isReached: (object) => !isHealthy(object),
    }
    await world.waitForPassing(cluster, notReady, () =>
      Promise.all(NODES.map((node) => deletePod(world, namespace, node, false))),
    )
    t.strictSame(await untilAgreed(world, cluster), before)
  },
}

export function isReal({ components }: World): boolean {
  return ['ENGINE_BIN', 'ENGINE_CHART'].every((part) =>
    components.some((line) => line.startsWith(`${part}: /`)),
  )
}

export const formation: Scenario[] = [lostNodeZero, allRestarted]
