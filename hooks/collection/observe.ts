/** Reads the state a decision about a VecCollection is based on; this includes reconciling the engine. */
import type { VecCluster } from '../../crds/cluster.ts'
import type { VecCollection } from '../../crds/collection.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import type { BackgroundTasks } from '../background-task.ts'
import { isFromTheFuture } from '../conditions.ts'
import {
  clusterAccessBlocker,
  isNamespaceWatched,
  namespaceCheck,
  hibernationBlocker,
} from '../cross-namespace.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { relatedClusters } from '../request.ts'
import { isReshardingOn } from '../cluster/validation.ts'
import type { EngineCache, EngineCaches } from './engine-cache.ts'
import type { CollectionPorts } from './ports.ts'
import { reconcile } from './reconcile.ts'
import {
  isCurrent,
  nextReconcileAt,
  type EngineIdentity,
  type LastReconcile,
  type ReconcileResult,
} from './result.ts'

export interface Observed {
  collection: VecCollection
  cluster?: VecCluster
  /** Result of the latest reconcile of the current spec. */
  result?: ReconcileResult
  /** Error of a reconcile that ended without a result. */
  failure?: { error: unknown }
  /** Seconds until the next observation. */
  requeueAfterSeconds: number
}

export interface Dependencies {
  ports: CollectionPorts
  reconciles: BackgroundTasks<LastReconcile>
  engines: EngineCaches
  /** By uid: when the resource was first observed since the service started. */
  firstObserved: Map<string, number>
}

export async function observe(
  { parent: collection, related }: HookRequest<VecCollection>,
  dependencies: Dependencies,
  { now, settings }: Context,
): Promise<Observed> {
  const [cluster] = relatedClusters(related)
  if (cluster === undefined) return { collection, requeueAfterSeconds: 0 }
  const { namespace } = cluster.metadata
  const forbidden = clusterAccessBlocker(cluster, collection.metadata.namespace, settings)
  const isReachable = isNamespaceWatched(settings, namespace) && forbidden === undefined
  if (!isReachable || hibernationBlocker(cluster) !== undefined) {
    return { collection, cluster, requeueAfterSeconds: 0 }
  }

  const { uid } = collection.metadata
  const identity = engineIdentity(cluster)
  const firstObserved = dependencies.firstObserved.get(uid) ?? now.getTime()
  dependencies.firstObserved.set(uid, firstObserved)
  const nextAt = nextReconcileAt(
    collection,
    dependencies.reconciles.latest(uid),
    identity,
    firstObserved,
  )
  const runReconcile = async (signal: AbortSignal) => {
    const engineCache = engineCacheFor(cluster, dependencies)
    const isAllowed = namespaceCheck(cluster, settings)
    const result = await reconcile(
      {
        collection: withManaged(collection, dependencies.reconciles.latest(uid)),
        ...{ engineCache, ports: dependencies.ports, isAllowed },
        ...(isReshardingOn(cluster.spec) && { mayReshard: true }),
      },
      signal,
    )
    const endedAt = dependencies.ports.now().getTime()
    return { result, generation: collection.metadata.generation, ...identity, endedAt }
  }
  const { requeueAfterSeconds, failure } = await dependencies.reconciles.run(
    uid,
    now,
    runReconcile,
    {
      isDue: nextAt <= now.getTime() || isOfClockAhead(dependencies.reconciles.latest(uid), now),
      engine: identity.connection,
    },
  )
  const latest = dependencies.reconciles.latest(uid)
  const msUntilNext = nextReconcileAt(collection, latest, identity, firstObserved) - now.getTime()
  return {
    collection,
    cluster,
    ...(latest !== undefined &&
      isCurrent(collection, latest, identity) && { result: latest.result }),
    ...(failure !== undefined && { failure }),
    requeueAfterSeconds: requeueAfterSeconds ?? Math.max(Math.ceil(msUntilNext / 1000), 1),
  }
}

/**
 * The spec may have changed while a reconcile was in progress: no status has the aliases and indexes that it
 * set, and without a record nothing would ever remove them.
 */
function withManaged(collection: VecCollection, latest: LastReconcile | undefined): VecCollection {
  const { aliases, payloadIndexes } = latest?.result.fields ?? {}
  if (aliases === undefined && payloadIndexes === undefined) return collection
  const { status } = collection
  const merged = {
    ...(aliases && { aliases: [...new Set([...(status?.aliases ?? []), ...aliases])] }),
    ...(payloadIndexes && {
      payloadIndexes: [...new Set([...(status?.payloadIndexes ?? []), ...payloadIndexes])],
    }),
  }
  return { ...collection, status: { ...status, ...merged } }
}

const CLOCK_TOLERANCE_MS = 60_000

/** Without this, drift would stay until the clock is there again. */
function isOfClockAhead(latest: LastReconcile | undefined, now: Date): boolean {
  return latest !== undefined && isFromTheFuture(latest.endedAt, now.getTime(), CLOCK_TOLERANCE_MS)
}

export function engineCacheFor(
  cluster: VecCluster,
  { engines, ports }: Pick<Dependencies, 'engines' | 'ports'>,
): EngineCache {
  const connection = clusterConnection(cluster)
  return engines.get(JSON.stringify(connection), () => ports.engine(connection))
}

function engineIdentity(cluster: VecCluster): EngineIdentity {
  const ready = cluster.status?.conditions?.find(({ type }) => type === 'Ready')
  return {
    connection: JSON.stringify(clusterConnection(cluster)),
    clusterReady: ready?.status === 'True',
  }
}
