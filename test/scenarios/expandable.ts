/**
 * Volumes of a CSI driver with file systems of their own. They have a size, so they become full, and they grow
 * while the engine uses them.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { NotSupported, type Reference, type World } from '../world/world.ts'
import { eventually, fill } from './backup-parts.ts'
import { THREE_NODES, TWO_COPIES } from './formation.ts'
import {
  conditionIn,
  jobsIn,
  running,
  untilApplied,
  untilReason,
  type Scenario,
} from './scenario.ts'
import { claimsIn, podsIn, startCalls, templatesIn } from './volumes.ts'

/** Name of the driver of test/cluster/volume-driver.ts. */
export const VOLUME_DRIVER = 'volumes.vec-operator.dev'

const CLAIM = 'qdrant-storage-vec-a'
const DIMENSIONS = 4
/** Number of points that are read with one call. */
const PAGE = 1000

/** Sizes in Mi: XFS has a least size of 300. */
const FIRST_SIZE = 512
const STEP_SIZE = 16
/** A step may pass between the moment it is seen and the one in which the processes are stopped. */
const ATTEMPTS = 10

/** A StorageClass of the driver; throws NotSupported where there is none. */
export async function driverClass(world: World, name: string, allowVolumeExpansion: boolean) {
  const driver = { apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', namespace: '' }
  if ((await world.get({ ...driver, name: VOLUME_DRIVER })) === undefined) {
    const why = world.components.find((line) => line.startsWith('volumes that can grow'))
    throw new NotSupported(why ?? `the cluster has no CSI driver ${VOLUME_DRIVER}`)
  }
  const storageClass = {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name },
    provisioner: VOLUME_DRIVER,
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'Immediate',
    allowVolumeExpansion,
  }
  await world.apply(storageClass)
  return {
    allow: () => world.apply({ ...storageClass, allowVolumeExpansion: true }),
    remove: () => world.delete({ ...driver, kind: 'StorageClass', name }),
  }
}

function point(id: number) {
  const vector = Array.from({ length: DIMENSIONS }, (_, index) => id % (index + 7))
  return { id, vector, payload: { author: `author ${id % 3}`, text: `text of point ${id}` } }
}

/** Every point, as this node reads it from all replicas: only what they agree on is returned. */
async function readPoints(world: World, namespace: string, node: number) {
  const found: unknown[] = []
  let offset: unknown
  do {
    const body = { limit: PAGE, with_vector: true, with_payload: true, offset }
    const path = '/collections/docs/points/scroll?consistency=all'
    const answer = (await world.engine(
      { namespace, name: `vec-a-${node}` },
      'POST',
      path,
      body,
    )) as { result: { points: unknown[]; next_page_offset: unknown } }
    found.push(...answer.result.points)
    offset = answer.result.next_page_offset ?? undefined
  } while (offset !== undefined)
  return found
}

/** Compares what was acknowledged with what every node returns, whole points, both ways. */
async function checkPoints(world: World, t: Test, namespace: string, written: number) {
  const expected = Array.from({ length: written }, (_, index) => point(index + 1))
  for (let node = 0; node < THREE_NODES.replicas; node += 1) {
    const found = await readPoints(world, namespace, node)
    t.equal(found.length, written, `node ${node} has every point`)
    t.ok(isDeepStrictEqual(found, expected), `node ${node} has the points as they were written`)
  }
}

/** Capacity of each claim and size in each claim template, without duplicates. */
async function sizes(world: World, namespace: string) {
  const claims = await claimsIn(world, namespace)
  return [
    ...new Set([
      ...claims.map(({ status }) => status?.capacity?.storage),
      ...(await templatesIn(world, namespace)).map((template) => template.split(' ')[0]),
    ]),
  ]
}

interface Growing {
  world: World
  namespace: string
  cluster: Reference
  storageClassName: string
}

/** The states of one growth, from what the API shows; the Job that makes them is stopped meanwhile. */
type Step =
  | 'nothing is changed'
  | 'the claims request the size'
  | 'the volumes have grown'
  | 'the new StatefulSet is recorded'
  | 'the StatefulSet is being deleted'
  | 'there is no StatefulSet'
  | 'the StatefulSet is the new one'
  | 'helm runs'
  | 'helm has ended'
  | 'the Job has ended'

/** What is watched to stop the Job at a step. */
interface Stop {
  step: Step
  references: (at: Before) => Reference[]
  /** The step has begun; it may be past. */
  isReached: (object: AnyObject | undefined, at: Before) => boolean
}

/** A cluster before one growth, and the size that it is to get. */
interface Before {
  namespace: string
  job: string
  setUid: string
  revision: number
  size: string
}

