/** A rotation of an API key whose Jobs are killed, and one that begins while a backup is in progress. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { parseProgress } from '../../crds/contract/job.ts'
import { matchWhole } from '../match-whole.ts'
import type { Reference, World } from '../world/world.ts'
import { backupResource, eventually, fill, heldUpload, points, untilEnded } from './backup-parts.ts'
import { secretIn } from './inside.ts'
import { clientsOf } from './key-clients.ts'
import {
  accepting,
  FIRST,
  keySecret,
  keyStep,
  ROTATING,
  ROTATION_SECONDS,
  SECOND,
  untilStep,
} from './key-rotation.ts'
import { movingResource } from './moving-parts.ts'
import { jobsIn, reasonIn, running, type Scenario } from './scenario.ts'

/** No Jobs on the shards, which H12 has. */
const ONE_NODE = [0]
const READER = 'a client that reads vec-a-apikey'
const BOTH = 'a client that knows both keys'
const WRITER = 'a writer with the published key'
const POINT = { id: 1, vector: [1, 2, 3, 4] }
const WRITE = {
  method: 'PUT',
  path: '/collections/books/points?wait=true',
  body: () => ({ points: [POINT] }),
}

async function published(world: World, namespace: string): Promise<string | undefined> {
  return (await secretIn(world, namespace, 'vec-a-apikey')).data['api-key']
}

/** Number of the helm run that is in progress. */
function startedRun(object: AnyObject | undefined): number | undefined {
  const { annotations, uid = '' } = object?.metadata ?? {}
  const progress = parseProgress(annotations?.[ANNOTATIONS.progress], uid)
  return progress?.state === 'Started' && progress.verb === 'upgrade' ? progress.run : undefined
}

/** Kills the pod of the helm Job of this step, and waits for its next pod. */
async function killJobOf(world: World, namespace: string, cluster: Reference, step: string) {
  const found = await world.waitFor(
    cluster,
    `a helm run of the step ${step}`,
    (object) => keyStep(object) === step && startedRun(object) !== undefined,
    ROTATION_SECONDS,
  )
  const run = startedRun(found)
  const jobs = await jobsIn(world, namespace)
  const job = jobs.find((name) => name.includes('-upgrade-') && name.endsWith(`-${run}`))
  if (job === undefined) throw new Error(`no Job of run ${run} among ${jobs.join(', ')}`)
  const podNames = async () => {
    const pods = await world.list('v1', 'Pod', namespace)
    return pods.map(({ metadata }) => metadata.name).filter((name) => name.startsWith(`${job}-`))
  }
  const earlier = await podNames()
  await world.faults.killJobPod(namespace, job)
  // The pod of a node that is gone disappears; a container that is killed leaves its pod.
  await eventually(world, `another pod of ${job}`, async () =>
    (await podNames()).some((name) => !earlier.includes(name)),
  )
}

const killedJobs: Scenario = {
  title:
    'the Jobs that add a key and publish it are killed, and neither a write nor a client with both keys is refused',
  async run(world, t) {
    const namespace = await world.namespace('rotation-killed')
    await world.apply(keySecret(namespace, FIRST))
    const cluster = await running(world, namespace, 'a', ROTATING)
    await fill(world, namespace, 'books')
    // Events of the installation count for their own minute.
    await world.advance(60)
    const clients = clientsOf(world, namespace, ONE_NODE)
    const ofSecret = async () => [await published(world, namespace)]
    try {
      clients.startWith(READER, ofSecret)
      clients.startWith(BOTH, async () => [FIRST, SECOND])
      clients.startWith(WRITER, ofSecret, WRITE)
      await world.apply(keySecret(namespace, SECOND))
      await killJobOf(world, namespace, cluster, 'AddingKey')
      await killJobOf(world, namespace, cluster, 'PublishingKey')
      await untilStep(world, cluster, 'FormerKeyAccepted')
      t.strictSame(await accepting(world, namespace, ONE_NODE, FIRST), ONE_NODE)
      await untilStep(world, cluster, 'KeyCurrent')
      for (const name of [READER, BOTH, WRITER]) {
        t.ok(clients.stop(name) > 1, `${name} has called`)
      }
    } finally {
      await clients.close()
    }
    t.equal(await published(world, namespace), SECOND)
    t.strictSame(clients.refused, [])
    t.strictSame(await accepting(world, namespace, ONE_NODE, FIRST), [])
  },
}

const duringBackup: Scenario = {
  title: 'a key that is written during a backup waits for it, and the backup is whole',
  async run(world, t) {
    const namespace = await world.namespace('rotation-backup')
    const bucket = await world.bucket(namespace)
    await world.apply(keySecret(namespace, FIRST))
    const cluster = await running(world, namespace, 'a', ROTATING)
    const { upsert } = await fill(world, namespace, 'docs')
    await upsert({ points: points(30) })
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
    const held = heldUpload(bucket)
    await world.apply(of())
    await eventually(world, 'the collection is being uploaded', held.begun)
    await world.apply(keySecret(namespace, SECOND))
    const waiting = await world.waitFor(
      cluster,
      'waiting for the backup',
      (found) => reasonIn(found) === 'ClusterBusy',
    )
    t.equal(keyStep(waiting), 'AddingKey')
    t.equal(await published(world, namespace), FIRST)
    held.release()
    await untilEnded(world, reference)
    await untilStep(world, cluster, 'KeyCurrent')
    t.equal(await published(world, namespace), SECOND)

    await world.engine({ namespace, name: 'vec-a-0' }, 'DELETE', '/collections/docs')
    const restore = movingResource('VecRestore', namespace, 'r')
    await world.apply(restore.of({ backupRef: { name: 'one' }, targetClusterRef: { name: 'a' } }))
    const { restoredCollections } = await restore.untilCompleted(world)
    matchWhole(t, restoredCollections, [{ name: 'docs', status: 'Completed', pointsCount: 30 }])
    const path = '/collections/docs/points/scroll'
    const all = { limit: 100, with_vector: true, with_payload: true }
    const found = await world.engine({ namespace, name: 'vec-a-0' }, 'POST', path, all)
    matchWhole(t, (found as { result: { points: unknown } }).result.points, points(30))
  },
}

export const keyRotationFaults: Scenario[] = [killedJobs, duringBackup]
