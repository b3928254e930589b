/** The lives of the seven kinds, each in the smallest world that shows all of its phases. */
import { accessKeyRoom } from '../../hooks/access-key/index.ts'
import { backupRoom } from '../../hooks/backup/index.ts'
import { backupScheduleRoom } from '../../hooks/backup-schedule/index.ts'
import { clusterRoom } from '../../hooks/cluster/index.ts'
import { migrationRoom } from '../../hooks/migration/index.ts'
import { runOf } from '../../hooks/job.ts'
import { restoreRoom } from '../../hooks/restore/index.ts'
import { LABELS, releaseName } from '../../crds/names.ts'
import { statefulSet } from '../builders.ts'
import { collection } from './collection.ts'
import type { Work } from './jobs.ts'
import type { Life } from './life.ts'
import { portsOver } from './ports.ts'
import { bucketSecret, CONTENT, runningCluster, stored } from './resources.ts'
import { create, remove, smallWorld, type Small, type SmallWorld } from './small-world.ts'
import { comes, goes } from './steps.ts'
import type { Step } from './explore.ts'

const ENDED = ['Completed', 'Failed']

const cluster: Life = {
  start: smallWorld([stored('VecCluster', 'a', { version: '1.18.3' })]),
  parent: 'VecCluster/a',
  room: (world) => clusterRoom(portsOver(world)),
  rest: ['Running'],
  work: helmWork,
}

const backup: Life = {
  start: smallWorld([stored('VecBackup', 'one', CONTENT), bucketSecret()]),
  parent: 'VecBackup/one',
  room: (world) => backupRoom(portsOver(world)),
  rest: ENDED,
  final: ENDED,
  work: () => ({}),
  more: (world) => comes(world, runningCluster('a')),
}

const restore: Life = {
  start: smallWorld([
    stored('VecRestore', 'back', {
      backupRef: { name: 'one' },
      targetClusterRef: { name: 'a' },
    }),
    stored('VecBackup', 'one', CONTENT, { phase: 'Completed' }),
    bucketSecret(),
  ]),
  parent: 'VecRestore/back',
  room: (world) => restoreRoom(portsOver(world)),
  rest: ENDED,
  final: ENDED,
  work: () => ({}),
  more: (world) => comes(world, runningCluster('a')),
}

const migration: Life = {
  start: smallWorld([
    stored('VecMigration', 'copy', {
      source: { clusterRef: { name: 'b' } },
      targetClusterRef: { name: 'a' },
    }),
    runningCluster('b'),
  ]),
  parent: 'VecMigration/copy',
  room: (world) => migrationRoom(portsOver(world)),
  rest: ENDED,
  final: ENDED,
  work: () => ({}),
  more: (world) => comes(world, runningCluster('a')),
}

const accessKey: Life = {
  start: smallWorld([
    stored('VecAccessKey', 'reader', { clusterRef: { name: 'a' }, access: 'r', ttl: '1h' }),
    stored('VecCluster', 'a', {
      version: '1.18.3',
      apiKey: { autoGenerate: true, jwtRbac: true },
    }),
  ]),
  parent: 'VecAccessKey/reader',
  room: (world) => accessKeyRoom(portsOver(world)),
  rest: ['Ready'],
  inPlace: ['Secret'],
  isTimed: true,
  more: (world) => [...comes(world, KEY), ...goes(world, 'Secret/reader')],
}

const KEY = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'vec-a-apikey' },
  data: { 'api-key': 'a2V5a2V5a2V5' },
} as const

const schedule: Life = {
  start: smallWorld([
    stored('VecBackupSchedule', 'often', {
      ...CONTENT,
      schedule: '*/10 * * * *',
      retentionPolicy: { keepLast: 1 },
    }),
  ]),
  parent: 'VecBackupSchedule/often',
  room: (world) => backupScheduleRoom(portsOver(world)),
  rest: ['Active'],
  inPlace: ['VecBackup'],
  isTimed: true,
  most: 4,
  more: backupsEnd,
}

export const LIVES: Record<string, Life> = {
  VecCluster: cluster,
  VecCollection: collection('Delete'),
  'VecCollection that stays': collection('Retain'),
  VecAccessKey: accessKey,
  VecBackup: backup,
  VecBackupSchedule: schedule,
  VecRestore: restore,
  VecMigration: migration,
}

/** helm makes the StatefulSet, or takes it away, and the report says what was applied. */
function helmWork(...[world, job, state]: Parameters<Work>): ReturnType<Work> {
  if (state === 'Failed') return { reason: 'HelmFailed', message: 'helm said no' }
  const set = statefulSet() as unknown as Small
  if (job.metadata.labels?.[LABELS.verb] === 'uninstall') {
    remove(world, `StatefulSet/${releaseName('a')}`)
    return {}
  }
  create(world, set)
  return {
    applied: {
      planHash: job.metadata.annotations?.['vec-operator.dev/plan'] ?? '',
      generation: 1,
      secretFingerprints: {},
      version: '1.18.3',
      run: runOf(job),
      at: new Date(world.now).toISOString(),
      statefulSetGeneration: 1,
    },
  }
}

/** The backups of a schedule end, one way or the other, and go once they are deleted. */
function backupsEnd({ live }: SmallWorld): Step<SmallWorld>[] {
  return Object.entries(live)
    .filter(([, { kind }]) => kind === 'VecBackup')
    .flatMap(([key, { status }]) => {
      if (status !== undefined) return []
      return ENDED.map((phase) => ({
        name: `${key} is ${phase}`,
        take: async (to: SmallWorld) => {
          const found = to.live[key]
          const completionTime = new Date(to.now).toISOString()
          if (found !== undefined) found.status = { phase, completionTime }
        },
      }))
    })
}
