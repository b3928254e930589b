/** An installation for two namespaces: all kinds work in them with the rights that its chart gives. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { backupResource, deleted, fill, points, untilEnded } from './backup-parts.ts'
import { readyOf, resource, untilPhase } from './inside.ts'
import { movingResource } from './moving-parts.ts'
import { makeCluster, running, statusOf, untilApplied, untilGone } from './scenario.ts'

const SIGNING = { apiKey: { autoGenerate: true, jwtRbac: true } }
const OBSERVED_SECONDS = 180

t.test('every kind works in a namespace of the list, and its deletion ends', async (t) => {
  const world = await startEmbeddedWorld({ roles: 'roles-of-namespaces' })
  t.teardown(() => world.close())
  const [namespace, target] = ['shop', 'books'] as const
  const bucket = await world.bucket(namespace)
  const cluster = await running(world, namespace, 'a', SIGNING)
  const { upsert } = await fill(world, namespace, 'docs')
  await upsert({ points: points(30) })

  const collection = resource('VecCollection', namespace, 'shelf')
  await world.apply(collection.of({ vectors: [{ size: 4, distance: 'Dot' }] }))
  t.match(readyOf(await untilPhase(world, collection.reference, 'Ready')), { status: 'True' })
  const key = resource('VecAccessKey', namespace, 'reader')
  await world.apply(key.of({ collections: [{ name: 'docs', access: 'r' }], secretName: 'token' }))
  await untilPhase(world, key.reference, 'Ready')

  const backup = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
  await world.apply(backup.of())
  await untilEnded(world, backup.reference)

  await running(world, target, 'b', { apiKey: { autoGenerate: true } })
  const restore = movingResource('VecRestore', namespace, 'r')
  const targetClusterRef = { name: 'b', namespace: target }
  await world.apply(restore.of({ backupRef: { name: 'one' }, targetClusterRef }))
  await restore.untilCompleted(world)
  const answer = await world.engine(
    { namespace: target, name: 'vec-b-0' },
    'POST',
    '/collections/docs/points/count',
    { exact: true },
  )
  t.match(answer, { result: { count: 30 } })

  await deleted(world, backup.reference)
  t.strictSame(await bucket.keys(), [], 'its deletion empties its folder')
  for (const { reference } of [collection, key, restore]) {
    await deleted(world, reference)
  }
  await world.delete(cluster)
  await untilGone(world, cluster, 300)
  t.notMatch(await world.serviceLog(), /is forbidden/)
})

t.test('a namespace that is not of the list is left alone', async (t) => {
  const world = await startEmbeddedWorld({ roles: 'roles-of-namespaces' })
  t.teardown(() => world.close())
  const namespace = await world.namespace('other')
  const cluster = await makeCluster(world, namespace, 'a')
  await world.advance(OBSERVED_SECONDS)
  const object = await world.get(cluster)
  t.strictSame(statusOf(object), { observedGeneration: -1 }, 'as the CRD made it')
  t.strictSame(await world.list('batch/v1', 'Job', namespace), [])
  // What names it from a namespace of the list learns why.
  const { reference, of } = resource('VecCollection', 'shop', 'shelf')
  await world.apply(
    of({ clusterRef: { name: 'a', namespace }, vectors: [{ size: 4, distance: 'Dot' }] }),
  )
  const found = await untilPhase(world, reference, 'Pending')
  const message = `cluster ${namespace}/a is in a namespace that this operator does not watch`
  t.match(readyOf(found), { status: 'False', message })
  // Metacontroller watches all namespaces, and its finalizer is on the resource.
  await world.delete(cluster)
  await untilGone(world, cluster, 120)
})

t.test('a listed namespace can be deleted, and the others continue to work', async (t) => {
  const world = await startEmbeddedWorld({ roles: 'roles-of-namespaces' })
  t.teardown(() => world.close())
  const [remaining, gone] = ['shop', 'books'] as const
  const bucket = await world.bucket(gone)
  const cluster = await running(world, remaining, 'a')
  await running(world, gone, 'a')
  await fill(world, gone, 'docs')
  const collection = resource('VecCollection', gone, 'shelf')
  await world.apply(collection.of({ vectors: [{ size: 4, distance: 'Dot' }] }))
  await untilPhase(world, collection.reference, 'Ready')
  const backup = backupResource('VecBackup', { namespace: gone, name: 'one' }, bucket)
  await world.apply(backup.of())
  await untilEnded(world, backup.reference)

  // Kubernetes deletes the RoleBinding of the service with it.
  const namespace = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: gone }
  await world.delete(namespace)
  await untilGone(world, namespace, 900)
  t.not((await bucket.keys()).length, 0, 'a namespace that ends does not empty the bucket')

  await world.patch(cluster, { spec: { resources: { requests: { cpu: '20m' } } } })
  await untilApplied(world, cluster)
  const other = resource('VecCollection', remaining, 'shelf')
  await world.apply(other.of({ vectors: [{ size: 4, distance: 'Dot' }] }))
  await untilPhase(world, other.reference, 'Ready')
  await deleted(world, other.reference)
})
