/** Reads the inputs of a VecRestore with the permissions of the caller: target, backup, bucket, credentials. */
import { readFile } from 'node:fs/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parseAllDocuments } from 'yaml'
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { API_VERSION, releaseName } from '../../crds/contract/names.ts'
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import { StatefulSet } from '../../crds/kubernetes.ts'
import {
  bucketField,
  bucketNamespace,
  restoreBackupRef,
  restoreSource,
  restoreTarget,
  VecRestore,
} from '../../crds/restore.ts'
import { errorMessage } from '../clients/http/request.ts'
import { statefulSets } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import type { PreflightContext } from '../restore/context.ts'
import { readManifest } from '../restore/manifest.ts'
import { RetryBudget } from '../retry.ts'
import { endpointFlag } from './bucket-flags.ts'
import {
  CliError,
  engineClients,
  EXIT_CODES,
  openBucketClient,
  readBucketCa,
  readSecret,
  stringFlag,
  type ClusterAccess,
  type Invocation,
} from './command.ts'

/** Short: a user does not wait for a restarting node. */
const NO_RETRY_MS = 0

/** The restore as it would be stored: with its defaults, in the selected namespace. */
export async function readRestore(
  call: Invocation,
  { kubernetes, namespace }: ClusterAccess,
): Promise<VecRestore> {
  const [name] = call.operands
  const file = stringFlag(call, 'file')
  if ((name === undefined) === (file === undefined)) {
    throw new CliError(
      'restore plan: pass either the name of a VecRestore or --file',
      EXIT_CODES.usage,
    )
  }
  if (name !== undefined) {
    const restores = { apiVersion: API_VERSION, plural: VecRestore.plural, namespace }
    return requireFound(
      await kubernetes.get(restores, name, VecRestore.schema),
      `VecRestore ${namespace}/${name}`,
    )
  }
  const manifest = Value.Default(RestoreManifest, await readDocument(file ?? ''))
  const error = Value.Errors(RestoreManifest, manifest).First()
  if (error !== undefined || !Value.Check(RestoreManifest, manifest)) {
    throw new CliError(
      `${file ?? ''}: ${error?.path.replaceAll('/', '.') ?? ''}: ${error?.message ?? ''}`,
    )
  }
  const now = call.time.now().toISOString()
  const placeholderMetadata = { uid: '', generation: 1, creationTimestamp: now }
  return { ...manifest, metadata: { namespace, ...manifest.metadata, ...placeholderMetadata } }
}

async function readDocument(file: string): Promise<unknown> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CliError(errorMessage(error))
  })
  const documents = [...parseAllDocuments(text)]
  const [document] = documents
  if (document === undefined || documents.length > 1) {
    throw new CliError(`${file}: has ${documents.length} documents, and must have one VecRestore`)
  }
  const [error] = document.errors
  if (error !== undefined) throw new CliError(`${file}: ${error.message}`)
  return document.toJS() as unknown
}

/** The manifest that a user writes; the API server adds the other fields. */
const RestoreManifest = Type.Object({
  apiVersion: Type.Literal(API_VERSION),
  kind: Type.Literal(VecRestore.kind),
  metadata: Type.Object({ name: Type.String(), namespace: Type.Optional(Type.String()) }),
  spec: VecRestore.spec,
})

/** Everything the checks need, as in the Job. */
export async function openInspection(
  restore: VecRestore,
  call: Invocation,
  { kubernetes }: ClusterAccess,
) {
  const plan = await buildPlan(restore, kubernetes)
  const bucket = await openBucket(restore, plan, call, kubernetes)
  const { signal, log, time } = call
  const engineForPod = engineClients(kubernetes, plan.cluster, call)
  const tools = {
    engineForPod: (_: unknown, ordinal?: number) => engineForPod(ordinal),
    signal,
    log,
    time,
  }
  const retryBudget = new RetryBudget(NO_RETRY_MS)
  const { priority, replicationFactor } = restore.spec
  const context: PreflightContext = {
    plan,
    bucket,
    tools,
    retryBudget,
    priority,
    replicationFactor,
  }
  const { collections } = restore.spec
  const readSource = () => readManifest({ bucket, plan, collections, signal })
  return { bucket, work: context, readSource }
}

/** The plan that its Job would receive. */
async function buildPlan(restore: VecRestore, kubernetes: Kubernetes): Promise<RestorePlan> {
  const { namespace, name, uid } = restore.metadata
  const [cluster, backup] = await Promise.all([
    readCluster(restore, kubernetes),
    readBackup(restore, kubernetes),
  ])
  const connection = clusterConnection(cluster)
  const statefulSet = await kubernetes.get(
    statefulSets(connection.namespace),
    releaseName(connection.name),
    StatefulSet,
  )
  const replicas = statefulSet?.spec.replicas ?? connection.replicas
  const source = requireFound(restoreSource(restore, backup), 'the source of the restore')
  return {
    ...{ resource: VecRestore.plural, namespace, name, uid, run: 1, hash: '' },
    cluster: { ...connection, replicas },
    source,
    ...(backup !== undefined && {
      backup: { name: backup.metadata.name, uid: backup.metadata.uid },
    }),
  }
}

async function readCluster(restore: VecRestore, kubernetes: Kubernetes): Promise<VecCluster> {
  const { namespace, name } = restoreTarget(restore)
  const clusters = { apiVersion: API_VERSION, plural: VecCluster.plural, namespace }
  const cluster = await kubernetes.get(clusters, name, VecCluster.schema)
  return requireFound(cluster, `cluster ${namespace}/${name}`)
}

async function readBackup(
  restore: VecRestore,
  kubernetes: Kubernetes,
): Promise<VecBackup | undefined> {
  const reference = restoreBackupRef(restore)
  if (reference === undefined) return undefined
  const { namespace, name } = reference
  const backups = { apiVersion: API_VERSION, plural: VecBackup.plural, namespace }
  const backup = requireFound(
    await kubernetes.get(backups, name, VecBackup.schema),
    `backup ${namespace}/${name}`,
  )
  const { phase = 'Pending' } = backup.status ?? {}
  if (phase !== 'Completed')
    throw new CliError(`backup ${namespace}/${name} is ${phase}, not Completed`)
  return backup
}

async function openBucket(
  restore: VecRestore,
  { source }: RestorePlan,
  call: Invocation,
  kubernetes: Kubernetes,
) {
  const { credentialsSecretRef } = source
  const namespace = bucketNamespace(restore)
  // The identity of a ServiceAccount is only for its pods: the caller has credentials of their own.
  const secret =
    credentialsSecretRef &&
    requireFound(
      await readSecret(kubernetes, namespace, credentialsSecretRef.name),
      `Secret ${namespace}/${credentialsSecretRef.name}`,
    )
  const { ca, error } = await readBucketCa(
    kubernetes,
    { field: bucketField(restore), namespace },
    source,
  )
  if (error !== undefined) throw new CliError(error)
  const endpoint = endpointFlag(call) ?? source.endpoint
  const target = { ...source, ...(endpoint !== undefined && { endpoint }) }
  return openBucketClient({ secret, ca }, target, call)
}

function requireFound<Result>(result: Result | undefined, description: string): Result {
  if (result === undefined) throw new CliError(`${description} not found`)
  return result
}
