/** A node that is lost with the only replicas of its shards: what is said, restored and replaced. */
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { NotSupported, type Reference, type World } from '../world/world.ts'
import { backupResource, fill, points, untilEnded } from './backup-parts.ts'
import { deletePod, isReal, NODES, THREE_NODES, untilAgreed } from './formation.ts'
import { conditionIn, running, statusOf, type Scenario } from './scenario.ts'

const POINTS = 120
const LOST = 2
const SECONDS = 900

/** Every point of the collection, as this node answers. */
async function pointsOn(world: World, namespace: string, node: number): Promise<unknown> {
  const pod = { namespace, name: `vec-a-${node}` }
  const body = { limit: 10 * POINTS, with_payload: true, with_vector: true }
  const page = await world.engine(pod, 'POST', '/collections/books/points/scroll', body)
  return (page as { result: { points: unknown } }).result.points
}

async function untilPlaced(
  world: World,
  cluster: Reference,
  expectation: string,
  isMet: (message: string, reason: string) => boolean,
): Promise<string> {
  const placed = (object: AnyObject | undefined) => conditionIn(object, 'ShardsPlaced')
  const object = await world.waitFor(
    cluster,
    expectation,
    (found) => isMet(placed(found)?.message ?? '', placed(found)?.reason ?? ''),
    SECONDS,
  )
  return placed(object)?.message ?? ''
}

const lostShards: Scenario = {
  title: 'H21: the only replicas of a lost node come back from a backup, and the node is replaced',
  only: 'cluster',
  async run(world, t) {
    if (!isReal(world)) throw new NotSupported('only the real engine and chart form a cluster')
    const namespace = await world.namespace('lost-node')
    const bucket = await world.bucket(namespace)
    const cluster = await running(world, namespace, 'a', THREE_NODES)
    const { upsert } = await fill(world, namespace, 'books', {
      shard_number: 6,
      replication_factor: 1,
    })
    await upsert({ points: points(POINTS) })
    await untilAgreed(world, cluster)
    const hasNodes = (object: AnyObject | undefined) =>
      statusOf(object).nodes?.length === NODES.length
    await world.waitFor(cluster, 'the nodes are recorded', hasNodes, SECONDS)
    const before = await pointsOn(world, namespace, 0)
    const { reference: backup, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of({ method: 'Shard' }))
    await untilEnded(world, backup)

    await deletePod(world, namespace, LOST, true)
    const lost = await untilPlaced(world, cluster, 'LostNode', (_, reason) => reason === 'LostNode')
    t.match(lost, /^node 2 has lost its data .* no other node has an Active replica of books\/\d/)
    t.match(lost, new RegExp(`the newest Completed backups: ${namespace}/b$`))
    const ids = [...lost.matchAll(/books\/(\d+)/g)].map(([, id]) => Number(id))
    t.ok(ids.length > 0)
    await t.rejects(pointsOn(world, namespace, 0), 'some points cannot be read')

    const restore = { apiVersion: API_VERSION, kind: 'VecRestore', namespace, name: 'r' }
    await world.apply({
      apiVersion: API_VERSION,
      kind: 'VecRestore',
      metadata: { namespace, name: 'r' },
      spec: {
        backupRef: { name: 'b' },
        targetClusterRef: { name: 'a' },
        shards: [{ collection: 'books', ids }],
      },
    })
    await untilEnded(world, restore)
    for (const node of [0, 1]) {
      t.strictSame(await pointsOn(world, namespace, node), before, `node ${node}`)
    }

    await untilPlaced(world, cluster, 'safe to replace', (message) =>
      message.includes('so it can be replaced'),
    )
    await world.patch(cluster, { metadata: { annotations: { [ANNOTATIONS.replace]: '2' } } })
    await untilAgreed(world, cluster)
    const isPlaced = (object: AnyObject | undefined) =>
      conditionIn(object, 'ShardsPlaced')?.status === 'True'
    await world.waitFor(cluster, 'every shard is placed', isPlaced, SECONDS)
    for (const node of NODES) {
      t.strictSame(await pointsOn(world, namespace, node), before, `node ${node}, in the end`)
    }
  },
}

export const lostNode: Scenario[] = [lostShards]
