/** Restore drills of a VecBackupSchedule: a backup is restored into a temporary cluster, and nothing of it stays. */
import type { BackupScheduleStatus } from '../../crds/backup-schedule.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { matchWhole } from '../match-whole.ts'
import type { Reference, World } from '../world/world.ts'
import { backupsOf } from './backup-schedule.ts'
import {
  backupResource,
  deleted,
  eventually,
  fill,
  points,
  scheduleStatus,
  untilEnded,
} from './backup-parts.ts'
import { conditionIn, eventsAbout, running, untilGone, type Scenario } from './scenario.ts'
import { CLOSED_SECONDS, windowAfter } from './windows.ts'

const NAME = 's-drill'
const MINUTE_MS = 60_000
const DRILL_SECONDS = 1800

/** A cron expression for one minute of each day, the next one but one. */
function soon(world: World): string {
  const begin = new Date((Math.floor(world.now().getTime() / MINUTE_MS) + 2) * MINUTE_MS)
  return `${begin.getUTCMinutes()} ${begin.getUTCHours()} * * *`
}

/** A cluster of two nodes with 20 points, and a schedule that makes one backup of it. */
async function backedUp(world: World, purpose: string) {
  const namespace = await world.namespace(purpose)
  const bucket = await world.bucket(namespace)
  const cluster = await running(world, namespace, 'a', { replicas: 2, cluster: { enabled: true } })
  const { upsert } = await fill(world, namespace, 'docs', { shard_number: 2 })
  await upsert({ points: points(20) })
  const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
  const schedule = soon(world)
  const spec = { schedule, method: 'Shard', storage: { s3: { ...bucket.target, prefix: 'auto' } } }
  await world.apply(of(spec))
  await eventually(world, 'a backup is made', async () => {
    return (await backupsOf(world, reference)).length > 0
  })
  const [backup] = await backupsOf(world, reference)
  const name = backup?.metadata.name ?? ''
  await untilEnded(world, { ...reference, kind: 'VecBackup', name })
  const drill = { schedule, replicas: 1 }
  const start = () => world.patch(reference, { spec: { drill } })
  return { namespace, bucket, cluster, reference, backup: name, start }
}

function reference({ namespace }: Reference, kind: string): Reference {
  return { apiVersion: API_VERSION, kind, namespace, name: NAME }
}

async function untilDrilled(world: World, schedule: Reference): Promise<AnyObject | undefined> {
  const hasEnded = (object: AnyObject | undefined) => scheduleStatus(object).lastDrill !== undefined
  return world.waitFor(schedule, 'a drill has ended', hasEnded, DRILL_SECONDS)
}

function untilDrill(
  world: World,
  schedule: Reference,
  step: NonNullable<BackupScheduleStatus['drill']>['step'],
) {
  const isAt = (object: AnyObject | undefined) => scheduleStatus(object).drill?.step === step
  return world.waitFor(schedule, `the drill is at ${step}`, isAt, DRILL_SECONDS)
}

/** Waits until no object and no volume of the drill is left. */
async function untilCleared(world: World, schedule: Reference): Promise<void> {
  await untilGone(world, reference(schedule, 'VecRestore'), 600)
  await untilGone(world, reference(schedule, 'VecCluster'), 900)
  await eventually(world, 'the volumes are gone', async () => {
    const claims = await world.list('v1', 'PersistentVolumeClaim', schedule.namespace)
    return !claims.some(({ metadata }) => metadata.name.includes(NAME))
  })
  const isOver = (object: AnyObject | undefined) => scheduleStatus(object).drill === undefined
  await world.waitFor(schedule, 'the drill is over', isOver)
}

const passes: Scenario = {
  title:
    'a restore drill restores the newest backup into one new node, says what was counted, and leaves no object and no volume',
  async run(world, t) {
    const { namespace, reference: schedule, backup, start } = await backedUp(world, 'drill')
    await start()
    const object = await untilDrilled(world, schedule)
    const { lastDrill } = scheduleStatus(object)
    t.match(lastDrill, {
      backupName: backup,
      result: 'Passed',
      nodes: 1,
      collections: 1,
      points: 20,
    })
    const condition = conditionIn(object, 'RestoreTested')
    t.match(condition, { status: 'True', reason: 'DrillPassed' })
    t.match(condition?.message, '(nodes: 1, collections: 1, points: 20)')
    await untilCleared(world, schedule)
    const sets = await world.list('apps/v1', 'StatefulSet', namespace)
    t.strictSame(
      sets.map(({ metadata }) => metadata.name),
      ['vec-a'],
    )
    const over = scheduleStatus(await world.get(schedule))
    t.strictSame(over.lastDrill, lastDrill)
    t.equal((await backupsOf(world, schedule)).length, 1)
    matchWhole(t, await world.list(API_VERSION, 'VecCluster', namespace), [
      { metadata: { name: 'a' } },
    ])
    const events = await eventsAbout(world, schedule)
    t.match(events, { DrillStarted: backup, DrillPassed: backup })
    await deleted(world, schedule)
  },
}

