/** The children of a VecBackup: the rights of its Job, and the Job with its plan. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { BackupPlan } from '../../crds/command.ts'
import { connectionOf } from '../../crds/connection.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import { credentialsOf } from '../copies.ts'
import { newJob } from '../job.ts'
import { resourcesFor } from '../job-memory.ts'
import type { Child, Settings } from '../protocol.ts'
import { rightsOf, type Rights } from '../rights.ts'
import { copied } from './copies.ts'
import type { Observed } from './observed.ts'

export function backupRights(backup: VecBackup): Rights {
  return rightsOf(backup, { kind: 'backup', plural: 'vecbackups', helm: false })
}

/** The run that is wanted now; its number is given when a Job is made of it. */
export function wantedRun(
  { metadata, spec }: VecBackup,
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
): Omit<BackupPlan, 'run'> {
  const { namespace, name, uid } = metadata
  const connection = connectionOf(cluster)
  // The nodes there are: the spec may want another number by now.
  const replicas = statefulSet?.spec.replicas ?? connection.replicas
  const { method, parallelism } = spec
  const target = {
    cluster: { ...connection, replicas },
    clusterUid: cluster.metadata.uid,
    storage: spec.storage.s3,
    method,
    parallelism,
  }
  const hash = shortHash(JSON.stringify(target))
  return { resource: 'vecbackups', namespace, name, uid, hash, ...target }
}

export function backupJob(
  { backup, secrets }: Observed,
  cluster: VecCluster,
  plan: BackupPlan,
  settings: Settings,
): Child {
  const [account] = backupRights(backup)
  const found = credentialsOf(cluster, secrets)
  const sources = { engine: plan.cluster.key?.secret ?? '', tls: plan.cluster.caSecret ?? '' }
  const own = Object.fromEntries(found.map((credential) => [credential, sources[credential]]))
  const isForeign = copied(backup).length > 0
  return newJob(
    {
      kind: 'backup',
      verb: 'run',
      plan,
      largeField: 'spec.storage',
      serviceAccount: account.metadata.name,
      resources: resourcesFor(settings.jobResources.data, cluster.spec.persistence.size),
      credentials: {
        bucket: backup.spec.storage.s3.credentialsSecretRef.name,
        ...(!isForeign && own),
      },
      ...(isForeign && { copies: found }),
    },
    settings,
  )
}
