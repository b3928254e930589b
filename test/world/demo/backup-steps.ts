/** The tour, VecBackup and VecBackupSchedule: into the bucket, and out of it again. */
import type { BackupScheduleStatus } from '../../../crds/backup-schedule.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import {
  deleteSample,
  GONE,
  referenceOf,
  sampleOf,
  sampleWith,
  type DemoContext,
  type Step,
} from './step.ts'

export const BACKUP_STEPS: Step[] = [
  {
    says: 'A VecBackup: a Job streams a snapshot of every node into a bucket and reports its progress.',
    types: 'apply -f docs/samples/backup.yaml',
    sample: 'backup',
    act: (context) =>
      context.world.apply(sampleWith(context, 'backup', inBucket(context, 'backup'))),
    phases: ['InProgress', 'Completed'],
    proves: (context) => holds(context, /\/manifest\.json$/, 1),
    needsBucket: true,
    seconds: 300,
  },
]

export const SCHEDULE_STEPS: Step[] = [
  {
    says: 'A VecBackupSchedule: at its slot, here each full minute, it makes a backup named after it.',
    types: 'apply -f docs/samples/backup-schedule.yaml',
    sample: 'backup-schedule',
    act: (context) => context.world.apply(everyMinute(context)),
    phases: ['Active'],
    shows: (object) => scheduleOf(object).lastBackupStatus === 'Completed',
    needsBucket: true,
    seconds: 300,
  },
  {
    says: 'From now on it keeps one: with the next slot the older one goes, together with its objects.',
    types: 'edit vecbackupschedule docs-nightly',
    sample: 'backup-schedule',
    act: (context) =>
      context.world.patch(referenceOf(sampleOf(context, 'backup-schedule')), {
        spec: { retentionPolicy: { keepLast: 1 } },
      }),
    phases: ['Active'],
    shows: (object, before) =>
      scheduleOf(object).lastBackupName !== scheduleOf(before).lastBackupName &&
      scheduleOf(object).recentBackups?.length === 1,
    needsBucket: true,
    seconds: 300,
  },
  {
    says: 'The schedule is deleted, and its backups with it.',
    types: 'delete vecbackupschedule docs-nightly',
    sample: 'backup-schedule',
    act: (context) => deleteSample(context, 'backup-schedule'),
    phases: [GONE],
    needsBucket: true,
    seconds: 180,
  },
]

export const BACKUP_END: Step[] = [
  {
    says: 'The first backup is deleted, and its objects with it.',
    types: 'delete vecbackup docs-before-upgrade',
    sample: 'backup',
    act: (context) => deleteSample(context, 'backup'),
    phases: [GONE],
    proves: (context) => holds(context, /./, 0),
    needsBucket: true,
    seconds: 180,
  },
]

/** A backup at three o'clock at night is too late for a demo. */
function everyMinute(context: DemoContext): AnyObject {
  const sample = 'backup-schedule'
  return sampleWith(context, sample, { ...inBucket(context, sample), schedule: '* * * * *' })
}

/** The storage of a sample, in the bucket of this world. */
function inBucket(context: DemoContext, name: string): object {
  const sample = sampleOf(context, name) as AnyObject & {
    spec: { storage: { s3: { prefix: string } } }
  }
  const s3 = { ...context.bucket?.target, prefix: sample.spec.storage.s3.prefix }
  // The tour ends with an empty bucket; the samples keep what they wrote.
  return { storage: { s3 }, deletionPolicy: 'Delete' }
}

function scheduleOf(object: AnyObject | undefined): BackupScheduleStatus {
  return (object as { status?: BackupScheduleStatus } | undefined)?.status ?? {}
}

/** Backups that are owned go after their owner. */
const GONE_SECONDS = 60

/** This many keys of the bucket match, once pending deletions are done. */
async function holds(
  { bucket, world }: DemoContext,
  pattern: RegExp,
  count: number,
): Promise<string> {
  for (let left = GONE_SECONDS; ; left -= 1) {
    const keys = (await bucket?.keys()) ?? []
    const found = keys.filter((key) => pattern.test(key))
    if (found.length === count) return count === 0 ? 'the bucket is empty' : found.join(', ')
    if (left <= 0) throw new Error(`the bucket still has ${keys.join(', ')}`)
    await world.advance(1)
  }
}
