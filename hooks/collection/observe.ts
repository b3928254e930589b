/** Reads what a decision about a VecCollection may know; a pass over the engine is part of that. */
import type { VecCluster } from '../../crds/cluster.ts'
import type { VecCollection } from '../../crds/collection.ts'
import { connectionOf } from '../../crds/connection.ts'
import { clusterRefusal } from '../allow.ts'
import { allowedBy } from '../allow-from.ts'
import { clustersIn } from '../observations.ts'
import type { Passes } from '../pass.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { serves } from '../served.ts'
import type { CollectionPorts } from './ports.ts'
import type { Outcome } from './outcome.ts'
import { reconcile } from './reconcile.ts'
import { dueAt, isCurrent, type About, type Result } from './rhythm.ts'
import type { SharedEngine, SharedEngines } from './shared.ts'

export interface Observed {
  collection: VecCollection
  cluster?: VecCluster
  /** What the newest pass over this very spec ended with. */
  outcome?: Outcome
  /** What a pass threw that came to no outcome at all. */
  failure?: { error: unknown }
  /** When there is more to see, at the latest. */
  againAfterSeconds: number
}

export interface Reach {
  ports: CollectionPorts
  passes: Passes<Result>
  engines: SharedEngines
  /** By uid, when the resource was shown for the first time since the service started. */
  firstSeen: Map<string, number>
}

export async function observe(
  { parent: collection, related }: HookRequest<VecCollection>,
  reach: Reach,
  { now, settings }: Context,
): Promise<Observed> {
  const [cluster] = clustersIn(related)
  if (cluster === undefined) return { collection, againAfterSeconds: 0 }
  const { namespace } = cluster.metadata
  const refusal = clusterRefusal(cluster, collection.metadata.namespace, settings)
  if (!serves(settings, namespace) || refusal !== undefined) {
    return { collection, cluster, againAfterSeconds: 0 }
  }

  const { uid } = collection.metadata
  const about = aboutOf(cluster)
  const firstSeen = reach.firstSeen.get(uid) ?? now.getTime()
  reach.firstSeen.set(uid, firstSeen)
  const due = dueAt(collection, reach.passes.last(uid), about, firstSeen)
  const run = async (signal: AbortSignal) => {
    const shared = sharedEngine(cluster, reach)
    const isAllowed = allowedBy(cluster, settings)
    const outcome = await reconcile({ collection, shared, ports: reach.ports, isAllowed }, signal)
    const endedAt = reach.ports.now().getTime()
    return { outcome, generation: collection.metadata.generation, ...about, endedAt }
  }
  const { againAfterSeconds, failure } = await reach.passes.result(uid, now, run, {
    isWanted: due <= now.getTime(),
    engine: about.connection,
  })
  const last = reach.passes.last(uid)
  const next = dueAt(collection, last, about, firstSeen) - now.getTime()
  return {
    collection,
    cluster,
    ...(last !== undefined && isCurrent(collection, last, about) && { outcome: last.outcome }),
    ...(failure !== undefined && { failure }),
    againAfterSeconds: againAfterSeconds ?? Math.max(Math.ceil(next / 1000), 1),
  }
}

export function sharedEngine(
  cluster: VecCluster,
  { engines, ports }: Pick<Reach, 'engines' | 'ports'>,
): SharedEngine {
  const connection = connectionOf(cluster)
  return engines.of(JSON.stringify(connection), () => ports.engine(connection))
}

function aboutOf(cluster: VecCluster): About {
  const ready = cluster.status?.conditions?.find(({ type }) => type === 'Ready')
  return {
    connection: JSON.stringify(connectionOf(cluster)),
    clusterReady: ready?.status === 'True',
  }
}
