/** What becomes of the backups of a schedule: their turns, their retention, and their objects. */
import {
  backupResource,
  backupStatus,
  deleted,
  engineFiles,
  eventually,
  filledCluster,
  heldUpload,
  isUpload,
  scheduleStatus,
  uploads,
  verify,
} from './backup-parts.ts'
import { backupsOf } from './backup-schedule.ts'
import { eventsAbout, type Scenario } from './scenario.ts'

const sameSlot: Scenario = {
  title:
    'two schedules on one slot: both backups are made, one after the other, and both are whole',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'same-slot')
    const schedules = ['one', 'two'].map((name) =>
      backupResource('VecBackupSchedule', { namespace, name }, bucket),
    )
    for (const { of } of schedules) await world.apply(of({ schedule: '* * * * *' }))
    const firsts = async () =>
      Promise.all(schedules.map(async ({ reference }) => (await backupsOf(world, reference))[0]))
    await eventually(world, 'both have a backup that is completed', async () =>
      (await firsts()).every((backup) => backup !== undefined && isCompleted(backup)),
    )
    for (const backup of await firsts()) {
      const proof = await verify(bucket, backup?.metadata.name ?? '')
      t.equal(proof.code, 0, proof.output)
    }
    t.ok(Object.values(uploads(bucket)).every((times) => times === 1))
    for (const { reference } of schedules) await deleted(world, reference)
  },
}

const replaced: Scenario = {
  title:
    'Replace stops the backup that runs at the next slot, removes what it wrote, and makes another',
  waits: true,
  // A Job that works until the next slot takes a whole minute of the machine's time.
  only: 'cluster',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'replaced')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    const held = heldUpload(bucket)
    await world.apply(of({ schedule: '* * * * *', concurrencyPolicy: 'Replace' }))
    await eventually(world, 'the first uploads', held.begun)
    const [first] = await backupsOf(world, reference)
    const name = first?.metadata.name ?? ''
    await world.waitFor(
      { ...reference, kind: 'VecBackup', name },
      'gone at the next slot',
      (object) => object === undefined,
      180,
    )
    held.release()
    await eventually(world, 'another is created', async () =>
      (await backupsOf(world, reference)).some((backup) => backup.metadata.name !== name),
    )
    // On a busy machine a backup may take longer than a minute, and would be replaced again and again.
    await world.patch(reference, { spec: { concurrencyPolicy: 'Forbid' } })
    await eventually(world, 'another is completed', async () =>
      (await backupsOf(world, reference)).some(isCompleted),
    )
    t.strictSame(await bucket.keys(`${name}/`), [])
    t.strictSame(await engineFiles(world, namespace, 1, 'docs'), [])
    await deleted(world, reference)
  },
}

const pruned: Scenario = {
  title: 'keepLast: older backups are pruned together with their objects, also while suspended',
  waits: true,
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'pruned')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    await world.apply(of({ schedule: '* * * * *' }))
    const finished = async () => (await backupsOf(world, reference)).filter(isCompleted)
    await eventually(world, 'three backups', async () => (await finished()).length >= 3, 400)
    await world.patch(reference, { spec: { suspend: true } })
    await world.waitFor(reference, 'Suspended', (object) => {
      const { phase, activeBackup } = scheduleStatus(object)
      return phase === 'Suspended' && activeBackup === undefined
    })
    const all = (await finished()).map(({ metadata }) => metadata.name)
    await world.patch(reference, { spec: { retentionPolicy: { keepLast: 2 } } })
    await eventually(world, 'two are left', async () => {
      const left = (await finished()).map(({ metadata }) => metadata.name)
      return left.join() === all.slice(-2).join()
    })
    await eventually(world, 'only their objects are left', async () => {
      const folders = (await bucket.keys()).map((key) => key.split('/')[0])
      return [...new Set(folders)].join() === all.slice(-2).join()
    })
    t.match(await eventsAbout(world, reference), { BackupDropped: /no rule of spec/ })
    const object = await world.waitFor(
      reference,
      'reported',
      (found) => scheduleStatus(found).recentBackups?.length === 2,
    )
    t.equal(scheduleStatus(object).lastBackupName, all.at(-1))
    await deleted(world, reference)
  },
}

const newestCompleted: Scenario = {
  title: 'H1: a failed backup never pushes the newest completed one out',
  waits: true,
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'pushed')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    await world.apply(of({ schedule: '* * * * *', retentionPolicy: { keepLast: 1 } }))
    await eventually(world, 'one is completed', async () =>
      (await backupsOf(world, reference)).some(isCompleted),
    )
    // The store is full from now on.
    bucket.misbehave((call) =>
      isUpload(call) ? { status: 507, code: 'InsufficientStorage' } : undefined,
    )
    const failed = async () =>
      (await backupsOf(world, reference)).filter(({ status }) => status?.phase === 'Failed')
    const seen = new Set<string>()
    await eventually(
      world,
      'two have failed, one after the other',
      async () => {
        for (const { metadata } of await failed()) seen.add(metadata.name)
        return seen.size >= 2
      },
      300,
    )
    await eventually(world, 'one of each kind is left', async () => {
      const left = (await backupsOf(world, reference)).filter(
        ({ status }) => status?.completionTime,
      )
      return left.length === 2 && left.some(isCompleted)
    })
    const [error] = (await failed()).map(({ status }) => status?.error)
    t.match(error, /507 InsufficientStorage.*the store is full/)
    t.equal(scheduleStatus(await world.get(reference)).lastBackupStatus, 'Failed')
    bucket.misbehave()
    await deleted(world, reference)
  },
}

const retained: Scenario = {
  title:
    'H2: retain-objects on a schedule stands on each of its backups, and keeps their objects when it goes',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'retains')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    const retain = { 'vec-operator.dev/retain-objects': 'true' }
    await world.apply(of({ schedule: '* * * * *' }, retain))
    await eventually(world, 'one is completed', async () =>
      (await backupsOf(world, reference)).some(isCompleted),
    )
    await world.patch(reference, { spec: { suspend: true } })
    const [backup] = await backupsOf(world, reference)
    t.match(backup?.metadata.annotations, retain)
    const name = backup?.metadata.name ?? ''
    const before = await bucket.keys(`${name}/`)
    t.ok(before.length > 0)
    await world.delete(reference)
    await world.waitFor(
      { ...reference, kind: 'VecBackup', name },
      'gone with its schedule',
      (object) => object === undefined,
      180,
    )
    t.strictSame(await bucket.keys(`${name}/`), before)
  },
}

function isCompleted(backup: Parameters<typeof backupStatus>[0]): boolean {
  return backupStatus(backup).phase === 'Completed'
}

export const backupRetention: Scenario[] = [sameSlot, replaced, pruned, newestCompleted, retained]
