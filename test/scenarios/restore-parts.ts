/** What the scenarios about restores share: a backup of one cluster, and another that it may come back in. */
import type { World } from '../world/world.ts'
import { backupResource, fill, points, untilEnded } from './backup-parts.ts'
import { running } from './scenario.ts'

const TWO_NODES = { replicas: 2, cluster: { enabled: true }, apiKey: { autoGenerate: true } }

/** Two clusters of two nodes, the second perhaps in another namespace, and a finished backup of the first. */
export async function backedUp(world: World, namespace: string, target = namespace) {
  const bucket = await world.bucket(namespace)
  await Promise.all([
    running(world, namespace, 'a', TWO_NODES),
    running(world, target, 'b', TWO_NODES),
  ])
  const { upsert } = await fill(world, namespace, 'books', {
    shard_number: 2,
    replication_factor: 2,
  })
  await upsert({ points: points(30) })
  const backup = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
  await world.apply(backup.of())
  await untilEnded(world, backup.reference)
  return { bucket, backup }
}