const claimReference = ({ namespace }: Before, node: number): Reference => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  namespace,
  name: `${CLAIM}-${node}`,
})
const setReference = ({ namespace }: Pick<Before, 'namespace'>): Reference => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  namespace,
  name: 'vec-a',
})
const recordReference = ({ namespace }: Before): Reference => ({
  apiVersion: 'v1',
  kind: 'Secret',
  namespace,
  name: 'vec-a.statefulset',
})
/** The Secret in which helm stores the revision that the Job makes. */
const releaseReference = ({ namespace, revision }: Before): Reference => ({
  apiVersion: 'v1',
  kind: 'Secret',
  namespace,
  name: `sh.helm.release.v1.vec-a.v${revision + 1}`,
})

type Claim = Awaited<ReturnType<typeof claimsIn>>[number]

const requested = (claim: AnyObject | undefined) =>
  (claim as Claim | undefined)?.spec.resources.requests.storage
const capacity = (claim: AnyObject | undefined) =>
  (claim as Claim | undefined)?.status?.capacity?.storage
const releaseState = (secret: AnyObject | undefined) => secret?.metadata.labels?.['status']

/** The StatefulSet is deleted: a step that lasts shorter than a look at it may have passed unseen. */
const isPast = (set: AnyObject | undefined, { setUid }: Before) => set?.metadata.uid !== setUid

/** Not the time after helm: only the report is left, and the Job can end before it is stopped. */
const STOPS: Stop[] = [
  {
    step: 'the claims request the size',
    references: (at) => [claimReference(at, 0)],
    isReached: (claim, { size }) => requested(claim) === size,
  },
  {
    step: 'the volumes have grown',
    references: (at) => [0, 1, 2].map((node) => claimReference(at, node)),
    isReached: (claim, { size }) => capacity(claim) === size,
  },
  {
    step: 'the StatefulSet is being deleted',
    references: (at) => [setReference(at)],
    isReached: (set, at) => set?.metadata.deletionTimestamp !== undefined || isPast(set, at),
  },
  {
    step: 'there is no StatefulSet',
    references: (at) => [setReference(at)],
    isReached: isPast,
  },
  {
    step: 'the StatefulSet is the new one',
    references: (at) => [setReference(at)],
    isReached: (set, at) => set !== undefined && isPast(set, at),
  },
  {
    step: 'helm runs',
    references: (at) => [releaseReference(at)],
    isReached: (secret) => secret !== undefined,
  },
]

/** Which step the API shows. */
async function stepOf(world: World, at: Before): Promise<Step> {
  const release = await world.get(releaseReference(at))
  if (release !== undefined) {
    return releaseState(release) === 'deployed' ? 'helm has ended' : 'helm runs'
  }
  const set = await world.get(setReference(at))
  if (set === undefined) return 'there is no StatefulSet'
  if (set.metadata.uid !== at.setUid) return 'the StatefulSet is the new one'
  if (set.metadata.deletionTimestamp !== undefined) return 'the StatefulSet is being deleted'
  if ((await world.get(recordReference(at))) !== undefined) return 'the new StatefulSet is recorded'
  const claims = await claimsIn(world, at.namespace)
  if (claims.every((claim) => capacity(claim) === at.size)) return 'the volumes have grown'
  const isChanged = claims.some((claim) => requested(claim) === at.size)
  return isChanged ? 'the claims request the size' : 'nothing is changed'
}

/** Name of the running pod of a Job, once there is one. */
async function podOf(world: World, namespace: string, job: string): Promise<string> {
  let name: string | undefined
  await eventually(world, `a pod of ${job} runs`, async () => {
    const pods = (await world.list('v1', 'Pod', namespace)) as (AnyObject & {
      status?: { phase?: string }
    })[]
    const pod = pods.find(
      ({ metadata, status }) =>
        metadata.labels?.['job-name'] === job && status?.phase === 'Running',
    )
    name = pod?.metadata.name
    return name !== undefined
  })
  return name ?? ''
}

/** The last revision of the release. */
async function revisionOf(world: World, namespace: string): Promise<number> {
  const secrets = await world.list('v1', 'Secret', namespace)
  const revisions = secrets.flatMap(
    ({ metadata }) => /^sh\.helm\.release\.v1\.vec-a\.v(\d+)$/.exec(metadata.name)?.[1] ?? [],
  )
  return Math.max(...revisions.map(Number))
}

