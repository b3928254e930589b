/** A VecBackupSchedule: which slots it makes backups for, and what it does while one still runs. */
import type { VecBackup } from '../../crds/backup.ts'
import { API_VERSION, LABELS } from '../../crds/contract/names.ts'
import { matchWhole } from '../match-whole.ts'
import type { Reference, World, WorldBucket } from '../world/world.ts'
import {
  backupResource,
  deleted,
  eventually,
  filledCluster,
  said,
  saying,
  scheduleStatus,
  untilEnded,
  untilSaid,
} from './backup-parts.ts'
import { eventsAbout, type Scenario } from './scenario.ts'

const EVERY_MINUTE = '* * * * *'
/** Past the next slot, with a margin for the controller. */
const A_SLOT = 75
const MINUTE_SECONDS = 60

/** Backups of a schedule, oldest slot first. */
export async function backupsOf(world: World, { namespace, name }: Reference) {
  const backups = (await world.list(API_VERSION, 'VecBackup', namespace)) as VecBackup[]
  return backups
    .filter(({ metadata }) => metadata.labels?.[LABELS.schedule] === name)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .sort((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1))
}

/** `2026-11-21T16:30:00Z` of `<schedule>-20261121-163000`. */
export function slotIn({ metadata }: { metadata: { name: string } }): string {
  const [, year, month, day, hour, minute, second] =
    /-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)$/.exec(metadata.name) ?? []
  return `${year}-${month}-${day}T${hour}:${minute}:${second}Z`
}

async function namesOf(world: World, reference: Reference): Promise<string[]> {
  return (await backupsOf(world, reference)).map(({ metadata }) => metadata.name)
}

/** A schedule whose backups wait for a cluster that never comes: they are Pending for good. */
async function waitingSchedule(
  world: World,
  bucket: WorldBucket,
  { namespace, name }: { namespace: string; name: string },
  spec: object = {},
): Promise<Reference> {
  const { reference, of } = backupResource('VecBackupSchedule', { namespace, name }, bucket)
  await world.apply(of({ schedule: EVERY_MINUTE, clusterRef: { name: 'nowhere' }, ...spec }))
  return reference
}

/** Lets time pass to this second of a minute, the present one or the next. */
async function toSecond(world: World, second: number): Promise<void> {
  const left = second - world.now().getUTCSeconds()
  await world.advance((left + MINUTE_SECONDS) % MINUTE_SECONDS)
}

const fires: Scenario = {
  title:
    'at its slot a schedule makes a backup: named after the slot, labelled, owned, with the spec copied',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'fires')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    const s3 = { ...bucket.target, prefix: 'auto' }
    const made = await world.apply(
      of({ schedule: EVERY_MINUTE, storage: { s3 }, collections: ['docs'] }),
    )
    await eventually(world, 'a backup is made', async () => {
      return (await backupsOf(world, reference)).length > 0
    })
    const [backup] = await backupsOf(world, reference)
    if (backup === undefined) throw new Error('there is no backup')
    t.match(backup.metadata.name, /^s-\d{8}-\d{4}00$/)
    const slot = Date.parse(slotIn(backup))
    t.ok(slot > Date.parse(made.metadata.creationTimestamp ?? ''), 'never before it existed')
    t.ok(slot <= Date.parse(backup.metadata.creationTimestamp))
    matchWhole(t, backup.metadata, {
      labels: { 'vec-operator.dev/schedule': 's' },
      ownerReferences: [
        { kind: 'VecBackupSchedule', name: 's', uid: made.metadata.uid, controller: true },
      ],
    })
    matchWhole(t, backup.spec, {
      clusterRef: { name: 'a' },
      storage: { s3 },
      collections: ['docs'],
    })
    const { name } = backup.metadata
    const itself = { ...reference, kind: 'VecBackup', name }
    const ended = await untilEnded(world, itself)
    const object = await world.waitFor(
      reference,
      'the schedule reports the backup',
      (found) => scheduleStatus(found).lastBackupName === name,
    )
    const status = scheduleStatus(object)
    t.match(status, {
      phase: 'Active',
      lastBackupTime: ended.completionTime,
      lastBackupStatus: 'Completed',
    })
    t.match(
      status.recentBackups?.find((recent) => recent.name === name),
      { status: 'Completed', size: ended.totalSize, completionTime: ended.completionTime },
    )
    t.ok(Date.parse(status.nextBackupTime ?? '') > slot)
    t.match(said(object), { status: 'True', reason: 'Scheduled' })
    t.match(await eventsAbout(world, reference), { BackupCreated: /is created for the slot/ })

    await world.delete(reference)
    await world.waitFor(itself, 'gone with its schedule', (found) => found === undefined, 180)
    await eventually(world, 'the objects are gone', async () => {
      return (await bucket.keys()).length === 0
    })
  },
}

