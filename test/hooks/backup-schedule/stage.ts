/** Schedules and backups for the tests of this room, and a room that reads them live. */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupScheduleSpec, VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/names.ts'
import { BACKUP_CHILD_KIND, backupName } from '../../../hooks/backup-schedule/children.ts'
import { backupScheduleRoom } from '../../../hooks/backup-schedule/index.ts'
import type { BackupSchedulePorts } from '../../../hooks/backup-schedule/ports.ts'
import { guardOf } from '../../../hooks/guard.ts'
import type { Desired, HookRequest } from '../../../hooks/protocol.ts'
import { settings } from '../../builders.ts'

type Status = NonNullable<VecBackupSchedule['status']>

export interface ScheduleParts {
  spec?: Partial<BackupScheduleSpec>
  status?: Status
  createdAt?: string
  annotations?: Record<string, string>
  deletionTimestamp?: string
}

const content = {
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
export function schedule(parts: ScheduleParts = {}): VecBackupSchedule {
  const { spec, status, createdAt = '2026-02-01T00:00:00Z', annotations, deletionTimestamp } = parts
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
      ...content,
      suspend: false,
      concurrencyPolicy: 'Forbid',
      ...spec,
    },
    ...(status !== undefined && { status }),
  }
}

export interface BackupParts {
  phase?: 'Pending' | 'InProgress' | 'Completed' | 'Failed'
  retain?: string
  deletionTimestamp?: string
}

/** The backup of a slot, as the API shows it. */
export function backup(slot: string, parts: BackupParts = { phase: 'Completed' }): VecBackup {
  const { phase, retain, deletionTimestamp } = parts
  const name = backupName('nightly', new Date(slot))
  const isOver = phase === 'Completed' || phase === 'Failed'
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
    spec: content,
    ...(phase !== undefined && {
      status: { phase, ...(isOver && { completionTime: slot, totalSize: '1.4 GiB' }) },
    }),
  }
}

export interface Stage {
  schedule: VecBackupSchedule
  /** As Metacontroller shows them. */
  children: VecBackup[]
  /** What is read live, where it differs. */
  live?: { schedule?: VecBackupSchedule | undefined; backups?: VecBackup[]; others?: VecBackup[] }
}

export function portsOf({ schedule, children, live = {} }: Stage, events: KubernetesEvent[] = []) {
  const backups = live.backups ?? children
  const ports: BackupSchedulePorts = {
    schedule: async () => ('schedule' in live ? live.schedule : schedule),
    backupsOf: async (owner) => {
      const { namespace, name, uid } = schedule.metadata
      const isOurs = owner.namespace === namespace && owner.name === name && owner.uid === uid
      return isOurs ? backups : []
    },
    backup: async (_, name) =>
      [...backups, ...(live.others ?? [])].find(({ metadata }) => metadata.name === name),
    writeEvent: async (event) => void events.push(event),
  }
  return ports
}

export function requestOf({ schedule, children }: Stage): HookRequest<VecBackupSchedule> {
  const named = Object.fromEntries(children.map((child) => [`ns/${child.metadata.name}`, child]))
  return {
    parent: schedule,
    children: { [BACKUP_CHILD_KIND]: named },
    related: {},
    finalizing: schedule.metadata.deletionTimestamp !== undefined,
  }
}

/** The answer of a new room to one tick; the guard has passed it. */
export async function tick(stage: Stage, now: string, room = backupScheduleRoom(portsOf(stage))) {
  const request = requestOf(stage)
  const context = { now: new Date(now), settings }
  const desired = (await room.sync(request, context)) as Desired<Status>
  guardOf(room)(request, desired, 'sync')
  return desired
}

/** Names of the children that are not observed yet. */
export function made({ children }: Desired<Status>, stage: Stage): string[] {
  const known = new Set(stage.children.map(({ metadata }) => metadata.name))
  return children.map(({ metadata }) => metadata.name).filter((name) => !known.has(name))
}

export function droppedNames({ dropped = [] }: Desired<Status>): string[] {
  return dropped.map(({ name }) => name).toSorted()
}
