/** The children of a VecRestore: the rights of its Job, and the Job with its plan. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { connectionOf } from '../../crds/connection.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import type { RestorePlan } from '../../crds/restore-command.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { credentialsOf } from '../copies.ts'
import { newJob } from '../job.ts'
import type { Child, Settings } from '../protocol.ts'
import { rightsOf, type Rights } from '../rights.ts'
import { copied } from './copies.ts'
import type { Observed } from './observed.ts'
import { sourceOf } from '../../crds/rules/restore-places.ts'

export function restoreRights(restore: VecRestore): Rights {
  return rightsOf(restore, { kind: 'restore', plural: 'vecrestores', helm: false })
}

/** The run that is wanted now; its number is given when a Job is made of it. */
export function wantedRun(
  restore: VecRestore,
  cluster: VecCluster,
  { statefulSet, backup }: { statefulSet?: StatefulSet; backup?: VecBackup },
): Omit<RestorePlan, 'run'> | undefined {
  const source = sourceOf(restore, backup)
  if (source === undefined) return undefined
  const { namespace, name, uid } = restore.metadata
  const connection = connectionOf(cluster)
  // The nodes there are: the spec may want another number by now.
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
  const [account] = restoreRights(observed.restore)
  const names = {
    bucket: plan.source.credentialsSecretRef.name,
    engine: plan.cluster.key?.secret ?? '',
    tls: plan.cluster.caSecret ?? '',
  }
  const found = ['bucket' as const, ...credentialsOf(cluster, observed.secrets)]
  const foreign = copied(observed)
  const own = found.filter((credential) => !foreign.includes(credential))
  return newJob(
    {
      kind: 'restore',
      verb: 'run',
      plan,
      largeField: 'spec.source',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.data,
      credentials: Object.fromEntries(own.map((credential) => [credential, names[credential]])),
      copies: found.filter((credential) => foreign.includes(credential)),
    },
    settings,
  )
}
