/** A VecRestore of a backup by shard: into another number of nodes, and into one that is being changed. */
import { matchWhole } from '../match-whole.ts'
import type { PassingState, World } from '../world/world.ts'
import { backupResource, fill, points, said, untilEnded } from './backup-parts.ts'
import { movingResource } from './moving-parts.ts'
import { clusterReference, phaseOf, running, type Scenario } from './scenario.ts'

const nodes = (replicas: number) => ({ replicas, cluster: { enabled: true } })

interface Copies {
  result: { local_shards: { shard_id: number }[]; remote_shards: { shard_id: number }[] }
}

/** Ids of the shards that a pod of cluster `b` holds itself, and of those it knows elsewhere. */
async function shardsOf(world: World, namespace: string, pod: string, collection: string) {
  const path = `/collections/${collection}/cluster`
  const { result } = (await world.engine({ namespace, name: pod }, 'GET', path)) as Copies
  const ids = (shards: { shard_id: number }[]) => shards.map(({ shard_id }) => shard_id).sort()
  return { here: ids(result.local_shards), elsewhere: ids(result.remote_shards) }
}

const another: Scenario = {
  title:
    'a backup of two nodes by shard comes back in three, with its copies, keys and aliases; one by node is refused with a hint',
  async run(world, t) {
    const namespace = await world.namespace('restored-by-shard')
    const bucket = await world.bucket(namespace)
    await Promise.all([
      running(world, namespace, 'a', nodes(2)),
      running(world, namespace, 'b', nodes(3)),
    ])
    const books = await fill(world, namespace, 'books', { shard_number: 4, replication_factor: 2 })
    await books.upsert({ points: points(40) })
    const cities = await fill(world, namespace, 'cities', { sharding_method: 'custom' })
    for (const [index, shard_key] of ['berlin', 7].entries()) {
      await cities.call('PUT', '/shards?timeout=60', { shard_key })
      await cities.upsert({ points: points(10 + index), shard_key })
    }
    for (const method of ['Shard', 'Node']) {
      const name = method.toLowerCase()
      const backup = backupResource('VecBackup', { namespace, name }, bucket)
      await world.apply(backup.of({ method }))
      await untilEnded(world, backup.reference)
    }

    const restore = movingResource('VecRestore', namespace, 'r')
    await world.apply(restore.of({ backupRef: { name: 'shard' }, targetClusterRef: { name: 'b' } }))
    matchWhole(t, await restore.untilCompleted(world), {
      restoredCollections: [
        { name: 'books', status: 'Completed', pointsCount: 40 },
        { name: 'cities', status: 'Completed', pointsCount: 21 },
      ],
    })
    for (const ordinal of [0, 1, 2]) {
      const pod = { namespace, name: `vec-b-${ordinal}` }
      const count = async (name: string, body: object) =>
        world.engine(pod, 'POST', `/collections/${name}/points/count`, { exact: true, ...body })
      t.match(await count('books%20today', {}), { result: { count: 40 } }, 'by its alias')
      t.match(await count('cities', { shard_key: 'berlin' }), { result: { count: 10 } })
      t.match(await count('cities', { shard_key: 7 }), { result: { count: 11 } })
      const { here, elsewhere } = await shardsOf(world, namespace, pod.name, 'books')
      t.strictSame([...here, ...elsewhere].sort(), [0, 0, 1, 1, 2, 2, 3, 3], 'two copies of each')
      t.ok(here.length > 0, `${pod.name} has its part`)
    }

    const refused = movingResource('VecRestore', namespace, 'refused')
    await world.apply(refused.of({ backupRef: { name: 'node' }, targetClusterRef: { name: 'b' } }))
    const failed = await world.waitFor(
      refused.reference,
      'Failed',
      (object) => refused.statusOf(object).phase === 'Failed',
      300,
    )
    t.equal(
      refused.statusOf(failed).error,
      'Backup was taken from 2 nodes but target cluster has 3; a backup with spec.method Shard is restored into any number of nodes',
    )
    t.equal(said(failed)?.reason, 'RestoreFailed')
  },
}

const scaled: Scenario = {
  title:
    'a restore by shard into a cluster that is being scaled waits, and fits the size it has then',
  async run(world, t) {
    const namespace = await world.namespace('restored-scaled')
    const bucket = await world.bucket(namespace)
    await Promise.all([running(world, namespace, 'a'), running(world, namespace, 'b', nodes(2))])
    const { upsert } = await fill(world, namespace, 'books', { shard_number: 3 })
    await upsert({ points: points(30) })
    const backup = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
    await world.apply(backup.of({ method: 'Shard' }))
    await untilEnded(world, backup.reference)

    const target = clusterReference(namespace, 'b')
    const atWork: PassingState = {
      what: 'at work',
      isReached: (object) => phaseOf(object) !== 'Running',
    }
    await world.waitForPassing(target, atWork, () => world.patch(target, { spec: { replicas: 3 } }))
    const restore = movingResource('VecRestore', namespace, 'r')
    await world.apply(restore.of({ backupRef: { name: 'one' }, targetClusterRef: { name: 'b' } }))
    matchWhole(t, await restore.untilCompleted(world), {
      restoredCollections: [{ name: 'books', status: 'Completed', pointsCount: 30 }],
    })
    for (const ordinal of [0, 1, 2]) {
      const { here, elsewhere } = await shardsOf(world, namespace, `vec-b-${ordinal}`, 'books')
      t.equal(here.length, 1, `one shard on vec-b-${ordinal}`)
      t.equal(elsewhere.length, 2)
    }
  },
}

export const restoreShards: Scenario[] = [another, scaled]