const fails: Scenario = {
  title: 'a restore drill of a backup with an object of other bytes fails and names the object',
  async run(world, t) {
    const { bucket, reference: schedule, start } = await backedUp(world, 'drill-fails')
    const keys = await bucket.keys()
    const manifest = keys.find((key) => key.endsWith('manifest.json')) ?? ''
    const content = JSON.stringify(await bucket.json(manifest))
    const damaged = keys.find((key) => key.endsWith('.snapshot')) ?? ''
    const size = Number(new RegExp(`"sizeBytes":(\\d+)`).exec(content)?.[1])
    await bucket.put(damaged, 'x'.repeat(size))
    await start()
    const object = await untilDrilled(world, schedule)
    const { result, error = '' } = scheduleStatus(object).lastDrill ?? {}
    t.equal(result, 'Failed')
    t.equal(error, `${damaged} is not the object that was backed up: its bytes differ`)
    t.match(conditionIn(object, 'RestoreTested'), { status: 'False', reason: 'DrillFailed' })
    await untilCleared(world, schedule)
    t.match(await eventsAbout(world, schedule), { DrillFailed: String })
    await deleted(world, schedule)
  },
}

const survives: Scenario = {
  title:
    'a restore drill continues after a restart of the service, with the same objects, and is not repeated',
  disturbs: true,
  async run(world, t, stage) {
    const { namespace, reference: schedule, backup, start } = await backedUp(world, 'drill-restart')
    // Before the drill: it may be over when no other scenario needs the service any more.
    await stage.quiet()
    await start()
    await untilDrill(world, schedule, 'CreatingCluster')
    const before = await world.get(reference(schedule, 'VecCluster'))
    await world.faults.stopService()
    await world.advance(20)
    await world.faults.startService()
    stage.calm()
    await untilDrill(world, schedule, 'Restoring')
    const cluster = await world.get(reference(schedule, 'VecCluster'))
    t.equal(cluster?.metadata.uid, before?.metadata.uid)
    const object = await untilDrilled(world, schedule)
    t.match(scheduleStatus(object).lastDrill, { backupName: backup, result: 'Passed' })
    await untilCleared(world, schedule)
    await world.advance(130)
    t.equal((await world.list(API_VERSION, 'VecCluster', namespace)).length, 1)
    await deleted(world, schedule)
  },
}

const waitsForWindow: Scenario = {
  title:
    'a restore drill waits for the maintenance window of its cluster, says when it begins, and runs in it',
  waits: true,
  async run(world, t) {
    const drilled = await backedUp(world, 'drill-window')
    const { namespace, cluster, reference: schedule, backup, start } = drilled
    const { begin, spec } = windowAfter(world, CLOSED_SECONDS)
    await world.patch(cluster, { spec })
    await start()
    const awaited = `waits for the maintenance window that begins at ${begin.toISOString().slice(0, 19)}Z`
    const isAwaiting = (object: AnyObject | undefined) => {
      const { reason, message } = conditionIn(object, 'RestoreTested') ?? {}
      return reason === 'DrillPending' && (message ?? '').endsWith(awaited)
    }
    await world.waitFor(schedule, awaited, isAwaiting, CLOSED_SECONDS)
    await eventually(world, 'less than a minute is left', () => {
      return begin.getTime() - world.now().getTime() < MINUTE_MS
    })
    const clusters = await world.list(API_VERSION, 'VecCluster', namespace)
    t.strictSame(
      clusters.map(({ metadata }) => metadata.name),
      ['a'],
      'the temporary cluster was not created',
    )
    t.ok(world.now() < begin, 'all of this before the window')

    const { lastDrill } = scheduleStatus(await untilDrilled(world, schedule))
    t.match(lastDrill, { backupName: backup, result: 'Passed', points: 20 })
    t.ok(new Date(lastDrill?.startTime ?? 0) >= begin, 'it started in the window')
    await untilCleared(world, schedule)
    await deleted(world, schedule)
  },
}

const canceled: Scenario = {
  title:
    'a schedule that is deleted during its restore drill takes the temporary cluster and its volumes along',
  async run(world, t) {
    const { namespace, reference: schedule, start } = await backedUp(world, 'drill-deleted')
    await start()
    await untilDrill(world, schedule, 'Restoring')
    await world.delete(schedule)
    await untilGone(world, schedule, 900)
    await untilGone(world, reference(schedule, 'VecCluster'), 900)
    await eventually(world, 'the volumes are gone', async () => {
      const claims = await world.list('v1', 'PersistentVolumeClaim', namespace)
      return claims.length === 2
    })
    t.strictSame(await world.list(API_VERSION, 'VecRestore', namespace), [])
  },
}

export const drillScenarios: readonly Scenario[] = [
  waitsForWindow,
  survives,
  passes,
  fails,
  canceled,
]
