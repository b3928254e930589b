/** Volumes that are filled on purpose: only file systems of their own become full. */
import { randomBytes } from 'node:crypto'
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { World } from '../world/world.ts'
import { driverClass } from './expandable.ts'
import { conditionIn, running, untilApplied, type Scenario } from './scenario.ts'
import { claimsIn, podsIn } from './volumes.ts'

const MIB = 2 ** 20
const [SIZE, LARGER_SIZE] = ['1Gi', '1536Mi']
/** Not compressible, and long: a volume is full after a few hundred points. */
const TEXT_BYTES = 64 * 1024
const POINTS_PER_MIB = MIB / TEXT_BYTES
/** Far from the limit of the condition, 70 % of the volume: until then, writes follow each other. */
const FAST_MIB = 600
/** Nearly what the volume has: the engine refuses writes earlier. */
const MOST_MIB = 960
/** After that, the pause after each MiB: the operator asks the engine at intervals. */
const PAUSE_SECONDS = 2

interface Filling {
  world: World
  namespace: string
}

/** One node with a collection without vectors: what is written is payload. */
async function emptyCluster({ world, namespace }: Filling, persistence: object) {
  const whole = { size: SIZE, storageClassName: namespace, ...persistence }
  const cluster = await running(world, namespace, 'a', {
    cluster: { enabled: true },
    persistence: whole,
  })
  await world.engine(pod(namespace), 'PUT', '/collections/docs', { vectors: {}, shard_number: 1 })
  return { cluster, persistence: whole }
}

const pod = (namespace: string) => ({ namespace, name: 'vec-a-0' })

/** Writes 1 MiB; the points get the ids from this one on. */
async function writeMebibyte({ world, namespace }: Filling, from: number): Promise<void> {
  const points = Array.from({ length: POINTS_PER_MIB }, (_, index) => ({
    id: from + index,
    vector: {},
    payload: { text: randomBytes((TEXT_BYTES / 4) * 3).toString('base64') },
  }))
  await world.engine(pod(namespace), 'PUT', '/collections/docs/points?wait=true', { points })
}

interface Filled {
  /** Number of mebibytes that were acknowledged. */
  acknowledged: number
  /** What the first write that was not acknowledged was answered. */
  refused?: string
}

/** Writes until the engine refuses a write, the limit is reached, or `isEnough` returns true. */
async function fillVolume(filling: Filling, isEnough: () => Promise<boolean>): Promise<Filled> {
  for (let mebibyte = 0; mebibyte < MOST_MIB; mebibyte += 1) {
    try {
      await writeMebibyte(filling, 1 + mebibyte * POINTS_PER_MIB)
    } catch (error) {
      return { acknowledged: mebibyte, refused: String(error) }
    }
    if (mebibyte < FAST_MIB) continue
    if (await isEnough()) return { acknowledged: mebibyte + 1 }
    await filling.world.advance(PAUSE_SECONDS)
  }
  return { acknowledged: MOST_MIB }
}

async function countPoints({ world, namespace }: Filling): Promise<number> {
  const path = '/collections/docs/points/count'
  const answer = await world.engine(pod(namespace), 'POST', path, { exact: true })
  return (answer as { result: { count: number } }).result.count
}

const reasonOf = (object: AnyObject | undefined) => conditionIn(object, 'Capacity')?.reason

const alerted: Scenario = {
  title:
    'a volume that fills up is VolumeLow before the engine refuses the first write, and takes writes again once it has grown',
  only: 'cluster',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('full')
    const storageClass = await driverClass(world, namespace, true)
    const filling = { world, namespace }
    const { cluster, persistence } = await emptyCluster(filling, {})
    const pods = await podsIn(world, namespace)
    const before = new Set<string>()
    const observe = async () => {
      const { reason = '', message = '' } = conditionIn(await world.get(cluster), 'Capacity') ?? {}
      if (!before.has(reason)) t.comment(`${reason}: ${message}`)
      before.add(reason)
      return false
    }
    const { acknowledged, refused = 'nothing was refused' } = await fillVolume(filling, observe)
    t.comment(`${acknowledged} MiB were acknowledged, then: ${refused}`)
    t.match(refused, /No space left on device/)
    t.ok(before.has('VolumeLow'), `before, the condition was ${[...before].join(', ')}`)
    t.equal(await countPoints(filling), acknowledged * POINTS_PER_MIB)

    await world.patch(cluster, { spec: { persistence: { ...persistence, size: LARGER_SIZE } } })
    await untilApplied(world, cluster, 900)
    await world.waitFor(cluster, 'space', (found) => reasonOf(found) === 'SpaceAvailable', 600)
    await writeMebibyte(filling, 1 + acknowledged * POINTS_PER_MIB)
    t.equal(await countPoints(filling), (acknowledged + 1) * POINTS_PER_MIB)
    t.strictSame(await podsIn(world, namespace), pods, 'the same pod, not restarted')
    await storageClass.remove()
  },
}

const grownByItself: Scenario = {
  title: 'autoGrow enlarges a volume that fills up before the engine refuses a write',
  only: 'cluster',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('grows-by-itself')
    const storageClass = await driverClass(world, namespace, true)
    const filling = { world, namespace }
    const autoGrow = { above: 70, by: '100%', max: LARGER_SIZE }
    const { cluster } = await emptyCluster(filling, { autoGrow })
    const pods = await podsIn(world, namespace)
    const capacities = async () =>
      (await claimsIn(world, namespace)).map(({ status }) => status?.capacity?.storage)
    const isGrown = async () => (await capacities()).every((size) => size === LARGER_SIZE)
    const { acknowledged, refused } = await fillVolume(filling, isGrown)
    t.equal(refused, undefined)
    t.strictSame(await capacities(), [LARGER_SIZE])
    await untilApplied(world, cluster, 900)
    await writeMebibyte(filling, 1 + acknowledged * POINTS_PER_MIB)
    t.equal(await countPoints(filling), (acknowledged + 1) * POINTS_PER_MIB)
    t.strictSame(await podsIn(world, namespace), pods, 'the same pod, not restarted')
    await storageClass.remove()
  },
}

export const fullVolumes: readonly Scenario[] = [alerted, grownByItself]
