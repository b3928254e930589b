/** Bad days of the operator itself, and days on which nothing happens at all. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { World } from '../world/world.ts'
import {
  backupJobs,
  backupResource,
  eventually,
  filledCluster,
  heldUpload,
  untilEnded,
  verify,
} from './backup-parts.ts'
import { resource, untilPhase } from './inside.ts'
import {
  UPGRADES_SECONDS,
  eventsIn,
  jobsIn,
  phaseOf,
  running,
  statusOf,
  untilApplied,
  untilGone,
  type Scenario,
} from './scenario.ts'

const BUSY_SECONDS = 30
/** Ten minutes; `.ci/run` has less time than a night. */
const IDLE_SECONDS = Number(process.env['IDLE_SECONDS'] ?? 600)

const upgradedMeanwhile: Scenario = {
  title:
    'operator upgraded while a backup runs: its Job goes on, is picked up, and moves nothing twice',
  disturbs: true,
  async run(world, t, stage) {
    const { namespace, bucket, cluster } = await filledCluster(world, 'upgraded')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const held = heldUpload(bucket)
    await world.apply(of())
    await eventually(world, 'the upload has begun', held.begun)
    const before = await backupJobs(world, namespace)
    await world.faults.upgradeService('0.3.0')
    stage.calm()
    t.strictSame(await backupJobs(world, namespace), before, 'the Job is there still')
    held.release()
    await untilEnded(world, reference)
    t.strictSame(await backupJobs(world, namespace), before, 'and no other was made')
    t.equal((await verify(bucket, 'b')).code, 0)
    const isUpgraded = (object?: AnyObject) => (statusOf(object).appliedRun ?? 0) > 1
    await world.waitFor(cluster, 'its helm upgrade', isUpgraded, UPGRADES_SECONDS)
  },
}

const tokenRotated: Scenario = {
  title: 'the token of the hooks rotated while all runs: what is changed afterwards is applied',
  disturbs: true,
  async run(world, t, stage) {
    const namespace = await world.namespace('rotated')
    const reference = await running(world, namespace, 'a')
    await world.faults.rotateToken()
    stage.calm()
    await world.patch(reference, { spec: { config: { log_level: 'DEBUG' } } })
    const object = await untilApplied(world, reference, UPGRADES_SECONDS)
    t.equal(statusOf(object).appliedGeneration, object?.metadata.generation)
  },
}

const apiBusy: Scenario = {
  title: 'an API server that is too busy (429): nothing changes, nothing is reported as an error',
  alone: true,
  async run(world, t) {
    const namespace = await world.namespace('busy')
    const reference = await running(world, namespace, 'a')
    // A service that has just restarted is not reached by every first call, which is reported.
    const before = await readEvents(world, namespace, 'SyncError')
    await world.faults.degradeApi('busy')
    try {
      await world.patch(reference, { spec: { config: { log_level: 'DEBUG' } } })
      await world.advance(BUSY_SECONDS)
      t.equal(phaseOf(await world.get(reference)), 'Running')
      t.equal((await jobsIn(world, namespace)).length, 1)
    } finally {
      await world.faults.degradeApi()
    }
    const object = await untilApplied(world, reference)
    t.equal(statusOf(object).appliedGeneration, object?.metadata.generation)
    t.strictSame(await readEvents(world, namespace, 'SyncError'), before)
  },
}

const apiSlow: Scenario = {
  title: 'an API server that is slow: all of it takes longer, and happens once',
  alone: true,
  only: 'embedded',
  async run(world, t) {
    const namespace = await world.namespace('slow')
    await world.faults.degradeApi('slow')
    try {
      const reference = await running(world, namespace, 'a')
      t.equal((await jobsIn(world, namespace)).length, 1)
      await world.delete(reference)
      await untilGone(world, reference, UPGRADES_SECONDS)
      t.strictSame(await world.list('apps/v1', 'StatefulSet', namespace), [])
    } finally {
      await world.faults.degradeApi()
    }
  },
}

const COLLECTIONS = 31
const ACCESS_KEYS = 12
const SCHEDULES = 5

const idle: Scenario = {
  title:
    'fifty resources in which nothing happens: no write in ten minutes, or as long as IDLE_SECONDS says',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('idle')
    const bucket = await world.bucket(namespace)
    await running(world, namespace, 'a', { apiKey: { autoGenerate: true, jwtRbac: true } })
    const backup = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(backup.of())
    for (const name of numbered('schedule', SCHEDULES)) {
      const { of } = backupResource('VecBackupSchedule', { namespace, name }, bucket)
      await world.apply(of({ schedule: '0 0 29 2 *' }))
    }
    const inside = [
      ...numbered('collection', COLLECTIONS).map((name) => {
        const { of, reference } = resource('VecCollection', namespace, name)
        return { reference, object: of({ vectors: [{ size: 4, distance: 'Dot' }] }) }
      }),
      ...numbered('key', ACCESS_KEYS).map((name) => {
        const { of, reference } = resource('VecAccessKey', namespace, name)
        return { reference, object: of({ access: 'r' }) }
      }),
    ]
    for (const { object } of inside) await world.apply(object)
    for (const { reference } of inside) await untilPhase(world, reference, 'Ready', 600)
    await untilEnded(world, backup.reference)
    t.equal(inside.length + SCHEDULES + 2, 50)
    // The engine is still becoming ready, and the end of the last Job is still to be reported.
    await world.advance(120)
    const before = await world.writes(namespace)
    t.ok(before.length > 50)
    const events = await readEvents(world, namespace)
    await world.advance(IDLE_SECONDS)
    // Whichever component wrote them: a pod that was not ready for a moment is normal.
    const news = (await readEvents(world, namespace)).filter((event) => !events.includes(event))
    t.strictSame(news, [])
    t.strictSame((await world.writes(namespace)).slice(before.length), [])
  },
}

/** Events of all components, a line each; or only those with a reason. */
async function readEvents(world: World, namespace: string, only?: string): Promise<string[]> {
  const events = await eventsIn(world, namespace)
  return events
    .filter(({ reason }) => only === undefined || reason === only)
    .map(
      ({ metadata, reason, message, count }) => `${metadata.name} ${reason} ${count}: ${message}`,
    )
}

function numbered(word: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${word}-${index}`)
}

/** Before the scenarios that put another release in the operator's place. */
export const operatorDays: Scenario[] = [idle, tokenRotated, apiBusy, apiSlow, upgradedMeanwhile]
