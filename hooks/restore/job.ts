/** The children of a VecRestore: the RBAC of its Job, and the Job with its plan. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { restoreSource, type VecRestore } from '../../crds/restore.ts'
import { BUCKET_CA } from '../../crds/certificates.ts'
import { caRefOf } from '../../crds/storage.ts'
import { availableCredentials } from '../data-job/observe.ts'
import { newJob, jobRbac, type JobRbac } from '../job.ts'
import type { Child, Settings } from '../protocol.ts'
import { copiedCredentials, type Observed } from './observe.ts'

/** `account` is the ServiceAccount that the source names for its cloud identity. */
export function restoreRbac(restore: VecRestore, account?: string): JobRbac {
  return jobRbac(restore, { kind: 'restore', plural: 'vecrestores', helm: false, account })
}

/** The current plan; its run number is set when a Job is created from it. */
export function desiredPlan(
  restore: VecRestore,
  cluster: VecCluster,
  { statefulSet, backup }: { statefulSet?: StatefulSet; backup?: VecBackup },
): Omit<RestorePlan, 'run'> | undefined {
  const source = restoreSource(restore, backup)
  if (source === undefined) return undefined
  const { namespace, name, uid } = restore.metadata
  const connection = clusterConnection(cluster)
  // The existing nodes: the spec may ask for another number by now.
  const replicas = statefulSet?.spec.replicas ?? connection.replicas
  const content = {
    cluster: { ...connection, replicas },
    source,
    ...(backup !== undefined && {
      backup: { name: backup.metadata.name, uid: backup.metadata.uid },
    }),
  }
  const hash = shortHash(JSON.stringify(content))
  return { resource: 'vecrestores', namespace, name, uid, hash, ...content }
}

export function restoreJob(
  observed: Observed,
  cluster: VecCluster,
  plan: RestorePlan,
  settings: Settings,
): Child {
  const { serviceAccountName, credentialsSecretRef } = plan.source
  const [account] = restoreRbac(observed.restore, serviceAccountName)
  const secretNames = {
    bucket: credentialsSecretRef?.name ?? '',
    engine: plan.cluster.key?.secret ?? '',
    tls: plan.cluster.caSecret ?? '',
  }
  const available = [
    ...(credentialsSecretRef === undefined ? [] : (['bucket'] as const)),
    ...availableCredentials(cluster, observed.secrets),
  ]
  const copyNames = copiedCredentials(observed)
  const bucketCa = caRefOf(plan.source)
  const isCaCopied = bucketCa !== undefined && copyNames.includes(BUCKET_CA)
  const localCredentials = available.filter((credential) => !copyNames.includes(credential))
  return newJob(
    {
      kind: 'restore',
      verb: 'run',
      plan,
      largeField: 'spec.source',
      serviceAccount: serviceAccountName ?? account.metadata.name,
      hasIdentity: serviceAccountName !== undefined,
      resources: settings.jobResources.data,
      credentials: Object.fromEntries(
        localCredentials.map((credential) => [credential, secretNames[credential]]),
      ),
      ...(!isCaCopied && { bucketCa }),
      secretCopies: [
        ...available.filter((credential) => copyNames.includes(credential)),
        ...(isCaCopied ? ([BUCKET_CA] as const) : []),
      ],
    },
    settings,
  )
}
