/** The life of a VecBackupSchedule: a backup every ten minutes; retention never deletes the newest complete one. */
import { VecBackup } from '../../crds/backup.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { backupScheduleHooks } from '../../hooks/backup-schedule/index.ts'
import type { Step } from './explore.ts'
import type { Life } from './life.ts'
import { portsOver } from './ports.ts'
import { CONTENT, stored } from './resources.ts'
import {
  at,
  beginEnd,
  edit,
  objects,
  remove,
  smallWorld,
  type Small,
  type SmallWorld,
} from './small-world.ts'
import { edited, striking } from './steps.ts'

const PARENT = 'VecBackupSchedule/often'
const SPEC = { ...CONTENT, schedule: '*/10 * * * *', retentionPolicy: { keepLast: 1 } }
type Policy = 'Allow' | 'Forbid' | 'Replace'

export function schedules(): Record<string, Life> {
  const life = (
    concurrencyPolicy: Policy,
    left: Record<string, number>,
    more: NonNullable<Life['more']> = () => [],
  ): Life => ({
    start: smallWorld([stored('VecBackupSchedule', 'often', { ...SPEC, concurrencyPolicy })], left),
    parent: PARENT,
    hooks: (world) => backupScheduleHooks(portsOver(world)),
    rest: ['Active', 'Suspended'],
    wrong: (before, after) => wrongBackups(before, after, concurrencyPolicy),
    more: (world) => [...backupsEnd(world), ...more(world)],
  })
  return {
    'one life': life('Forbid', { time: 3, deletions: 1 }),
    'failed backups': life('Forbid', { time: 4, failures: 2 }),
    'lost answers': life('Forbid', { time: 3, 'lost answers': 1, failures: 1 }),
    'a slow answer': life('Forbid', { time: 2, 'slow answers': 1, deletions: 1 }),
    'two services': life('Forbid', { time: 2, 'slow services': 1, deletions: 1 }),
    Replace: life('Replace', { time: 3, deletions: 1, failures: 1 }),
    Allow: life('Allow', { time: 3, failures: 1, deletions: 1 }),
    'another spec': life('Forbid', { time: 3, changes: 1, deletions: 1 }, changes),
    'objects are retained': life('Forbid', { time: 2, annotations: 1, deletions: 1 }, (world) =>
      striking(
        world,
        'annotations',
        edited('objects must be retained', PARENT, { annotations: RETAIN }),
      ),
    ),
  }
}

const RETAIN = { [ANNOTATIONS.retainObjects]: 'true' }

function changes(world: SmallWorld): Step<SmallWorld>[] {
  const [backup] = backupsIn(world.live)
  const key = `${VecBackup.kind}/${backup?.metadata.name}`
  return striking(
    world,
    'changes',
    edited('it is suspended', PARENT, { spec: { suspend: true } }),
    edited('it is resumed', PARENT, { spec: { suspend: false } }),
    edited('retention is unlimited', PARENT, { spec: { retentionPolicy: {} } }),
    ...(backup === undefined
      ? []
      : [{ name: `${key} is deleted`, take: async (to: SmallWorld) => beginEnd(to, key) }]),
  )
}

/** A backup completes or fails, and disappears after its deletion. */
function backupsEnd(world: SmallWorld): Step<SmallWorld>[] {
  return backupsIn(world.live).flatMap(({ metadata, status }) => {
    const { name, deletionTimestamp } = metadata
    const key = `${VecBackup.kind}/${name}`
    const end = (phase: string): Step<SmallWorld> => ({
      name: `${name} is ${phase}`,
      take: async (to) =>
        edit(to, key, (found) => ({ ...found, status: { phase, completionTime: at(to) } })),
    })
    return [
      ...(status === undefined
        ? [end('Completed'), ...striking(world, 'failures', end('Failed'))]
        : []),
      ...(deletionTimestamp === undefined
        ? []
        : [{ name: `${name} is gone`, take: async (to: SmallWorld) => remove(to, key) }]),
    ]
  })
}

function wrongBackups(before: SmallWorld, after: SmallWorld, policy: Policy): string[] {
  const schedule = after.live[PARENT]
  const earlier = backupsIn(before.live)
  if (schedule === undefined) return bare(before, earlier)
  const names = new Set(earlier.map(({ metadata }) => metadata.name))
  const made = backupsIn(after.live).filter(({ metadata }) => !names.has(metadata.name))
  const known = [...names, ...lastSlot(before)].sort().at(-1) ?? ''
  const active = backupsIn(after.live).filter(isActive)
  const newest = earlier.filter(isComplete).at(-1)
  const isPruned =
    before.left['changes'] === after.left['changes'] &&
    newest !== undefined &&
    after.live[`${VecBackup.kind}/${newest.metadata.name}`]?.metadata.deletionTimestamp !==
      undefined
  return [
    ...made
      .filter(({ metadata }) => metadata.name <= known)
      .map(({ metadata }) => `${metadata.name} is created after ${known}`),
    ...(made.length > 0 && policy !== 'Allow' && active.length > 1
      ? ['two backups run at once']
      : []),
    ...(isPruned ? [`${newest.metadata.name} is deleted, and is the newest complete one`] : []),
  ]
}

/** The last slot, as the name of its backup. */
function lastSlot({ live }: SmallWorld): string[] {
  const { lastScheduleTime } = (live[PARENT]?.status ?? {}) as { lastScheduleTime?: string }
  if (lastScheduleTime === undefined) return []
  return [`often-${lastScheduleTime.replaceAll(/[-:Z]/g, '').replace('T', '-')}`]
}

/** The schedule is gone and its objects must be retained: backups that do not retain theirs. */
function bare({ live, seen }: SmallWorld, backups: Small[]): string[] {
  const isRetained = ({ metadata }: Small) =>
    metadata.annotations?.[ANNOTATIONS.retainObjects] === 'true'
  const schedule = seen[PARENT]
  if (live[PARENT] === undefined || schedule === undefined || !isRetained(schedule)) return []
  return backups
    .filter((backup) => backup.metadata.deletionTimestamp === undefined && !isRetained(backup))
    .map(({ metadata }) => `${metadata.name} is deleted with its objects`)
}

/** The backups, ordered by slot. */
function backupsIn(from: SmallWorld['live']): Small[] {
  return objects<Small>(from, VecBackup.kind).sort((one, other) =>
    one.metadata.name < other.metadata.name ? -1 : 1,
  )
}

function isActive({ metadata, status }: Small): boolean {
  return metadata.deletionTimestamp === undefined && status === undefined
}

function isComplete({ metadata, status }: Small): boolean {
  const { phase } = (status ?? {}) as { phase?: string }
  return metadata.deletionTimestamp === undefined && phase === 'Completed'
}
