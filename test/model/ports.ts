/** What all rooms read and write, over a small world: every port of every kind in one object. */
import { VecBackup } from '../../crds/backup.ts'
import type { BackupPorts } from '../../hooks/backup/ports.ts'
import type { Job, Lease, Secret } from '../../crds/kubernetes.ts'
import { LABELS } from '../../crds/names.ts'
import type { AccessKeyPorts } from '../../hooks/access-key/ports.ts'
import type { BackupSchedulePorts } from '../../hooks/backup-schedule/ports.ts'
import type { ClusterPorts } from '../../hooks/cluster/ports.ts'
import { holderNow } from '../../hooks/lease.ts'
import type { MigrationPorts } from '../../hooks/migration/ports.ts'
import type { RestorePorts } from '../../hooks/restore/ports.ts'
import {
  create,
  jobs,
  keyOf,
  objects,
  remove,
  touch,
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

export function portsOver(world: SmallWorld): AllPorts {
  // What stands in the world under a kind has been admitted as that kind.
  const get = <Kind>(kind: string) => {
    return async (_: string, name: string) =>
      structuredClone(world.live[`${kind}/${name}`]) as Kind | undefined
  }
  const jobsOf = async (_: string, parent: string) =>
    jobs(world).filter(({ metadata }) => metadata.labels?.[LABELS.parent] === parent)
  const leases = {
    lease: get<Lease>('Lease'),
    jobsOf,
    async takeLease(lease: Lease) {
      const found = world.live[keyOf(lease)]
      if (found?.metadata.resourceVersion !== lease.metadata.resourceVersion) return false
      if (found === undefined) return create(world, structuredClone(lease))
      Object.assign(found, { spec: lease.spec })
      touch(world, found)
      return true
    },
    async dropLease(lease: Lease) {
      const found = world.live[keyOf(lease)]
      if (found?.metadata.resourceVersion !== lease.metadata.resourceVersion) return false
      remove(world, keyOf(lease))
      return true
    },
  }
  return {
    ...leases,
    secret: get<Secret>('Secret'),
    liveSecret: get<Secret>('Secret'),
    copy: get<Secret>('Secret'),
    async writeCopy(copy) {
      const found = world.live[keyOf(copy)]
      if (found === undefined) create(world, copy)
      else Object.assign(found, { data: copy.data })
    },
    deleteCopy: async ({ name }) => remove(world, `Secret/${name}`),
    cluster: get('VecCluster'),
    statefulSet: get('StatefulSet'),
    backup: get('VecBackup'),
    restore: get('VecRestore'),
    migration: get('VecMigration'),
    schedule: get('VecBackupSchedule'),
    deleteBackup: async ({ name }) => remove(world, `VecBackup/${name}`),
    restoresOf: async () => [],
    backupsOf: async ({ uid }) =>
      objects<Small>(world.live, VecBackup.kind)
        .filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.uid === uid))
        .map((one) => structuredClone(one) as unknown as VecBackup),
    namespaceEnds: async () => world.namespaceEnds,
    purge: async () => ({ done: true }),
    // Foreground: it is there until its pod has ended.
    async deleteJob({ name, uid }) {
      const found = world.live[`Job/${name}`]
      if (found?.metadata.uid !== uid) return
      found.metadata.deletionTimestamp ??= new Date(world.now).toISOString()
    },
    othersAt: async () => [],
    isReady: async () => true,
    consensus: async () => [{ ordinal: 0, state: 'working' }],
    writeHolder: (cluster) => holderNow(cluster, 'write', leases, new Date(world.now)),
    unfinishedHelmJobs: async () => unfinished(world).filter(isHelm).length,
    writeEvent: async () => undefined,
    warn: () => undefined,
  }
}

function isHelm({ metadata }: Job): boolean {
  return metadata.labels?.[LABELS.component] === 'helm'
}