const suspended: Scenario = {
  title:
    'suspended, a schedule makes none and keeps lastScheduleTime; on resume it catches up with the latest slot, once',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('suspended')
    const bucket = await world.bucket(namespace)
    const spec = { concurrencyPolicy: 'Allow' }
    const reference = await waitingSchedule(world, bucket, { namespace, name: 's' }, spec)
    await eventually(world, 'the first slot', async () => {
      return (await namesOf(world, reference)).length > 0
    })
    await world.patch(reference, { spec: { suspend: true } })
    const object = await untilSaid(world, reference, 'Suspended')
    const before = await namesOf(world, reference)
    await world.advance(2 * A_SLOT)
    const later = scheduleStatus(await world.get(reference))
    t.equal(later.phase, 'Suspended')
    t.equal(later.lastScheduleTime, scheduleStatus(object).lastScheduleTime)
    t.strictSame(await namesOf(world, reference), before)

    const missed = new Date(world.now()).setUTCSeconds(0, 0)
    await world.patch(reference, { spec: { suspend: false } })
    await eventually(world, 'it catches up', async () => {
      return (await namesOf(world, reference)).length > before.length
    })
    const [caughtUp, ...more] = (await backupsOf(world, reference)).slice(before.length)
    if (caughtUp === undefined) throw new Error('it did not catch up')
    t.strictSame(more, [], 'one for all that were missed')
    t.ok(Date.parse(slotIn(caughtUp)) >= missed, 'for the latest slot that was missed')
    await deleted(world, reference)
  },
}

const concurrency: Scenario = {
  title:
    'while a backup runs: Forbid makes none and says which it waits for, Allow makes the next beside it, Replace in its place',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('concurrency')
    const bucket = await world.bucket(namespace)
    const policies = ['Forbid', 'Allow', 'Replace'] as const
    const [forbid, allow, replace] = await Promise.all(
      policies.map((concurrencyPolicy) =>
        waitingSchedule(
          world,
          bucket,
          { namespace, name: concurrencyPolicy.toLowerCase() },
          { concurrencyPolicy },
        ),
      ),
    )
    if (forbid === undefined || allow === undefined || replace === undefined) throw new Error()
    await eventually(world, 'each has its first', async () => {
      const all = await Promise.all([forbid, allow, replace].map((one) => namesOf(world, one)))
      return all.every((names) => names.length > 0)
    })
    const [replaced = ''] = await namesOf(world, replace)
    const blocked = await untilSaid(world, forbid, 'BackupAlreadyActive')
    const [only = ''] = await namesOf(world, forbid)
    t.match(said(blocked)?.message, `waits for backup ${only}: concurrencyPolicy is Forbid`)
    t.equal(scheduleStatus(blocked).activeBackup, only)
    let replacing: string[] = []
    let mostAtOnce = 0
    await eventually(world, 'the next slot', async () => {
      // Between the deletion of one and the creation of the next there is none.
      replacing = await namesOf(world, replace)
      mostAtOnce = Math.max(mostAtOnce, replacing.length)
      const { length } = await namesOf(world, allow)
      return length > 1 && replacing.length > 0 && !replacing.includes(replaced)
    })
    t.strictSame(await namesOf(world, forbid), [only])
    t.equal(mostAtOnce, 1, 'in its place')
    t.match(await eventsAbout(world, replace), { BackupDropped: /replaced at the slot/ })
    for (const reference of [forbid, allow, replace]) await deleted(world, reference)
  },
}

