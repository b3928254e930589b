/** The ports of the hooks of every kind over a small world, in one object. */
import { VecBackup } from '../../crds/backup.ts'
import type { BackupPorts } from '../../hooks/backup/observe.ts'
import type { ConfigMap, Job, Lease, LeaseHolder, Secret } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import { VecRestore } from '../../crds/restore.ts'
import { StorageError } from '../../crds/contract/errors.ts'
import type { AccessKeyPorts } from '../../hooks/access-key/observe.ts'
import { isFinished } from '../../hooks/data-job/observe.ts'
import type { BackupSchedulePorts } from '../../hooks/backup-schedule/observe.ts'
import type { ClusterPorts } from '../../hooks/cluster/ports.ts'
import type { MigrationPorts } from '../../hooks/migration/observe.ts'
import type { RestorePorts } from '../../hooks/restore/observe.ts'
import { placedShards } from '../hooks/cluster/shards.ts'
import { recorded } from './calls.ts'
import { withoutLease } from './others.ts'
import {
  beginEnd,
  create,
  edit,
  jobs,
  keyOf,
  objects,
  remove,
  unfinished,
  type Small,
  type SmallWorld,
} from './small-world.ts'

type AllPorts = BackupPorts &
  AccessKeyPorts &
  BackupSchedulePorts &
  ClusterPorts &
  MigrationPorts &
  RestorePorts

export const CLIENT_SERVICE = 'Service/vec-a'

export function portsOver(world: SmallWorld): AllPorts {
  // Objects of the world were admitted as objects of their kind.
  const get = <Kind>(kind: string) => {
    return async (_: string, name: string) => world.live[`${kind}/${name}`] as Kind | undefined
  }
  const leases = {
    lease: get<Lease>('Lease'),
    jobsOf: async (_: string, parent: string) =>
      jobs(world).filter(({ metadata }) => metadata.labels?.[LABELS.parent] === parent),
    async holderState({ kind, name, uid }: LeaseHolder) {
      const found = world.live[`${kind}/${name}`]
      if (found === undefined || found.metadata.uid !== uid) return 'gone' as const
      return isFinished(found as { status?: { phase?: string } })
        ? ('finished' as const)
        : ('unfinished' as const)
    },
    async writeLease(lease: Lease) {
      const key = keyOf(lease)
      if (!isCurrent(world, lease)) return false
      if (!(key in world.live)) return create(world, lease)
      const { annotations } = lease.metadata
      edit(world, key, ({ metadata, ...found }) => ({
        ...found,
        metadata: { ...metadata, ...(annotations && { annotations }) },
        spec: lease.spec,
      }))
      return true
    },
    async deleteLease(lease: Lease) {
      if (!isCurrent(world, lease)) return false
      remove(world, keyOf(lease))
      return true
    },
  }
  return recorded(world, {
    ...leases,
    secret: get<Secret>('Secret'),
    liveSecret: get<Secret>('Secret'),
    secretCopy: get<Secret>('Secret'),
    async writeSecretCopy(copy) {
      if (!create(world, copy))
        edit(world, keyOf(copy), (found) => ({ ...found, data: copy.data ?? {} }))
    },
    deleteSecretCopy: async ({ name }) => remove(world, `Secret/${name}`),
    configMap: get<ConfigMap>('ConfigMap'),
    writeConfigMap: async (configMap) => create(world, configMap),
    cluster: get('VecCluster'),
    statefulSet: get('StatefulSet'),
    serviceAccount: get('ServiceAccount'),
    backup: get('VecBackup'),
    restore: get('VecRestore'),
    migration: get('VecMigration'),
    schedule: get('VecBackupSchedule'),
    // Of the release, the world has the client Service only.
    missingObjects: async (_, asked) =>
      asked.filter(
        ({ kind, name }) => `${kind}/${name}` === CLIENT_SERVICE && !(CLIENT_SERVICE in world.live),
      ),
    schedulePolicy: async () => undefined,
    deleteBackup: async ({ name }) => beginEnd(world, `VecBackup/${name}`),
    apiTime: async () => undefined,
    replaceReport: async ({ name }, report) =>
      edit(world, `VecBackup/${name}`, (found) => ({
        ...found,
        metadata: {
          ...found.metadata,
          annotations: {
            ...found.metadata.annotations,
            [ANNOTATIONS.progress]: JSON.stringify(report),
          },
        },
      })),
    restoresReading: async ({ namespace, name }) =>
      objects<Small>(world.live, VecRestore.kind)
        .filter(({ spec }) => (spec as VecRestore['spec']).backupRef?.name === name)
        .map(({ metadata: { name: restore, uid = '' } }) => ({
          namespace,
          name: restore,
          uid,
          by: 'name',
        })),
    backupsToRestore: async (candidates) => {
      const unfinished = objects<Small>(world.live, VecRestore.kind)
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .filter((restore) => !isFinished(restore as Parameters<typeof isFinished>[0]))
      const restoresOf = (backup: string) =>
        unfinished
          .filter(({ spec }) => (spec as VecRestore['spec']).backupRef?.name === backup)
          .map(({ metadata: { namespace = '', name } }) => ({ namespace, name }))
      const all = candidates.map(({ metadata: { name } }) => [name, restoresOf(name)] as const)
      return new Map(all.filter(([, restores]) => restores.length > 0))
    },
    backupsOf: async ({ uid }) =>
      objects<Small>(world.live, VecBackup.kind).filter(({ metadata }) =>
        metadata.ownerReferences?.some((owner) => owner.uid === uid),
      ) as unknown as VecBackup[],
    isNamespaceTerminating: async () => world.namespaceEnds,
    async purge() {
      const { bucket } = world
      if (bucket.isAway) throw new StorageError('the store does not answer')
      bucket.batches = Math.max(bucket.batches - 1, 0)
      return { done: bucket.batches === 0 }
    },
    // Foreground deletion: the Job exists until its pod has ended.
    async deleteJob({ name, uid }) {
      if (world.live[`Job/${name}`]?.metadata.uid === uid) beginEnd(world, `Job/${name}`)
    },
    conflictingWork: async () => withoutLease(world),
    shards: async (query) => {
      const isDefective = world.engine.isDefective === true
      return placedShards(query, {
        at: new Date(world.now).toISOString(),
        plans: { repair: isDefective ? { is: 'step', purpose: 'repair' } : { is: 'done' } },
      })
    },
    retainedVolumes: async () => [],
    nodeKeys: async () => [],
    tokensSignedWith: async () => [],
    keepKeys: async () => undefined,
    notReadyReason: async () => (world.engine.isReady ? undefined : 'the engine is away'),
    pods: async () => [],
    consensus: async () => [{ ordinal: 0, state: world.engine.isReady ? 'working' : 'stopped' }],
    helmJobsAt: async () =>
      unfinished(world)
        .filter(isHelm)
        .map(({ metadata }) => `helm Job ${metadata.name}`),
    unfinishedHelmJobs: async () => unfinished(world).filter(isHelm).length,
    writeEvent: async () => undefined,
    warn: () => undefined,
  })
}

/** Optimistic locking as in the API server: the resourceVersion must match; a new object has none. */
function isCurrent({ live }: SmallWorld, object: Lease): boolean {
  return live[keyOf(object)]?.metadata.resourceVersion === object.metadata.resourceVersion
}

function isHelm({ metadata }: Job): boolean {
  return metadata.labels?.[LABELS.component] === 'helm'
}
