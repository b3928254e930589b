/** Updates of clusters with several nodes: node by node, and never the last replica of a shard. */
import type { Test } from 'tap'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import {
  newAuthority,
  newCertificate,
  type KeyPair,
} from '../../metacontroller/identity/certificates.ts'
import type { Reference, World } from '../world/world.ts'
import { points } from './backup-parts.ts'
import { certificateHosts } from './certificate.ts'
import { NODES, THREE_NODES, TWO_COPIES } from './formation.ts'
import {
  conditionIn,
  eventsIn,
  passing,
  running,
  statusOf,
  untilApplied,
  UPGRADES_SECONDS,
  type Scenario,
} from './scenario.ts'

const PATH = '/collections/books/cluster'
/** The engine gets ten minutes to repair a replica, and three pods restart. */
const UPDATE_SECONDS = UPGRADES_SECONDS

interface Placement {
  result: {
    peer_id: number
    local_shards: { shard_id: number; state: string }[]
    remote_shards: { shard_id: number; peer_id: number; state: string }[]
  }
}

interface PodObject extends AnyObject {
  metadata: AnyObject['metadata'] & { annotations?: Record<string, string> }
  spec: { containers: { image: string }[] }
}

/** Three nodes of the older version that form a cluster, with a collection of two replicas per shard. */
async function formedCluster(world: World, namespace: string, spec: object = {}) {
  const { older: version } = world.versions
  const cluster = await running(world, namespace, 'a', { version, ...THREE_NODES, ...spec })
  await world.waitFor(
    cluster,
    'formed',
    (object) =>
      statusOf(object).formedNodes === 3 && conditionIn(object, 'ShardsPlaced')?.status === 'True',
    600,
  )
  const vectors = { size: 4, distance: 'Dot' }
  const pod = { namespace, name: 'vec-a-0' }
  await world.engine(pod, 'PUT', '/collections/books', { vectors, ...TWO_COPIES })
  return cluster
}

/** Version of the image of each pod, by ordinal. */
async function versions(world: World, namespace: string): Promise<(string | undefined)[]> {
  const pods = (await world.list('v1', 'Pod', namespace)) as PodObject[]
  return [0, 1, 2].map((ordinal) => {
    const pod = pods.find(({ metadata }) => metadata.name === `vec-a-${ordinal}`)
    return pod?.spec.containers[0]?.image.split(':v')[1]
  })
}

/** Where each shard has its replicas, as node 0 reports it. */
async function placement(world: World, namespace: string) {
  const pod = { namespace, name: 'vec-a-0' }
  const { result } = (await world.engine(pod, 'GET', PATH)) as Placement
  const local = result.local_shards.map((shard) => ({ ...shard, peer_id: result.peer_id }))
  return [...local, ...result.remote_shards]
}

async function checkUpdated(world: World, t: Test, cluster: Reference) {
  const { namespace } = cluster
  const { newer } = world.versions
  t.strictSame(await versions(world, namespace), [newer, newer, newer])
  const replicas = await placement(world, namespace)
  t.equal(replicas.length, 6)
  t.ok(replicas.every(({ state }) => state === 'Active'))
  t.strictSame(await updatedNodes(world, namespace), NODES)
}

/** Nodes that were updated according to the Events, each update once. */
async function updatedNodes(world: World, namespace: string): Promise<number[]> {
  return (await eventsIn(world, namespace))
    .flatMap(({ reason, message }) =>
      reason === 'ShardStep' ? (/^updating node (\d)$/.exec(message)?.[1] ?? []) : [],
    )
    .map(Number)
    .toSorted()
}

const RESTART = 'vec-operator.dev/restart'

/** Value of an annotation of each pod. */
async function marks(
  world: World,
  namespace: string,
  annotation: string,
): Promise<(string | undefined)[]> {
  const pods = (await world.list('v1', 'Pod', namespace)) as PodObject[]
  return pods
    .filter(({ metadata }) => /^vec-a-\d$/.test(metadata.name))
    .map(({ metadata }) => metadata.annotations?.[annotation])
}

const nodeByNode: Scenario = {
  title:
    'a new version reaches the nodes one by one, from the last to the first; in a cluster a restart too',
  async run(world, t) {
    const namespace = await world.namespace('node-by-node')
    const cluster = await formedCluster(world, namespace)
    await world.waitForPassing(cluster, passing('Upgrading'), () =>
      world.patch(cluster, { spec: { version: world.versions.newer } }),
    )
    await untilApplied(world, cluster, UPDATE_SECONDS)
    await checkUpdated(world, t, cluster)

    // Two updates take less than a minute in the embedded world: their Events would be held back.
    if (world.kind === 'embedded') return
    await world.waitForPassing(cluster, passing('Upgrading'), () =>
      world.patch(cluster, { metadata: { annotations: { [RESTART]: 'once' } } }),
    )
    await untilApplied(world, cluster, UPDATE_SECONDS)
    t.strictSame(await marks(world, namespace, RESTART), ['once', 'once', 'once'])
    const replicas = await placement(world, namespace)
    t.ok(replicas.length === 6 && replicas.every(({ state }) => state === 'Active'))
  },
}

