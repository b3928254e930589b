/**
 * Ports of VecMigration, the input of its decisions, and how it is read: from the request, and the
 * rest through ports. Also finds the first blocker, because the engine's readiness is read only if
 * nothing else blocks the Job.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection, type Connection } from '../../crds/contract/connection.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import type { BackgroundTasks } from '../background-task.ts'
import { blockingRules, type CrossNamespace } from '../cross-namespace.ts'
import {
  readCopySources,
  readJobState,
  type DataJobPorts,
  type ObservedDataJob,
  isFinished,
} from '../data-job/observe.ts'
import {
  clusterBlocker,
  copyBlocker,
  endpointBlocker,
  selectBlocker,
  type Blocker,
} from '../data-job/preconditions.ts'
import { readLease, type ObservedLease } from '../lease.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { observedJobs, relatedClusters } from '../request.ts'
import {
  allCredentials,
  copiedCredentials,
  credentialBlocker,
  sourceClusterRef,
  targetRef,
  type Clusters,
  type SecretsByCredential,
} from './endpoints.ts'

/** A target that was asked this recently is not asked again. */
export const READINESS_MAX_AGE_SECONDS = 10

/** Why a target serves no requests; without a reason it is ready. */
export interface TargetReadiness {
  reason?: string
}

export interface Dependencies {
  ports: MigrationPorts
  /** By uid of the migration. */
  targets: BackgroundTasks<TargetReadiness>
}

export async function observe(
  request: HookRequest<VecMigration>,
  { ports, targets }: Dependencies,
  context: Context,
): Promise<Observed> {
  const observed = await readState(fromRequest(request), ports, context)
  const { migration, clusters, liveJobs } = observed
  // An engine is called only if its response could start a Job.
  const mayStart = liveJobs?.length === 0 && firstBlocker(observed, context.settings) === undefined
  if (clusters.target === undefined || !mayStart) {
    await targets.abort(migration.metadata.uid)
    return observed
  }
  return {
    ...observed,
    ...(await askTarget(migration, clusters.target, { ports, targets }, context)),
  }
}

/** The call continues in the background: an engine that is silent would occupy the worker of the hook. */
async function askTarget(
  { metadata: { uid } }: VecMigration,
  target: VecCluster,
  { ports, targets }: Dependencies,
  { now }: Context,
): Promise<Pick<Observed, 'notReady' | 'targetResyncSeconds'>> {
  const connection = clusterConnection(target)
  const ask = async (signal: AbortSignal) => {
    const reason = await ports.notReadyReason(connection, signal)
    return reason === undefined ? {} : { reason }
  }
  const { value, failure, requeueAfterSeconds } = await targets.run(uid, now, ask, {
    engine: JSON.stringify(connection),
  })
  if (failure !== undefined) throw failure.error
  const resync = requeueAfterSeconds !== undefined && { targetResyncSeconds: requeueAfterSeconds }
  if (value?.reason !== undefined) return { notReady: value.reason, ...resync }
  // An engine that was ready may be silent now.
  return resync === false ? {} : { notReady: 'no answer yet', ...resync }
}

async function readState(
  requested: Observed,
  ports: MigrationPorts,
  context: Context,
): Promise<Observed> {
  if (isFinished(requested.migration)) return requested
  const { migration } = requested
  const read = (namespace: string, name: string) => ports.migration(namespace, name)
  const state = await readJobState(requested, migration, read, context)
  switch (state.is) {
    case 'finished':
      return { ...requested, migration: state.resource }
    case 'working':
      return { ...requested, ...(await copySourcesFor(requested, state.job, ports)) }
    case 'starting':
      return readStarting(requested, { running: state.job, context }, ports)
  }
}

async function readStarting(
  requested: Observed,
  { running, context }: { running: Job | undefined; context: Context },
  ports: MigrationPorts,
): Promise<Observed> {
  const withClusters = { ...requested, clusters: await readClusters(requested.migration, ports) }
  if (running !== undefined)
    return { ...withClusters, ...(await copySourcesFor(withClusters, running, ports)) }
  return readLive(withClusters, ports, context)
}

export function fromRequest(request: HookRequest<VecMigration>): Observed {
  const migration = request.parent
  const candidates = relatedClusters(request.related)
  const findCluster = (ref: NamespacedName | undefined) =>
    candidates.find(
      ({ metadata }) => metadata.namespace === ref?.namespace && metadata.name === ref.name,
    )
  return {
    migration,
    ...observedJobs(request),
    clusters: clustersOf(
      findCluster(sourceClusterRef(migration)),
      findCluster(targetRef(migration)),
    ),
    secrets: {},
  }
}

