/** Side by side with real CronJobs: the slots of a VecBackupSchedule are the slots they choose. */
import { isDeepStrictEqual } from 'node:util'
import type { Reference, World } from '../world/world.ts'
import { backupResource, deleted } from './backup-parts.ts'
import { backupsOf, slotIn } from './backup-schedule.ts'
import type { Scenario } from './scenario.ts'

/** What both have in their spec, and whether it is suspended over the first slots. */
const PAIRS: Record<string, { spec: object; isLate?: true }> = {
  allow: { spec: { schedule: '* * * * *', concurrencyPolicy: 'Allow' } },
  second: { spec: { schedule: '*/2 * * * *', concurrencyPolicy: 'Allow' } },
  never: { spec: { schedule: '59 23 31 12 *', concurrencyPolicy: 'Allow' } },
  forbid: { spec: { schedule: '* * * * *', concurrencyPolicy: 'Forbid' } },
  replace: { spec: { schedule: '* * * * *', concurrencyPolicy: 'Replace' } },
  resumed: { spec: { schedule: '* * * * *', concurrencyPolicy: 'Allow' }, isLate: true },
  skipped: {
    spec: { schedule: '* * * * *', concurrencyPolicy: 'Allow', startingDeadlineSeconds: 25 },
    isLate: true,
  },
}

function cronJob(namespace: string, name: string, spec: object): object {
  const container = { name: 'none', image: 'none' }
  return {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { namespace, name },
    spec: {
      ...spec,
      timeZone: 'Etc/UTC',
      // It never ends, as our backups that wait for a cluster.
      jobTemplate: {
        spec: {
          suspend: true,
          template: { spec: { restartPolicy: 'Never', containers: [container] } },
        },
      },
    },
  }
}

/** Slots of the Jobs a CronJob has: their names end with the minutes since 1970. */
async function slotsOfCronJob(world: World, { namespace, name }: Reference): Promise<string[]> {
  const jobs = await world.list('batch/v1', 'Job', namespace)
  return jobs
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.name === name))
    .map(({ metadata }) => Number(metadata.name.split('-').at(-1)) * 60_000)
    .map((time) => new Date(time).toISOString().replace('.000', ''))
    .sort()
}

async function slotsOfSchedule(world: World, reference: Reference): Promise<string[]> {
  return (await backupsOf(world, reference)).map(slotIn)
}

/** No slot is near: both sides have seen the last one, and neither the next. */
async function midMinute(world: World): Promise<void> {
  do await world.advance(1)
  while (Math.abs(new Date().getUTCSeconds() - 35) > 5)
}

/** Either controller may be late on a busy machine; by the second read both have created their slot. */
async function lookAtBoth(world: World, pairs: Pair[], looks = 3): Promise<Look[]> {
  await midMinute(world)
  const seen = await Promise.all(
    pairs.map(async ({ name, reference, cron }) => ({
      name,
      ours: await slotsOfSchedule(world, reference),
      theirs: await slotsOfCronJob(world, cron),
    })),
  )
  const areAlike = seen.every(({ ours, theirs }) => isDeepStrictEqual(ours, theirs))
  if (areAlike || looks === 1) return seen
  await world.advance(20)
  return lookAtBoth(world, pairs, looks - 1)
}

interface Pair {
  name: string
  reference: Reference
  cron: Reference
}

interface Look {
  name: string
  ours: string[]
  theirs: string[]
}

const sideBySide: Scenario = {
  title: 'our slots are the slots CronJob chooses',
  waits: true,
  // Only there is a real controller-manager.
  only: 'cluster',
  async run(world, t) {
    const namespace = await world.namespace('cron')
    const bucket = await world.bucket(namespace)
    const pairs = Object.entries(PAIRS).map(([name, { spec, isLate = false }]) => {
      const { reference, of } = backupResource('VecBackupSchedule', { namespace, name }, bucket)
      const cron = { ...reference, apiVersion: 'batch/v1', kind: 'CronJob' }
      const ours = { ...spec, suspend: isLate, clusterRef: { name: 'nowhere' } }
      return { name, reference, cron, isLate, both: { ...spec, suspend: isLate }, ours: of(ours) }
    })
    await midMinute(world)
    for (const { name, both, ours } of pairs) {
      await world.apply(cronJob(namespace, name, both))
      await world.apply(ours)
    }
    await world.advance(120)
    await midMinute(world)
    for (const { reference, cron, isLate } of pairs) {
      if (!isLate) continue
      for (const one of [cron, reference]) await world.patch(one, { spec: { suspend: false } })
    }
    await world.advance(70)
    for (const { name, ours, theirs } of await lookAtBoth(world, pairs)) {
      t.equal(theirs.length > 0, name !== 'never', `CronJob ${name}: ${theirs.join(' ')}`)
      t.strictSame(ours, theirs, name)
    }
    for (const { reference, cron } of pairs) {
      await world.delete(cron)
      await deleted(world, reference)
    }
  },
}

export const backupCron: Scenario[] = [sideBySide]