/** Grows the volumes, and kills the Job at a step; answers the step at which it was in fact. */
async function growWithKill(growing: Growing, stop: Stop, mebibytes: number): Promise<Step> {
  const { world, namespace, cluster, storageClassName } = growing
  const size = `${mebibytes}Mi`
  const earlier = (await jobsIn(world, namespace)).length
  const set = await world.get(setReference({ namespace }))
  const revision = await revisionOf(world, namespace)
  await world.patch(cluster, { spec: { persistence: { size, storageClassName } } })
  let job: string | undefined
  await eventually(world, 'a Job for the new size', async () => {
    job = (await jobsIn(world, namespace))[earlier]
    return job !== undefined
  })
  const at = { namespace, size, revision, job: job ?? '', setUid: set?.metadata.uid ?? '' }
  const pod = await podOf(world, namespace, at.job)
  const freeze = await world.faults.prepareFreeze(namespace, pod)
  for (const reference of stop.references(at)) {
    await world.waitFor(reference, stop.step, (object) => stop.isReached(object, at))
  }
  const isStopped = freeze()
  const step = isStopped ? await stepOf(world, at) : 'the Job has ended'
  if (isStopped) await world.faults.killJobPod(namespace, at.job)
  await untilApplied(world, cluster, 600)
  return step
}

const killed: Scenario = {
  title:
    'volumes with file systems grow under reads and writes, with the Job killed at six of its steps, and no pod restarts',
  only: 'cluster',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('file-systems')
    const storageClass = await driverClass(world, namespace, true)
    const persistence = { size: `${FIRST_SIZE}Mi`, storageClassName: namespace }
    const cluster = await running(world, namespace, 'a', { ...THREE_NODES, persistence })
    const { call, upsert } = await fill(world, namespace, 'docs', TWO_COPIES)
    await upsert({ points: [point(1)] })
    const pods = await podsIn(world, namespace)
    const writer = startCalls(t, (id) => upsert({ points: [point(id)] }), 2)
    const reader = startCalls(
      t,
      async () => {
        const { result } = (await call('POST', '/points', { ids: [1], with_payload: true })) as {
          result: { id: number }[]
        }
        if (result[0]?.id !== 1) throw new Error(`point 1 is ${JSON.stringify(result)}`)
      },
      0,
    )

    let mebibytes = FIRST_SIZE
    for (const stop of STOPS) {
      const met: Step[] = []
      while (!met.includes(stop.step) && met.length < ATTEMPTS) {
        mebibytes += STEP_SIZE
        const growing = { world, namespace, cluster, storageClassName: namespace }
        met.push(await growWithKill(growing, stop, mebibytes))
        t.strictSame(
          await sizes(world, namespace),
          [`${mebibytes}Mi`],
          'volumes and templates grew',
        )
        t.strictSame(await podsIn(world, namespace), pods, 'the same pods, not restarted')
      }
      t.ok(met.includes(stop.step), `the Job was killed when ${stop.step} (${met.join(', ')})`)
    }

    const written = 1 + (await writer.stop())
    const reads = await reader.stop()
    t.strictSame([...writer.failures, ...reader.failures], [], 'no call failed')
    t.ok(written > 1 && reads > 0)
    await checkPoints(world, t, namespace, written)
    const secrets = await world.list('v1', 'Secret', namespace)
    t.notOk(secrets.some(({ metadata }) => metadata.name === 'vec-a.statefulset'))
    await storageClass.remove()
  },
}

const refused: Scenario = {
  title: 'a StorageClass that allows no growth is named, and the volumes grow once it does',
  only: 'cluster',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('fixed-size')
    const storageClass = await driverClass(world, namespace, false)
    const [from, to] = ['320Mi', '384Mi']
    const persistence = { size: from, storageClassName: namespace }
    const cluster = await running(world, namespace, 'a', { persistence })
    const pods = await podsIn(world, namespace)
    await world.patch(cluster, { spec: { persistence: { ...persistence, size: to } } })
    const found = await untilReason(world, cluster, 'VolumeNotExpandable')
    const message = conditionIn(found, 'Applied')?.message ?? ''
    const claim = `PersistentVolumeClaim ${CLAIM}-0 with StorageClass ${namespace}`
    t.match(message, `spec.persistence.size: ${from} -> ${to}: ${claim} cannot grow: `)
    t.match(message, /only dynamically provisioned pvc can be resized/)
    t.ok(
      message.endsWith(
        `; set allowVolumeExpansion: true on the StorageClass if its driver can expand volumes, or set spec.persistence.size to ${from}`,
      ),
      message,
    )
    t.strictSame(await sizes(world, namespace), [from])

    // The check is repeated after ten minutes.
    await storageClass.allow()
    await untilApplied(world, cluster, 900)
    t.strictSame(await sizes(world, namespace), [to])
    t.strictSame(await podsIn(world, namespace), pods, 'the same pod, not restarted')
    await storageClass.remove()
  },
}

export const expandableVolumes: readonly Scenario[] = [killed, refused]
