/** The children of a VecBackup: the rights of its Job, and the Job with its plan. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import type { BackupPlan } from '../../crds/contract/job.ts'
import { uploadJobBytes } from '../../crds/contract/limits.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { parseQuantity } from '../../crds/units.ts'
import { availableCredentials } from '../data-job/secret-copies.ts'
import { newJob } from '../job.ts'
import type { Child, JobResources, Settings } from '../protocol.ts'
import { jobRbac, type JobRbac } from '../rbac.ts'
import { copiedCredentials, type Observed } from './observe.ts'

export function backupRbac(backup: VecBackup): JobRbac {
  return jobRbac(backup, { kind: 'backup', plural: 'vecbackups', helm: false })
}

/** The run that is wanted now; its number is given when a Job is made of it. */
export function desiredPlan(
  { metadata, spec }: VecBackup,
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
): Omit<BackupPlan, 'run'> {
  const { namespace, name, uid } = metadata
  const connection = clusterConnection(cluster)
  // The nodes there are: the spec may want another number by now.
  const replicas = statefulSet?.spec.replicas ?? connection.replicas
  const { method, parallelism } = spec
  const content = {
    cluster: { ...connection, replicas },
    clusterUid: cluster.metadata.uid,
    storage: spec.storage.s3,
    method,
    parallelism,
  }
  const hash = shortHash(JSON.stringify(content))
  return { resource: 'vecbackups', namespace, name, uid, hash, ...content }
}

export function backupJob(
  { backup, secrets }: Observed,
  cluster: VecCluster,
  plan: BackupPlan,
  settings: Settings,
): Child {
  const [account] = backupRbac(backup)
  const available = availableCredentials(cluster, secrets)
  const secretNames = { engine: plan.cluster.key?.secret ?? '', tls: plan.cluster.caSecret ?? '' }
  const localSecrets = Object.fromEntries(
    available.map((credential) => [credential, secretNames[credential]]),
  )
  const isOtherNamespace = copiedCredentials(backup).length > 0
  return newJob(
    {
      kind: 'backup',
      verb: 'run',
      plan,
      largeField: 'spec.storage',
      serviceAccount: account.metadata.name,
      resources: resourcesForVolume(settings.jobResources.data, cluster.spec.persistence.size),
      credentials: {
        bucket: backup.spec.storage.s3.credentialsSecretRef.name,
        ...(!isOtherNamespace && localSecrets),
      },
      ...(isOtherNamespace && { secretCopies: available }),
    },
    settings,
  )
}

const MIB = 2 ** 20

/**
 * The resources with a limit under which an object of this size can be uploaded. Parts are kept in memory
 * until the store has them, for a stream cannot be read twice; of an object of several terabytes two parts
 * are more than the usual limit. Without a limit, nothing needs to be raised.
 */
export function resourcesForVolume(resources: JobResources, volume: string): JobResources {
  const needed = uploadJobBytes(parseQuantity(volume))
  const limit = parseQuantity(resources.limits['memory'] ?? '')
  // False also where one of the two is no amount.
  if (!(needed > limit)) return resources
  const request = parseQuantity(resources.requests['memory'] ?? '')
  const raised = Number.isNaN(request) ? needed : request + (needed - limit)
  return {
    requests: { ...resources.requests, memory: formatMebibytes(raised) },
    limits: { ...resources.limits, memory: formatMebibytes(needed) },
  }
}

function formatMebibytes(bytes: number): string {
  return `${Math.ceil(bytes / MIB)}Mi`
}
