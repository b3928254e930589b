/** Volumes that grow while the cluster is used. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { World } from '../world/world.ts'
import { eventually, fill, points } from './backup-parts.ts'
import {
  conditionIn,
  jobsIn,
  running,
  untilApplied,
  untilReason,
  statusOf,
  type Scenario,
} from './scenario.ts'

const NODES = 3
const [SMALL_SIZE, LARGE_SIZE] = ['64Mi', '128Mi']
const LARGE_BYTES = 128 * 2 ** 20
const BETWEEN_CALLS_MS = 20

/** A class that no object describes: only a storage driver reads it. */
const ATTRIBUTES_CLASS = 'gold'

interface ClaimSpec {
  volumeAttributesClassName?: string
  resources: { requests: { storage: string } }
}

type Claim = AnyObject & { spec: ClaimSpec; status?: { capacity?: { storage: string } } }

/** A class of the default provisioner; the world's driver grows volumes whatever the class says. */
async function storageClass(world: World, name: string, allowVolumeExpansion: boolean) {
  await world.apply({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name },
    provisioner: 'kubernetes.io/host-path',
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'Immediate',
    allowVolumeExpansion,
  })
  const reference = { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', namespace: '', name }
  return () => world.delete(reference)
}

export async function claimsIn(world: World, namespace: string): Promise<Claim[]> {
  return (await world.list('v1', 'PersistentVolumeClaim', namespace)) as Claim[]
}

/** Name, uid and number of restarts of every pod of the engine. */
export async function podsIn(world: World, namespace: string): Promise<string[]> {
  const pods = (await world.list('v1', 'Pod', namespace)) as (AnyObject & {
    status?: { containerStatuses?: { restartCount: number }[] }
  })[]
  return pods
    .filter(({ metadata }) => /^vec-a-[0-9]+$/.test(metadata.name))
    .map(({ metadata: { name, uid }, status }) => {
      const restarts = status?.containerStatuses?.map(({ restartCount }) => restartCount) ?? []
      return `${name} ${uid ?? ''} ${restarts.join()}`
    })
    .sort()
}

/** Requested size and capacity of each claim. */
async function sizesIn(world: World, namespace: string): Promise<(string | undefined)[]> {
  const claims = await claimsIn(world, namespace)
  return claims.flatMap(({ spec, status }) => [
    spec.resources.requests.storage,
    status?.capacity?.storage,
  ])
}

/** Size and VolumeAttributesClass of each claim template. */
export async function templatesIn(world: World, namespace: string): Promise<string[]> {
  const sets = (await world.list('apps/v1', 'StatefulSet', namespace)) as (AnyObject & {
    spec: { volumeClaimTemplates: { spec: ClaimSpec }[] }
  })[]
  return sets.flatMap(({ spec }) =>
    spec.volumeClaimTemplates.map(
      ({ spec: { resources, volumeAttributesClassName = 'none' } }) =>
        `${resources.requests.storage} ${volumeAttributesClassName}`,
    ),
  )
}

/**
 * Makes one call after the other until it is stopped, each with the next id; returns how many succeeded.
 * They end with the test, also with one that fails.
 */
export function startCalls(t: Test, call: (id: number) => Promise<unknown>, from: number) {
  let isStopped = false
  t.teardown(() => {
    isStopped = true
  })
  const failures: string[] = []
  const run = async () => {
    let id = from
    while (!isStopped) {
      try {
        await call(id)
        id += 1
      } catch (error) {
        failures.push(String(error))
      }
      await sleep(BETWEEN_CALLS_MS)
    }
    return id - from
  }
  const ended = run()
  return {
    failures,
    stop() {
      isStopped = true
      return ended
    },
  }
}