const deadline: Scenario = {
  title:
    'startingDeadlineSeconds: a slot missed by more is skipped, and said so; the next one fires',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('deadline')
    const bucket = await world.bucket(namespace)
    const reference = await waitingSchedule(
      world,
      bucket,
      { namespace, name: 's' },
      { suspend: true, startingDeadlineSeconds: 25 },
    )
    const made = await untilSaid(world, reference, 'Suspended')
    t.equal(scheduleStatus(made).nextBackupTime, undefined)
    await world.advance(A_SLOT)
    // Well past a slot, well before the one after it.
    await toSecond(world, 35)
    const object = await world.waitForPassing(reference, saying('SlotMissed'), () =>
      world.patch(reference, { spec: { suspend: false } }),
    )
    const [, slot = ''] = /^the slot (\S+:00Z) was skipped/.exec(said(object)?.message ?? '') ?? []
    t.ok(slot > (made?.metadata.creationTimestamp ?? ''), 'not one before it existed')
    t.strictSame(await namesOf(world, reference), [])
    t.match(await eventsAbout(world, reference), { SlotMissed: /was skipped/ })
    await eventually(world, 'the next slot fires', async () => {
      return (await namesOf(world, reference)).length === 1
    })
    // On a busy machine that one may be late by more than the deadline as well: then it is skipped too.
    const slots = (await backupsOf(world, reference)).map(slotIn)
    t.ok(slots.every((later) => later > slot))
    await deleted(world, reference)
  },
}

const badExpression: Scenario = {
  title:
    'a bad cron expression is rejected, or is a condition with the error of the parser; once corrected, the schedule continues',
  async run(world, t) {
    const namespace = await world.namespace('expression')
    const bucket = await world.bucket(namespace)
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    const spec = { clusterRef: { name: 'nowhere' } }
    for (const schedule of ['61 * * * *', '* * * *', 'H * * * *', '@daily', '* * * * * *']) {
      await t.rejects(world.apply(of({ ...spec, schedule })), /cron expression of five fields/)
    }
    await world.apply(of({ ...spec, schedule: '0 0 30 2 *' }))
    const object = await untilSaid(world, reference, 'InvalidSchedule')
    t.match(said(object), { status: 'False', message: /^spec\.schedule: / })
    t.equal(scheduleStatus(object).nextBackupTime, undefined)
    t.match(await eventsAbout(world, reference), { InvalidSchedule: /spec\.schedule/ })
    await world.waitForPassing(reference, saying('Scheduled'), () =>
      world.apply(of({ ...spec, schedule: EVERY_MINUTE })),
    )
    await eventually(world, 'a slot fires', async () => {
      return (await namesOf(world, reference)).length > 0
    })
    await deleted(world, reference)
  },
}

const restarted: Scenario = {
  title:
    'the service down over slots and restarted in the middle of one: one catch-up, never two backups for a slot',
  disturbs: true,
  async run(world, t, stage) {
    const namespace = await world.namespace('restarted')
    const bucket = await world.bucket(namespace)
    const spec = { concurrencyPolicy: 'Allow' }
    const reference = await waitingSchedule(world, bucket, { namespace, name: 's' }, spec)
    await eventually(world, 'the first slot', async () => {
      return (await namesOf(world, reference)).length > 0
    })
    await stage.quiet()
    // Away from shortly before a slot until shortly after the next one.
    await toSecond(world, 50)
    await world.faults.stopService()
    const before = await namesOf(world, reference)
    await toSecond(world, 59)
    await world.advance(MINUTE_SECONDS + 10)
    t.strictSame(await namesOf(world, reference), before)
    await world.faults.startService()
    stage.calm()
    await eventually(
      world,
      'it catches up',
      async () => (await namesOf(world, reference)).length > before.length,
      300,
    )
    await world.advance(A_SLOT)
    const after = await backupsOf(world, reference)
    const slots = after.map((backup) => Date.parse(slotIn(backup)))
    t.equal(new Set(slots).size, slots.length)
    const [last = 0, caughtUp = 0] = slots.slice(before.length - 1)
    t.ok(caughtUp - last >= 120_000, 'the slots in between are not made up for')
    await deleted(world, reference)
  },
}

export const backupSchedule: Scenario[] = [
  fires,
  suspended,
  concurrency,
  deadline,
  badExpression,
  restarted,
]
