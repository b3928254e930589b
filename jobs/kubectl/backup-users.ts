/** Whether resources in the Kubernetes cluster of the caller use the objects of a backup. */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { backupFolder } from '../../crds/contract/backup-keys.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { ObjectName } from '../../crds/schema.ts'
import type { Owner } from '../backup/owner.ts'
import { errorMessage } from '../clients/http/request.ts'
import { backups, restores } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import { escapeUnprintable } from '../log.ts'
import { CliError, type Invocation } from './command.ts'

export interface StoredBackup {
  owner: Owner
  bucketName: string
  /** `<prefix>/<name>/` */
  folder: string
}

/** Only what identifies the backup: a restore admitted by an older CRD may be running too. */
const ListedRestore = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    backupRef: Type.Optional(
      Type.Object({ name: Type.String(), namespace: Type.Optional(Type.String()) }),
    ),
    source: Type.Optional(
      Type.Object({ s3: Type.Object({ bucket: Type.String(), path: Type.String() }) }),
    ),
  }),
  status: Type.Optional(Type.Object({ phase: Type.Optional(Type.String()) })),
})
type ListedRestore = Static<typeof ListedRestore>

/** Throws `CliError` if its VecBackup exists, if a VecRestore reads it, or if that cannot be known. */
export async function requireUnusedInCluster(
  call: Pick<Invocation, 'connect' | 'complain'>,
  stored: StoredBackup,
): Promise<void> {
  try {
    const { kubernetes } = await call.connect()
    await requireNoBackup(kubernetes, stored)
    const { found, isComplete } = await listRestores(kubernetes, stored.owner.namespace)
    const reader = found.find((restore) => isReading(restore, stored))
    if (reader !== undefined) {
      const { namespace = '', name } = reader.metadata
      throw new InUse(`VecRestore ${namespace}/${name} reads this backup and has not ended`)
    }
    if (!isComplete) {
      const { namespace } = stored.owner
      const note = `VecRestores of other namespaces than ${namespace} cannot be read`
      call.complain(`${escapeUnprintable(note)}\n`)
    }
  } catch (error) {
    if (error instanceof InUse) throw error
    if (!(error instanceof KubernetesError || error instanceof CliError)) throw error
    throw new CliError(
      `cannot check whether a VecBackup or VecRestore uses these objects: ${errorMessage(error)}; pass --bucket-only to delete them without this check`,
    )
  }
}

class InUse extends CliError {}

/** A VecBackup keeps its name, its namespace and its uid. */
async function requireNoBackup(kubernetes: Kubernetes, { owner }: StoredBackup): Promise<void> {
  const { namespace, name, uid } = owner
  // They become a path: only these names address an object.
  if (![namespace, name].every((text) => Value.Check(ObjectName(), text))) {
    throw new CliError('owner.json does not name a VecBackup')
  }
  const found = await kubernetes.get(backups(namespace), name, AnyObject)
  if (found?.metadata.uid !== uid) return
  throw new InUse(
    `VecBackup ${namespace}/${name} owns these objects: delete it instead, with kubectl delete vecbackup ${name} --namespace ${namespace}`,
  )
}

/** Those of all namespaces, or of this one if the user may not read the others. */
async function listRestores(kubernetes: Kubernetes, namespace: string) {
  try {
    return { found: await listOrNone(kubernetes, undefined), isComplete: true }
  } catch (error) {
    if (!(error instanceof KubernetesError) || error.status !== 403) throw error
    return { found: await listOrNone(kubernetes, namespace), isComplete: false }
  }
}

/** None if the kind is not installed. */
async function listOrNone(
  kubernetes: Kubernetes,
  namespace: string | undefined,
): Promise<ListedRestore[]> {
  try {
    return await kubernetes.list(restores(namespace), ListedRestore)
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return []
    throw error
  }
}

/** The endpoint is not compared: one store may have several, also another one outside of the cluster. */
function isReading(
  { metadata, spec: { backupRef, source }, status }: ListedRestore,
  { owner, bucketName, folder }: StoredBackup,
): boolean {
  if (status?.phase === 'Completed' || status?.phase === 'Failed') return false
  if (source !== undefined) {
    const sourceFolder = backupFolder({ prefix: source.s3.path, name: '' })
    return source.s3.bucket === bucketName && sourceFolder === folder
  }
  const namespace = backupRef?.namespace ?? metadata.namespace
  return backupRef?.name === owner.name && namespace === owner.namespace
}