/**
 * Read live: another cluster of the same name may exist by now, and its Lease must be that of the
 * live cluster.
 */
async function readClusters(migration: VecMigration, ports: MigrationPorts): Promise<Clusters> {
  const read = async (ref: NamespacedName | undefined) =>
    ref && ports.cluster(ref.namespace, ref.name)
  const [source, target] = await Promise.all([
    read(sourceClusterRef(migration)),
    read(targetRef(migration)),
  ])
  return clustersOf(source, target)
}

async function readLive(
  requested: Observed,
  ports: MigrationPorts,
  context: Context,
): Promise<Observed> {
  const { migration, clusters } = requested
  const { namespace, uid } = migration.metadata
  const [secrets, liveJobs, writers] = await Promise.all([
    readSecrets(migration, clusters, ports),
    ports.jobsOf(namespace, uid),
    Promise.all(
      leasedClusters(migration, clusters).map(({ ref, cluster }) =>
        readLease(ref, 'write', ports, blockingRules(cluster, context)),
      ),
    ),
  ])
  return { ...requested, secrets, liveJobs, writers }
}

/** The managed clusters that points are read from or written to. */
function leasedClusters(migration: VecMigration, { source, target }: Clusters) {
  const sourceRef = sourceClusterRef(migration)
  return [
    { ref: targetRef(migration), cluster: target },
    ...(sourceRef === undefined ? [] : [{ ref: sourceRef, cluster: source }]),
  ]
}

async function copySourcesFor(observed: Observed, job: Job, ports: MigrationPorts) {
  const { migration, clusters } = observed
  const secrets = () => readSecrets(migration, clusters, ports)
  return readCopySources(job, { copiedCredentials: copiedCredentials(migration), secrets }, ports)
}

async function readSecrets(
  migration: VecMigration,
  clusters: Clusters,
  ports: MigrationPorts,
): Promise<SecretsByCredential> {
  const read = allCredentials(migration, clusters).map(
    async ({ credential, namespace, name }) =>
      [credential, await ports.secret(namespace, name)] as const,
  )
  const entries = await Promise.all(read)
  return Object.fromEntries(entries.flatMap(([name, secret]) => (secret ? [[name, secret]] : [])))
}

function clustersOf(source: VecCluster | undefined, target: VecCluster | undefined): Clusters {
  return { ...(source !== undefined && { source }), ...(target !== undefined && { target }) }
}

export interface MigrationPorts extends DataJobPorts {
  /** The resource itself, read live. */
  migration(namespace: string, name: string): Promise<VecMigration | undefined>
  /**
   * Why the client Service of a cluster does not answer `/readyz` with 200 within two seconds; undefined if it
   * does.
   */
  notReadyReason(connection: Connection, signal: AbortSignal): Promise<string | undefined>
}

export interface Observed extends ObservedDataJob {
  migration: VecMigration
  /** Read live if a Job may be due. */
  clusters: Clusters
  secrets: SecretsByCredential
  /** The `write` Leases of both clusters; read only if a Job may be due. */
  writers?: ObservedLease[]
  /**
   * Why the target is not ready; absent if it is. It is asked only if a Job may be due and nothing else blocks
   * it.
   */
  notReady?: string
  /** The target is still being asked: check again after this many seconds. */
  targetResyncSeconds?: number
}

/** The first blocker; undefined if the Job may be created. */
export function firstBlocker(
  { migration, clusters, secrets, notReady }: Observed,
  settings: CrossNamespace,
): Blocker | undefined {
  const access = { from: migration.metadata.namespace, settings }
  const source = sourceClusterRef(migration)
  const target = targetRef(migration)
  return selectBlocker([
    copyBlocker(migration),
    endpointBlocker('spec.source.endpoint.url', migration.spec.source.endpoint?.url),
    asTargetBlocker(clusterBlocker(target, clusters.target, access)),
    source && clusterBlocker(source, clusters.source, access),
    credentialBlocker(migration, clusters, secrets),
    // Read only if nothing else blocks the Job.
    notReady === undefined
      ? undefined
      : asTargetBlocker({
          reason: 'ClusterNotReady',
          message: `cluster ${target.namespace}/${target.name} does not answer /readyz with 200: ${notReady}`,
        }),
  ])
}

function asTargetBlocker(blocker: Blocker | undefined): Blocker | undefined {
  if (blocker?.reason !== 'ClusterNotReady' && blocker?.reason !== 'ClusterHibernated')
    return blocker
  return { ...blocker, message: `target cluster not ready: ${blocker.message}` }
}
