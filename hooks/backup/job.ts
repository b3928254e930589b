/** The children of a VecBackup: the RBAC of its Job, and the Job with its plan and memory limit. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import type { BackupPlan, PurgePlan } from '../../crds/contract/job.ts'
import { uploadJobBytes } from '../../crds/contract/limits.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { caRefOf } from '../../crds/storage.ts'
import { parseQuantity } from '../../crds/units.ts'
import { availableCredentials } from '../data-job/observe.ts'
import { newJob, jobRbac, type JobRbac } from '../job.ts'
import type { Child, JobResources, Settings } from '../protocol.ts'
import { copiedCredentials, type Observed } from './observe.ts'

export function backupRbac(backup: VecBackup): JobRbac {
  const account = backup.spec.storage.s3.serviceAccountName
  return jobRbac(backup, { kind: 'backup', plural: 'vecbackups', helm: false, account })
}

/** The current plan; its run number is set when a Job is created from it. */
export function desiredPlan(
  { metadata, spec }: VecBackup,
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
): Omit<BackupPlan, 'run'> {
  const { namespace, name, uid } = metadata
  const connection = clusterConnection(cluster)
  // The existing nodes: the spec may ask for another number by now.
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
  const { serviceAccountName, credentialsSecretRef } = backup.spec.storage.s3
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
      serviceAccount: serviceAccountName ?? account.metadata.name,
      hasIdentity: serviceAccountName !== undefined,
      resources: resourcesForVolume(settings.jobResources.data, cluster.spec.persistence.size),
      credentials: {
        ...(credentialsSecretRef !== undefined && { bucket: credentialsSecretRef.name }),
        ...(!isOtherNamespace && localSecrets),
      },
      bucketCa: caRefOf(backup.spec.storage.s3),
      ...(isOtherNamespace && { secretCopies: available }),
    },
    settings,
  )
}

/** The plan of the Job that deletes the objects; its run number is set when a Job is created from it. */
export function purgePlan({ metadata, spec }: VecBackup): Omit<PurgePlan, 'run'> {
  const { namespace, name, uid } = metadata
  const storage = spec.storage.s3
  const hash = shortHash('purge', JSON.stringify(storage))
  return { resource: 'vecbackups', namespace, name, uid, hash, storage }
}

export function purgeJob(account: string, plan: PurgePlan, settings: Settings): Child {
  return newJob(
    {
      ...{ kind: 'backup', verb: 'purge', plan, largeField: 'spec.storage' },
      serviceAccount: account,
      hasIdentity: true,
      resources: settings.jobResources.data,
      credentials: {},
      bucketCa: caRefOf(plan.storage),
    },
    settings,
  )
}

const MIB = 2 ** 20

/**
 * The resources with a memory limit that permits uploads of objects from a volume of this size: no
 * object of a cluster is larger than a data volume. Parts stay in memory until the store has them,
 * because a stream cannot be read twice; for an object of several terabytes two parts exceed the
 * default limit. Without a limit, nothing is raised.
 */
export function resourcesForVolume(resources: JobResources, volume: string): JobResources {
  const needed = uploadJobBytes(parseQuantity(volume))
  const limit = parseQuantity(resources.limits['memory'] ?? '')
  // Also false if one of the two is not a valid quantity.
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
