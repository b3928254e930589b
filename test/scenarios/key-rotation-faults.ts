/** A rotation of an API key whose Jobs are killed, and one that begins while a backup is in progress. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { parseProgress, type Progress } from '../../crds/contract/job.ts'
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
import { jobsIn, phaseOf, reasonIn, running, type Scenario } from './scenario.ts'

/** No Jobs on the shards, which H12 has. */
const ONE_NODE = [0]
const STEPS = ['AddingKey', 'PublishingKey']
const ATTEMPTS = 4
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

/** The helm run that is in progress. */
function startedRun(object: AnyObject | undefined): Progress | undefined {
  const { annotations, uid = '' } = object?.metadata ?? {}
  const progress = parseProgress(annotations?.[ANNOTATIONS.progress], uid)
  return progress?.state === 'Started' && progress.verb === 'upgrade' ? progress : undefined
}

interface Rotating {
  world: World
  namespace: string
  cluster: Reference
}

/** Kills the pod of the helm Job of this step; answers once the Job has completed whether another pod did its work. */
async function killJobOf({ world, namespace, cluster }: Rotating, step: string): Promise<boolean> {
  const found = await world.waitFor(
    cluster,
    `a helm run of the step ${step}`,
    (object) => keyStep(object) === step && startedRun(object) !== undefined,
    ROTATION_SECONDS,
  )
  const { run, runner } = startedRun(found) ?? {}
  const jobs = await jobsIn(world, namespace)
  const name = jobs.find((job) => job.includes('-upgrade-') && job.endsWith(`-${run}`))
  if (name === undefined) throw new Error(`no Job of run ${run} among ${jobs.join(', ')}`)
  await world.faults.killJobPod(namespace, name)
  let completed: string | undefined
  await eventually(world, `a pod of ${name} has completed`, async () => {
    const pods = await world.list('v1', 'Pod', namespace)
    const ofJob = pods.filter(({ metadata }) => metadata.name.startsWith(`${name}-`))
    completed = ofJob.find((pod) => phaseOf(pod) === 'Succeeded')?.metadata.uid
    return completed !== undefined
  })
  return completed !== runner
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
    let former: string | undefined
    let current = FIRST
    const killed = new Set<string>()
    try {
      clients.startWith(READER, ofSecret)
      clients.startWith(BOTH, async () => [former, current])
      clients.startWith(WRITER, ofSecret, WRITE)
      // On a real cluster a helm run ends within a second or two, so the kill may come too late.
      for (let attempt = 1; killed.size < STEPS.length && attempt <= ATTEMPTS; attempt += 1) {
        former = current
        current = `${SECOND}-${attempt}`
        await world.apply(keySecret(namespace, current))
        for (const step of STEPS) {
          if (await killJobOf({ world, namespace, cluster }, step)) killed.add(step)
        }
        await untilStep(world, cluster, 'FormerKeyAccepted')
        t.strictSame(await accepting(world, namespace, ONE_NODE, former), ONE_NODE)
        await untilStep(world, cluster, 'KeyCurrent')
        t.equal(await published(world, namespace), current)
        t.strictSame(await accepting(world, namespace, ONE_NODE, former), [])
      }
      for (const name of [READER, BOTH, WRITER]) {
        t.ok(clients.stop(name) > 1, `${name} has called`)
      }
    } finally {
      await clients.close()
    }
    t.strictSame([...killed].toSorted(), STEPS)
    t.strictSame(clients.refused, [])
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
