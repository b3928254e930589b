/** Schedules and backups for the tests of these hooks, and hooks that read them live. */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupScheduleSpec, VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import type { VecRestore } from '../../../crds/restore.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { BACKUP_CHILD_KIND, backupName } from '../../../hooks/backup-schedule/backups.ts'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import type { BackupSchedulePorts } from '../../../hooks/backup-schedule/observe.ts'
import type { BackupsToRestore } from '../../../hooks/backup/deletion-policy.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import type { Desired, HookRequest } from '../../../hooks/protocol.ts'
import { settings } from '../../builders.ts'
import { groupObjects } from '../request.ts'

type Status = NonNullable<VecBackupSchedule['status']>

export interface ScheduleOverrides {
  spec?: Partial<BackupScheduleSpec>
  status?: Status
  createdAt?: string
  annotations?: Record<string, string>
  deletionTimestamp?: string
}

const backupSpec = {
  ...{ method: 'Node' as const, parallelism: 2 },
  clusterRef: { name: 'a' },
  storage: {
    s3: {
      bucket: 'b',
      prefix: 'p',
      region: 'us-east-1',
      forcePathStyle: false,
      credentialsSecretRef: {
        name: 'keys',
        accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
        secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
      },
    },
  },
}

/** Daily at three, made long ago, with nothing done yet. */
export function schedule(overrides: ScheduleOverrides = {}): VecBackupSchedule {
  const {
    spec,
    status,
    createdAt = '2026-02-01T00:00:00Z',
    annotations,
    deletionTimestamp,
  } = overrides
  return {
    apiVersion: API_VERSION,
    kind: 'VecBackupSchedule',
    metadata: {
      name: 'nightly',
      namespace: 'ns',
      uid: 'uid-nightly',
      generation: 1,
      creationTimestamp: createdAt,
      ...(annotations !== undefined && { annotations }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: {
      schedule: '0 3 * * *',
      ...backupSpec,
      suspend: false,
      concurrencyPolicy: 'Forbid',
      ...spec,
    },
    ...(status !== undefined && { status }),
  }
}

export interface BackupOverrides {
  phase?: 'Pending' | 'InProgress' | 'Completed' | 'Failed'
  retain?: string
  deletionTimestamp?: string
}

/** The backup of a slot, as the API shows it. */
export function backup(
  slot: string,
  overrides: BackupOverrides = { phase: 'Completed' },
): VecBackup {
  const { phase, retain, deletionTimestamp } = overrides
  const name = backupName('nightly', new Date(slot))
  const isFinished = phase === 'Completed' || phase === 'Failed'
  return {
    apiVersion: API_VERSION,
    kind: 'VecBackup',
    metadata: {
      name,
      namespace: 'ns',
      uid: `uid-${name}`,
      resourceVersion: '7',
      generation: 1,
      creationTimestamp: slot,
      labels: { [LABELS.schedule]: 'nightly', 'controller-uid': 'uid-nightly' },
      ...(retain !== undefined && { annotations: { [ANNOTATIONS.retainObjects]: retain } }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: backupSpec,
    ...(phase !== undefined && {
      status: { phase, ...(isFinished && { completionTime: slot, totalSize: '1.4 GiB' }) },
    }),
  }
}

export interface ScheduleFixture {
  schedule: VecBackupSchedule
  /** As Metacontroller shows them. */
  children: VecBackup[]
  /** The objects of a restore drill in its cache. */
  drill?: (VecCluster | VecRestore)[]
  /** The cluster of the backups. */
  related?: object[]
  /** What is read live, where it differs. */
  live?: {
    schedule?: VecBackupSchedule | undefined
    backups?: VecBackup[]
    others?: VecBackup[]
    drill?: (VecCluster | VecRestore)[]
    /** Unfinished VecRestores by the name of the backup. */
    toRestore?: BackupsToRestore
  }
}

export function fakePorts(
  { schedule, children, drill = [], live = {} }: ScheduleFixture,
  events: KubernetesEvent[] = [],
) {
  const backups = live.backups ?? children
  const drillObject = (kind: string, name: string) =>
    (live.drill ?? drill).find((one) => one.kind === kind && one.metadata.name === name)
  const ports: BackupSchedulePorts = {
    schedule: async () => ('schedule' in live ? live.schedule : schedule),
    backupsOf: async (owner) => {
      const { namespace, name, uid } = schedule.metadata
      const isOwner = owner.namespace === namespace && owner.name === name && owner.uid === uid
      return isOwner ? backups : []
    },
    backup: async (_, name) =>
      [...backups, ...(live.others ?? [])].find(({ metadata }) => metadata.name === name),
    cluster: async (_, name) => drillObject('VecCluster', name) as VecCluster | undefined,
    restore: async (_, name) => drillObject('VecRestore', name) as VecRestore | undefined,
    backupsToRestore: async (candidates) => {
      const names = candidates.map(({ metadata }) => metadata.name)
      return new Map([...(live.toRestore ?? [])].filter(([name]) => names.includes(name)))
    },
    writeEvent: async (event) => void events.push(event),
  }
  return ports
}

export function hookRequest({
  schedule,
  children,
  drill = [],
  related = [],
}: ScheduleFixture): HookRequest<VecBackupSchedule> {
  const childrenByName = Object.fromEntries(
    children.map((child) => [`ns/${child.metadata.name}`, child]),
  )
  return {
    parent: schedule,
    children: { [BACKUP_CHILD_KIND]: childrenByName, ...groupObjects(drill) },
    related: groupObjects(related),
    finalizing: schedule.metadata.deletionTimestamp !== undefined,
  }
}

/** The validated answer of new hooks to one tick. */
export async function tick(
  fixture: ScheduleFixture,
  now: string,
  hooks = backupScheduleHooks(fakePorts(fixture)),
) {
  const request = hookRequest(fixture)
  const context = { now: new Date(now), settings }
  const desired = (await hooks.sync(request, context)) as Desired<Status>
  answerValidator(hooks)(request, desired, 'sync')
  desired.answered?.()
  return desired
}

/** Names of the children that are not observed yet. */
export function createdNames({ children }: Desired<Status>, fixture: ScheduleFixture): string[] {
  const observed = new Set(fixture.children.map(({ metadata }) => metadata.name))
  return children.map(({ metadata }) => metadata.name).filter((name) => !observed.has(name))
}

export function prunedNames({ pruned: dropped = [] }: Desired<Status>): string[] {
  return dropped.map(({ name }) => name).toSorted()
}
