/**
 * Copies of Secrets of another namespace for one Job: created once the Job exists and owned by it,
 * kept equal to their source while it runs, deleted when it has finished. Each has only the keys
 * that the Job needs.
 */
import { LABELS, MANAGED_BY, secretCopyName } from '../../crds/contract/names.ts'
import type { Job, Secret } from '../../crds/kubernetes.ts'

export interface SecretCopyPorts {
  /** A copy that the service wrote, read live. */
  secretCopy(namespace: string, name: string): Promise<Secret | undefined>
  /** Creates the copy or replaces its data; a Secret of another owner is left unchanged. */
  writeSecretCopy(secretCopy: Secret): Promise<void>
  /** Deletes a copy of this owner; ignored if it is gone or has another owner. */
  deleteSecretCopy(secretCopy: SecretCopyIdentity): Promise<void>
}

export interface SecretCopyIdentity {
  namespace: string
  name: string
  ownerUid: string
}

/** The keys of a Secret to copy for a Job. */
export interface CopySource {
  credential: string
  keys: readonly string[]
  secret: Pick<Secret, 'data'>
  /** Type of the copy; Opaque by default. */
  type?: string
}

/** The existing copies, by credential. */
export type SecretCopies = Partial<Record<string, Secret>>

export async function readSecretCopies(
  credentials: readonly string[],
  { metadata: { name, namespace = '' } }: Job,
  ports: Pick<SecretCopyPorts, 'secretCopy'>,
): Promise<SecretCopies> {
  const copies: SecretCopies = {}
  for (const credential of credentials) {
    const copy = await ports.secretCopy(namespace, secretCopyName(name, credential))
    if (copy !== undefined) copies[credential] = copy
  }
  return copies
}

/** The copies that a running Job does not have yet or that differ from their source. */
export function secretCopiesToWrite(
  sources: readonly CopySource[],
  existing: SecretCopies,
  job: Job,
): Secret[] {
  return sources.flatMap((source) => {
    const desired = newSecretCopy(source, job)
    return isUpToDate(existing[source.credential], desired) ? [] : [desired]
  })
}

/** Every copy that a Job may have had. */
export function secretCopyRefs(
  credentials: readonly string[],
  { metadata }: Job,
): SecretCopyIdentity[] {
  const { name, namespace = '', uid: ownerUid = '' } = metadata
  return credentials.map((credential) => ({
    namespace,
    name: secretCopyName(name, credential),
    ownerUid,
  }))
}

function newSecretCopy(
  { credential, keys, secret, type = 'Opaque' }: CopySource,
  { apiVersion, kind, metadata: { name, namespace = '', uid = '' } }: Job,
): Secret {
  const data = keys.flatMap((key) => {
    const value = secret.data?.[key]
    return value === undefined ? [] : [[key, value]]
  })
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: secretCopyName(name, credential),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    type,
    data: Object.fromEntries(data) as Record<string, string>,
  }
}

/** The API server sorts the keys. */
function isUpToDate(copy: Secret | undefined, { data: desired = {} }: Secret): boolean {
  if (copy === undefined) return false
  const { data = {} } = copy
  const keys = Object.keys(desired)
  return keys.length === Object.keys(data).length && keys.every((key) => data[key] === desired[key])
}
