/** The lives of the kinds with data jobs: VecBackup, VecRestore and VecMigration. */
import { PURGE_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { backupHooks } from '../../hooks/backup/index.ts'
import { isUnfinished } from '../../hooks/request.ts'
import { migrationHooks } from '../../hooks/migration/index.ts'
import { restoreHooks } from '../../hooks/restore/index.ts'
import type { Step } from './explore.ts'
import type { Work } from './jobs.ts'
import type { Life } from './life.ts'
import { anotherMigration, anotherWith, reader } from './others.ts'
import { portsOver } from './ports.ts'
import { phaseIn } from './promises.ts'
import { bucketSecret, CONTENT, runningCluster, stored } from './resources.ts'
import { ownJobs, smallWorld, unfinished, type SmallWorld } from './small-world.ts'
import { comes, edited, goes, namespaceEnds, striking } from './steps.ts'

type Left = Record<string, number>

const ENDED = { rest: ['Completed', 'Failed'], final: ['Completed', 'Failed'] }
const CLUSTER = runningCluster('a')

/** The worlds that the three kinds have in common. */
function everyDataJob(life: (left: Left) => Life): Record<string, Life> {
  return {
    'one life': life({ deletions: 1 }),
    'its Job fails': life({ failures: 1, crashes: 1, stops: 1, silences: 1 }),
    'lost answers': life({ deletions: 1, 'lost answers': 1 }),
    'a slow answer': life({ deletions: 1, 'slow answers': 1 }),
    'two services': life({ 'slow services': 1 }),
    'two services, and its deletion': life({ 'slow services': 1, deletions: 1 }),
  }
}

const BACKUP = 'VecBackup/one'

export function backups(): Record<string, Life> {
  const life = (
    left: Left,
    more: NonNullable<Life['more']> = () => [],
    content: object = CONTENT,
  ): Life => ({
    ...ENDED,
    start: smallWorld([stored('VecBackup', 'one', content), bucketSecret()], left),
    parent: BACKUP,
    hooks: (world) => backupHooks(portsOver(world)),
    work: fillsBucket,
    wrong: wrongInBucket,
    more: (world) => [...comes(world, CLUSTER), ...more(world)],
  })
  return {
    ...everyDataJob(life),
    'others in progress': life(
      { starts: 1, deletions: 1 },
      anotherWith(['backup', 'write'], 'VecRestore'),
    ),
    'two services, and a restore': life(
      { 'slow services': 1, starts: 1 },
      anotherWith(['backup', 'write'], 'VecRestore'),
    ),
    'another backup': life({ starts: 2 }, anotherWith(['backup'], 'VecBackup')),
    'its dependencies are deleted': life({ losses: 2 }, (world) => [
      ...comes(world, bucketSecret()),
      ...goes(world, 'Secret/bucket'),
      ...goes(world, 'VecCluster/a'),
    ]),
    'it expires': life({}, undefined, { ...CONTENT, retentionDays: 1 }),
    'its objects are read': life({ starts: 1, deletions: 1 }, (world) => reader(world, BACKUP)),
    'the bucket is unavailable': life({ aways: 1, deletions: 1 }, storeGoesAway),
    'its objects are retained': life({ annotations: 1, deletions: 1 }, (world) =>
      striking(
        world,
        'annotations',
        edited('its objects must be retained', BACKUP, { annotations: RETAIN }),
      ),
    ),
    'its namespace ends': life({ ends: 1 }, (world) => namespaceEnds(world, BACKUP)),
    'its namespace ends, and its objects must be deleted': life(
      { ends: 1, aways: 1 },
      (world) => [...namespaceEnds(world, BACKUP), ...storeGoesAway(world)],
      { ...CONTENT, deletionPolicy: 'Delete' },
    ),
  }
}

const RESTORE = { backupRef: { name: 'one' }, targetClusterRef: { name: 'a' } }

export function restores(): Record<string, Life> {
  const parent = 'VecRestore/back'
  const life = (
    left: Left,
    more: NonNullable<Life['more']> = () => [],
    phase = 'Completed',
  ): Life => ({
    ...ENDED,
    start: smallWorld(
      [
        stored('VecRestore', 'back', RESTORE),
        stored('VecBackup', 'one', CONTENT, { phase }),
        bucketSecret(),
      ],
      left,
    ),
    parent,
    hooks: (world) => restoreHooks(portsOver(world)),
    work: () => ({}),
    more: (world) => [...comes(world, CLUSTER), ...more(world)],
  })
  return {
    ...everyDataJob(life),
    'others in progress': life(
      { starts: 1, deletions: 1 },
      anotherWith(['backup', 'write'], 'VecRestore'),
    ),
    'a backup in progress': life({ starts: 2 }, anotherWith(['backup'], 'VecBackup')),
    'two services, and another restore': life(
      { 'slow services': 1, starts: 1 },
      anotherWith(['backup', 'write'], 'VecRestore'),
    ),
    'a migration in progress': life({ starts: 1, deletions: 1 }, anotherMigration),
    'its backup is not complete': life({ failures: 1, losses: 1 }, backupEnds, 'InProgress'),
    'its cluster is deleted': life({ losses: 2 }, (world) => goes(world, 'VecCluster/a')),
  }
}

export function migrations(): Record<string, Life> {
  const parent = 'VecMigration/copy'
  const spec = { source: { clusterRef: { name: 'b' } }, targetClusterRef: { name: 'a' } }
  const life = (left: Left, more: NonNullable<Life['more']> = () => []): Life => ({
    ...ENDED,
    start: smallWorld([stored('VecMigration', 'copy', spec), runningCluster('b')], left),
    parent,
    hooks: (world) => migrationHooks(portsOver(world)),
    work: () => ({}),
    more: (world) => [...comes(world, CLUSTER), ...more(world)],
  })
  return {
    ...everyDataJob(life),
    'others in progress': life(
      { starts: 2, deletions: 1 },
      anotherWith(['backup', 'write'], 'VecRestore'),
    ),
    'its clusters are deleted': life({ losses: 2 }, (world) => [
      ...comes(world, runningCluster('b')),
      ...goes(world, 'VecCluster/a'),
      ...goes(world, 'VecCluster/b'),
    ]),
    'its target is unavailable': life({ aways: 2, deletions: 1 }, engineGoesAway),
  }
}

/** A Job reports before it writes. With two batches, the purge can be interrupted between them. */
function fillsBucket(...[world, , state]: Parameters<Work>): ReturnType<Work> {
  if (state === 'Started') world.bucket.batches = 2
  return {}
}

const RETAIN = { [ANNOTATIONS.retainObjects]: 'true' }

/** Objects remain only if they must be retained or cannot be deleted, and none is deleted while a Job works on it. */
function wrongInBucket(before: SmallWorld, after: SmallWorld): string[] {
  const { live, seen, now } = before
  const isGone = live[BACKUP] !== undefined && after.live[BACKUP] === undefined
  const isRetained = [live, seen].some(
    (objects) => objects[BACKUP]?.metadata.annotations?.[ANNOTATIONS.retainObjects] === 'true',
  )
  const { deletionTimestamp = '' } = live[BACKUP]?.metadata ?? {}
  const isAbandoned =
    before.namespaceEnds && now - Date.parse(deletionTimestamp) >= PURGE_TIMEOUT_SECONDS * 1000
  const isLocked = live['Secret/bucket'] === undefined
  const { deletionPolicy } = ((live[BACKUP] ?? seen[BACKUP])?.spec ?? {}) as {
    deletionPolicy?: string
  }
  const isNamespaceDeleted = before.namespaceEnds && deletionPolicy !== 'Delete'
  const mayRemain = isRetained || isAbandoned || isLocked || isNamespaceDeleted
  const isLeft = isGone && after.bucket.batches > 0 && !mayRemain
  const isEmptied = after.bucket.batches < before.bucket.batches
  const atWork = 'VecRestore/reader' in live ? unfinished(before) : ownJobs(before, BACKUP)
  const isRead = isEmptied && atWork.some(isUnfinished)
  return [
    ...(isLeft ? ['the backup is gone and its objects remain'] : []),
    ...(isEmptied && isNamespaceDeleted ? ['its namespace ends and its objects are deleted'] : []),
    ...(isRead ? ['its objects are deleted while a Job works on them'] : []),
  ]
}

function storeGoesAway(world: SmallWorld): Step<SmallWorld>[] {
  const toggle = (name: string) => ({
    name,
    take: async (to: SmallWorld) => void (to.bucket.isAway = !to.bucket.isAway),
  })
  return world.bucket.isAway
    ? [toggle('the store is back')]
    : striking(world, 'aways', toggle('the store is away'))
}

function engineGoesAway(world: SmallWorld): Step<SmallWorld>[] {
  const toggle = (name: string) => ({
    name,
    take: async (to: SmallWorld) => void (to.engine.isReady = !to.engine.isReady),
  })
  return world.engine.isReady
    ? striking(world, 'aways', toggle('the engine is away'))
    : [toggle('the engine is back')]
}

function backupEnds(world: SmallWorld): Step<SmallWorld>[] {
  const to = (phase: string) => edited(`the backup is ${phase}`, BACKUP, { status: { phase } })
  const isOpen = phaseIn(world, BACKUP) === 'InProgress'
  return [
    ...(isOpen ? [to('Completed'), ...striking(world, 'failures', to('Failed'))] : []),
    ...goes(world, BACKUP),
    ...comes(world, stored('VecBackup', 'one', CONTENT, { phase: 'Completed' })),
  ]
}
