/** What a VecRestore names, read with the rights of the caller: target, backup, bucket, credentials. */
import { readFile } from 'node:fs/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'yaml'
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { connectionOf } from '../../crds/connection.ts'
import { StatefulSet } from '../../crds/kubernetes.ts'
import { API_VERSION, releaseName } from '../../crds/names.ts'
import type { RestorePlan } from '../../crds/restore-command.ts'
import { VecRestore } from '../../crds/restore.ts'
import { backupOf, bucketNamespaceOf, sourceOf, targetOf } from '../../crds/rules/restore-places.ts'
import { wordsOf } from '../clients/call.ts'
import type { Kubernetes } from '../clients/kubernetes.ts'
import { Patience } from '../patience.ts'
import { readManifest } from '../restore/source.ts'
import type { Inspection } from '../restore/work.ts'
import { bucketWith } from './bucket.ts'
import { Complaint, ENDS, textOf, type PeopleCall, type Reach } from './command.ts'
import { enginesOf, secretIn } from './engines.ts'

/** A person does not wait for a node that is restarted. */
const NO_PATIENCE_MS = 0

/** As it would be stored: with its defaults, in the namespace that was meant. */
export async function restoreOf(
  call: PeopleCall,
  { kubernetes, namespace }: Reach,
): Promise<VecRestore> {
  const [name] = call.operands
  const file = textOf(call, 'file')
  if ((name === undefined) === (file === undefined)) {
    throw new Complaint('restore plan: either the name of a VecRestore or --file', ENDS.usage)
  }
  if (name !== undefined) {
    const place = { apiVersion: API_VERSION, plural: VecRestore.plural, namespace }
    return found(
      await kubernetes.get(place, name, VecRestore.schema),
      `VecRestore ${namespace}/${name}`,
    )
  }
  const text = await readFile(file ?? '', 'utf8').catch((error: unknown) => {
    throw new Complaint(wordsOf(error))
  })
  const written: unknown = Value.Default(Written, parse(text))
  const error = Value.Errors(Written, written).First()
  if (error !== undefined || !Value.Check(Written, written)) {
    throw new Complaint(
      `${file ?? ''}: ${error?.path.replaceAll('/', '.') ?? ''}: ${error?.message ?? ''}`,
    )
  }
  const now = call.time.now().toISOString()
  const unborn = { uid: '', generation: 1, creationTimestamp: now }
  return { ...written, metadata: { namespace, ...written.metadata, ...unborn } }
}

/** What a person writes; the API server gives it the rest. */
const Written = Type.Object({
  apiVersion: Type.Literal(API_VERSION),
  kind: Type.Literal(VecRestore.kind),
  metadata: Type.Object({ name: Type.String(), namespace: Type.Optional(Type.String()) }),
  spec: VecRestore.spec,
})

/** All it takes to look, as the Job would have it. */
export async function inspectionOf(restore: VecRestore, call: PeopleCall, { kubernetes }: Reach) {
  const plan = await planOf(restore, kubernetes)
  const bucket = await bucketOf(restore, plan, call, kubernetes)
  const { signal, log, time } = call
  const engineOn = enginesOf(kubernetes, plan.cluster, call)
  const tools = { engineOn: (_: unknown, ordinal?: number) => engineOn(ordinal), signal, log, time }
  const patience = new Patience(NO_PATIENCE_MS)
  const { priority, replicationFactor } = restore.spec
  const work: Inspection = { plan, bucket, tools, patience, priority, replicationFactor }
  const { collections } = restore.spec
  const readSource = () => readManifest({ bucket, plan, collections, signal })
  return { bucket, work, readSource }
}

/** The plan its Job would get. */
async function planOf(restore: VecRestore, kubernetes: Kubernetes): Promise<RestorePlan> {
  const { namespace, name, uid } = restore.metadata
  const [cluster, backup] = await Promise.all([
    clusterFor(restore, kubernetes),
    backupFor(restore, kubernetes),
  ])
  const connection = connectionOf(cluster)
  const sets = { apiVersion: 'apps/v1', plural: 'statefulsets', namespace: connection.namespace }
  const set = await kubernetes.get(sets, releaseName(connection.name), StatefulSet)
  const replicas = set?.spec.replicas ?? connection.replicas
  const source = found(sourceOf(restore, backup), 'the source of the restore')
  return {
    ...{ resource: VecRestore.plural, namespace, name, uid, run: 1, hash: '' },
    cluster: { ...connection, replicas },
    source,
    ...(backup !== undefined && {
      backup: { name: backup.metadata.name, uid: backup.metadata.uid },
    }),
  }
}

async function clusterFor(restore: VecRestore, kubernetes: Kubernetes): Promise<VecCluster> {
  const { namespace, name } = targetOf(restore)
  const clusters = { apiVersion: API_VERSION, plural: VecCluster.plural, namespace }
  const cluster = await kubernetes.get(clusters, name, VecCluster.schema)
  return found(cluster, `cluster ${namespace}/${name}`)
}

async function backupFor(
  restore: VecRestore,
  kubernetes: Kubernetes,
): Promise<VecBackup | undefined> {
  const named = backupOf(restore)
  if (named === undefined) return undefined
  const { namespace, name } = named
  const backups = { apiVersion: API_VERSION, plural: VecBackup.plural, namespace }
  const backup = found(
    await kubernetes.get(backups, name, VecBackup.schema),
    `backup ${namespace}/${name}`,
  )
  const { phase = 'Pending' } = backup.status ?? {}
  if (phase !== 'Completed')
    throw new Complaint(`backup ${namespace}/${name} is ${phase}, not Completed`)
  return backup
}

async function bucketOf(
  restore: VecRestore,
  { source }: RestorePlan,
  call: PeopleCall,
  kubernetes: Kubernetes,
) {
  const { name } = source.credentialsSecretRef
  const namespace = bucketNamespaceOf(restore)
  const secret = found(await secretIn(kubernetes, namespace, name), `Secret ${namespace}/${name}`)
  const endpoint = textOf(call, 'endpoint') ?? source.endpoint
  const target = { ...source, ...(endpoint !== undefined && { endpoint }) }
  return bucketWith(secret, target, call)
}

function found<Thing>(thing: Thing | undefined, called: string): Thing {
  if (thing === undefined) throw new Complaint(`${called} not found`)
  return thing
}
