/**
 * Copies of another namespace's Secrets for one Job: made once the Job exists and owned by it, kept
 * equal to their source while it runs, deleted when it has ended. Each holds the one key that is needed.
 */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { hasKey } from '../../crds/connection.ts'
import type { Job, Secret } from '../../crds/kubernetes.ts'
import { KEY_SECRET_KEY, LABELS, MANAGED_BY, copyName } from '../../crds/names.ts'
import type { Observed } from './observe.ts'

export const CREDENTIALS = { engine: KEY_SECRET_KEY, tls: 'ca.crt' } as const
export type Credential = keyof typeof CREDENTIALS
const NAMES = Object.keys(CREDENTIALS) as Credential[]

/** Whether the credentials of the cluster stand in another namespace than the Job. */
export function needsCopies({ metadata, spec }: Pick<VecBackup, 'metadata' | 'spec'>): boolean {
  const { namespace = metadata.namespace } = spec.clusterRef
  return namespace !== metadata.namespace
}

/** Those of the cluster's credentials that there are. */
export function credentialsOf(
  { spec }: VecCluster,
  { engine, tls }: Observed['secrets'],
): Credential[] {
  return [
    ...(hasKey(spec) && engine !== undefined ? (['engine'] as const) : []),
    ...(tls?.data?.[CREDENTIALS.tls] !== undefined ? (['tls'] as const) : []),
  ]
}

/** The copies a running Job lacks, or that are not equal to their source any more. */
export function copiesToWrite({ backup, cluster, secrets, copies }: Observed, job: Job): Secret[] {
  if (cluster === undefined || copies === undefined || !needsCopies(backup)) return []
  return credentialsOf(cluster, secrets).flatMap((credential) => {
    const wanted = copyFor(job, credential, secrets[credential]?.data ?? {})
    return holds(copies[credential], wanted) ? [] : [wanted]
  })
}

/** Every copy that a Job may have had. */
export function copiesOf(backup: VecBackup, job: Job) {
  if (!needsCopies(backup)) return []
  const { namespace } = backup.metadata
  const { name, uid: ownerUid = '' } = job.metadata
  return NAMES.map((credential) => ({ namespace, name: copyName(name, credential), ownerUid }))
}

export function copyNames(job: Job): [Credential, string][] {
  return NAMES.map((credential) => [credential, copyName(job.metadata.name, credential)])
}

function copyFor(
  { apiVersion, kind, metadata }: Job,
  credential: Credential,
  source: Record<string, string>,
): Secret {
  const { name, namespace = '', uid = '' } = metadata
  const key = CREDENTIALS[credential]
  const value = source[key]
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: copyName(name, credential),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    type: 'Opaque',
    data: value === undefined ? {} : { [key]: value },
  }
}

function holds(copy: Secret | undefined, wanted: Secret): boolean {
  return copy !== undefined && JSON.stringify(copy.data ?? {}) === JSON.stringify(wanted.data)
}