const lastReplica: Scenario = {
  title:
    'H6: an update stops before the last replica of a shard, and continues once there is another',
  async run(world, t) {
    const namespace = await world.namespace('last-replica')
    const healing = { replicas: false }
    const cluster = await formedCluster(world, namespace, { healing })
    // Node 2 is updated first: it is to have the only replica of one of its shards.
    const pod = { namespace, name: 'vec-a-2' }
    const { result } = (await world.engine(pod, 'GET', PATH)) as Placement
    const shard = result.local_shards[0]?.shard_id
    const other = result.remote_shards.find(({ shard_id }) => shard_id === shard)
    await world.engine(pod, 'POST', PATH, {
      drop_replica: { shard_id: shard, peer_id: other?.peer_id },
    })
    await world.patch(cluster, { spec: { version: world.versions.newer } })
    const stopped = await world.waitFor(
      cluster,
      'LastCopy',
      (object) => conditionIn(object, 'Progressing')?.reason === 'LastCopy',
      UPDATE_SECONDS,
    )
    t.match(conditionIn(stopped, 'Progressing'), {
      status: 'False',
      message: new RegExp(`^books/${shard} is Active only on node 2, which is updated next`),
    })
    t.equal(conditionIn(stopped, 'Applied')?.status, 'True')
    await world.advance(65)
    const { older } = world.versions
    t.strictSame(await versions(world, namespace), [older, older, older])

    await world.patch(cluster, { spec: { healing: { replicas: true } } })
    await untilApplied(world, cluster, UPDATE_SECONDS)
    await checkUpdated(world, t, cluster)
  },
}

const renewed: Scenario = {
  title:
    'a renewed certificate restarts the nodes of a cluster with TLS one by one, and they still reach each other',
  async run(world, t) {
    const namespace = await world.namespace('renewed')
    const authority = newAuthority(world.now(), 2)
    const issue = () => world.apply(certificateSecret(namespace, authority, world.now()))
    await issue()
    // The nodes use the certificate as servers and as clients: each verifies the other.
    const cluster = await formedCluster(world, namespace, {
      version: world.versions.newer,
      cluster: { enabled: true, p2p: { enableTls: true } },
      tls: { enabled: true, secretRef: { name: 'cert' } },
    })
    await write(world, namespace, { node: 0, first: 1 })
    t.strictSame(await counts(world, namespace), [POINTS, POINTS, POINTS])
    const [first = '', ...others] = await marks(world, namespace, ANNOTATIONS.certificate)
    t.match(first, /^[0-9a-f]{12}$/)
    t.strictSame(others, [first, first])

    await world.waitForPassing(cluster, passing('Upgrading'), issue)
    const object = await untilApplied(world, cluster, UPDATE_SECONDS)
    t.equal(conditionIn(object, 'Ready')?.status, 'True')
    const [second = '', ...rest] = await marks(world, namespace, ANNOTATIONS.certificate)
    t.match(second, /^[0-9a-f]{12}$/)
    t.not(second, first)
    t.strictSame(rest, [second, second])
    t.strictSame(await updatedNodes(world, namespace), NODES)

    await write(world, namespace, { node: 2, first: POINTS + 1 })
    t.strictSame(await counts(world, namespace), [2 * POINTS, 2 * POINTS, 2 * POINTS])
    const replicas = await placement(world, namespace)
    t.ok(replicas.length === 6 && replicas.every(({ state }) => state === 'Active'))
  },
}

/** Enough for points in each of the three shards. */
const POINTS = 60

/** Writes points through one node, which sends most of them to other nodes, and waits for every replica. */
async function write(
  world: World,
  namespace: string,
  { node, first }: { node: number; first: number },
) {
  const pod = { namespace, name: `vec-a-${node}` }
  const path = '/collections/books/points?wait=true&ordering=strong'
  await world.engine(pod, 'PUT', path, { points: points(POINTS, first) })
}

/** Number of points according to each node, none of which has all shards. */
async function counts(world: World, namespace: string): Promise<number[]> {
  return Promise.all(
    NODES.map(async (node) => {
      const pod = { namespace, name: `vec-a-${node}` }
      const path = '/collections/books/points/count'
      const answer = await world.engine(pod, 'POST', path, { exact: true })
      return (answer as { result: { count: number } }).result.count
    }),
  )
}

/** With a new key and certificate for the nodes of cluster `a`. */
function certificateSecret(namespace: string, authority: KeyPair, now: Date): object {
  const hosts = certificateHosts({ namespace, name: 'a' }, NODES)
  const { cert, key } = newCertificate(authority, hosts, now, {
    days: 1,
    usages: ['serverAuth', 'clientAuth'],
  })
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name: 'cert' },
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': base64(cert), 'tls.key': base64(key), 'ca.crt': base64(authority.cert) },
  }
}

export const updates: Scenario[] = [nodeByNode, lastReplica, renewed]
