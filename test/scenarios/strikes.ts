/**
 * Faults drawn from a seed, in a world whose Jobs are processes or pods of their own: what strikes when
 * is the seed's, how far the work is by then is the machine's. What must hold at the end is the same.
 */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { Dice } from '../faults/machine/dice.ts'
import type { Reference, World, WorldBucket } from '../world/world.ts'
import { backupResource, backupStatus, deleted, engineFiles, fill, points } from './backup-parts.ts'
import { jobsIn, running, type Scenario } from './scenario.ts'

interface Target {
  world: World
  namespace: string
  bucket: WorldBucket
}

/** Each is over when it answers. */
const FAULTS: Record<string, (target: Target, seconds: number) => Promise<void>> = {
  async 'a Job is killed'({ world, namespace }) {
    for (const job of await jobsIn(world, namespace)) await world.faults.killJobPod(namespace, job)
  },
  async 'the hook service is away'({ world }, seconds) {
    await world.faults.stopService()
    await world.advance(seconds)
    await world.faults.startService()
  },
  async 'controllers are restarted'({ world }) {
    await world.faults.restartControllers()
  },
  async 'a node of the engine is away'({ world, namespace }, seconds) {
    await world.faults.breakPod(namespace, 'vec-a-1')
    await world.advance(seconds)
    await world.faults.healPod(namespace, 'vec-a-1')
  },
  async 'the store answers 503'({ world, bucket }, seconds) {
    bucket.misbehave(() => ({ status: 503, code: 'SlowDown' }))
    await world.advance(seconds)
    bucket.misbehave()
  },
  async 'connections to the store are cut'({ world, bucket }, seconds) {
    bucket.misbehave(() => ({ cut: true }))
    await world.advance(seconds)
    bucket.misbehave()
  },
}

const POINTS = 40
/** Of the world's time: that of the embedded one runs ahead while a Job pauses between two tries. */
const BOUND_SECONDS = { embedded: 36_000, cluster: 1800 }

/** One scenario for each of these seeds. */
export function strikesOf(from: number, count: number): Scenario[] {
  return Array.from({ length: count }, (_, index) => struck(from + index))
}

function struck(seed: number): Scenario {
  const dice = new Dice(seed)
  const names = Object.keys(FAULTS) as [string, ...string[]]
  const strikes = Array.from({ length: dice.between(2, 4) }, () => ({
    fault: dice.oneOf(names),
    after: dice.between(0, 6),
    seconds: dice.between(1, 15),
  }))
  return {
    title: `seed ${seed}: ${strikes.map(({ fault }) => fault).join(', ')}; and nothing is lost`,
    disturbs: true,
    async run(world, t, stage) {
      const namespace = await world.namespace(`seed-${seed}`)
      const bucket = await world.bucket(namespace)
      await running(world, namespace, 'a', { replicas: 2, cluster: { enabled: true } })
      const books = await fill(world, namespace, 'books', {
        shard_number: 2,
        replication_factor: 2,
      })
      await books.upsert({ points: points(POINTS) })
      const backup = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
      await world.apply(backup.of())
      const restore = restoreIn(namespace)
      await world.apply(restore.object)

      for (const { fault, after, seconds } of strikes) {
        await world.advance(after)
        await FAULTS[fault]?.({ world, namespace, bucket }, seconds)
      }
      stage.calm()

      t.equal(await endOf(world, backup.reference), 'Completed')
      t.equal(await endOf(world, restore.reference), 'Completed')
      for (const name of ['vec-a-0', 'vec-a-1']) {
        const count = { method: 'POST', path: '/collections/library/points/count' }
        const pod = { namespace, name }
        t.match(await world.engine(pod, count.method, count.path, { exact: true }), {
          result: { count: POINTS },
        })
      }
      // After a call without a response the owner of the file is unknown: it stays, and is named.
      const status = JSON.stringify(await world.get(backup.reference))
      const unnamed = (await engineFiles(world, namespace, 2, 'books')).filter(
        (file) => !status.includes(file),
      )
      t.strictSame(unnamed, [], 'no snapshot is left that the status does not name')
      await deleted(world, restore.reference)
      await deleted(world, backup.reference)
      t.strictSame(await bucket.keys(), [], 'no object outlives its backup')
    },
  }
}

function restoreIn(namespace: string): { reference: Reference; object: object } {
  const reference = { apiVersion: API_VERSION, kind: 'VecRestore', namespace, name: 'back' }
  const spec = {
    backupRef: { name: 'one' },
    targetClusterRef: { name: 'a' },
    collectionMapping: { books: 'library' },
  }
  const { apiVersion, kind, name } = reference
  return { reference, object: { apiVersion, kind, metadata: { namespace, name }, spec } }
}

async function endOf(world: World, reference: Reference): Promise<string | undefined> {
  const phaseOf = (object: AnyObject | undefined) => backupStatus(object).phase ?? ''
  const isOver = (object: AnyObject | undefined) =>
    ['Completed', 'Failed'].includes(phaseOf(object))
  return phaseOf(await world.waitFor(reference, 'ended', isOver, BOUND_SECONDS[world.kind]))
}