const grown: Scenario = {
  title:
    'volumes of three nodes grow and change their class under load, through a killed Job, without a restart of a pod',
  async run(world, t) {
    const namespace = await world.namespace('grown')
    const removeClass = await storageClass(world, namespace, true)
    const persistence = { size: SMALL_SIZE, storageClassName: namespace }
    const cluster = await running(world, namespace, 'a', {
      replicas: NODES,
      cluster: { enabled: true },
      persistence,
    })
    const copies = { shard_number: 3, replication_factor: 2 }
    const { call, upsert } = await fill(world, namespace, 'docs', copies)
    await upsert({ points: points(20) })
    const pods = await podsIn(world, namespace)
    const runs = (await jobsIn(world, namespace)).length
    const writer = startCalls(t, (id) => upsert({ points: points(1, id) }), 21)

    const changed = { size: LARGE_SIZE, volumeAttributesClassName: ATTRIBUTES_CLASS }
    const larger = { spec: { persistence: { ...persistence, ...changed } } }
    await world.patch(cluster, larger)
    const isRequested = async () =>
      (await claimsIn(world, namespace)).every(
        ({ spec }) =>
          spec.resources.requests.storage === LARGE_SIZE &&
          spec.volumeAttributesClassName === ATTRIBUTES_CLASS,
      )
    await eventually(world, 'all claims request the new size and class', isRequested)
    const [job = ''] = (await jobsIn(world, namespace)).slice(runs)
    await world.faults.killJobPod(namespace, job)
    await world.resizeVolumes(namespace)
    const object = await untilApplied(world, cluster)
    const acknowledged = await writer.stop()

    t.strictSame(await podsIn(world, namespace), pods, 'the same pods, not restarted')
    t.strictSame(await sizesIn(world, namespace), Array(2 * NODES).fill(LARGE_SIZE))
    t.strictSame(await templatesIn(world, namespace), [`${LARGE_SIZE} ${ATTRIBUTES_CLASS}`])
    t.equal(conditionIn(object, 'Ready')?.message, '3/3 replicas ready')
    t.equal(statusOf(object).formedNodes, NODES)
    t.strictSame(writer.failures, [])
    t.ok(acknowledged > 0)
    const counted = await call('POST', '/points/count', { exact: true })
    t.match(counted, { result: { count: 20 + acknowledged } })
    const secrets = await world.list('v1', 'Secret', namespace)
    const hasSpace = (found: AnyObject | undefined) =>
      conditionIn(found, 'Capacity')?.reason === 'SpaceAvailable' &&
      statusOf(found).nodes?.every(({ capacity }) => capacity === LARGE_BYTES) === true
    await world.waitFor(cluster, 'the new capacity in the status', hasSpace, 300)
    t.notOk(secrets.some(({ metadata }) => metadata.name === 'vec-a.statefulset'))
    await removeClass()
  },
}

const refused: Scenario = {
  title: 'a volume that its StorageClass cannot grow is named before anything is changed',
  async run(world, t) {
    const namespace = await world.namespace('not-grown')
    const removeClass = await storageClass(world, namespace, false)
    const persistence = { size: SMALL_SIZE, storageClassName: namespace }
    const cluster = await running(world, namespace, 'a', { persistence })
    const before = await world.get({
      ...cluster,
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      name: 'vec-a',
    })
    await world.patch(cluster, { spec: { persistence: { ...persistence, size: LARGE_SIZE } } })
    const found = await untilReason(world, cluster, 'VolumeNotExpandable')
    const message = conditionIn(found, 'Applied')?.message ?? ''
    t.match(
      message,
      `spec.persistence.size: ${SMALL_SIZE} -> ${LARGE_SIZE}: PersistentVolumeClaim qdrant-storage-vec-a-0 with StorageClass ${namespace} cannot grow: `,
    )
    t.match(message, /; set allowVolumeExpansion: true on the StorageClass .* to 64Mi$/)
    const after = await world.get({
      ...cluster,
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      name: 'vec-a',
    })
    t.equal(after?.metadata.uid, before?.metadata.uid)
    t.strictSame(await sizesIn(world, namespace), [SMALL_SIZE, SMALL_SIZE])

    await world.patch(cluster, { spec: { persistence: { ...persistence, size: SMALL_SIZE } } })
    await untilApplied(world, cluster)
    await world.patch(cluster, { spec: { persistence: { ...persistence, size: '32Mi' } } })
    const lower = await untilReason(world, cluster, 'InvalidSpec')
    t.equal(
      conditionIn(lower, 'Applied')?.message,
      'spec.persistence.size cannot be lowered: StatefulSet vec-a has 64Mi',
    )
    await removeClass()
  },
}

export const volumeScenarios: readonly Scenario[] = [grown, refused]
