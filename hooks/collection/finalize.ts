/**
 * The end of a VecCollection: with policy Retain the collection is left in the engine, with Delete it
 * is deleted, unless its cluster is gone (specification: states and transitions).
 */
import { connectionOf } from '../../crds/connection.ts'
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { RETRY_SECONDS } from '../../crds/limits.ts'
import { clusterRefusal } from '../allow.ts'
import { allowedBy } from '../allow-from.ts'
import { wordsOf } from '../failure.ts'
import type { Passes } from '../pass.ts'
import type { Context, Desired, Settings } from '../protocol.ts'
import { notServed, serves } from '../served.ts'
import { clusterOf, collectionNameOf } from './claims.ts'
import { sharedEngine, type Reach } from './observe.ts'
import { waiting } from './outcome.ts'
import { remove, type Remaining } from './removal.ts'
import { collectionStatus } from './status.ts'

/** What is left to do: nothing, or the deletion that waits for something. */
export interface End {
  collection: VecCollection
  isDone: boolean
  remaining?: string
  /** What the newest attempt threw. */
  failure?: { error: unknown }
  againAfterSeconds?: number
}

/** The result of one attempt to delete. */
export interface Attempt {
  remaining: Remaining
}

interface EndReach extends Reach {
  ends: Passes<Attempt>
}

export async function observeEnd(
  collection: VecCollection,
  reach: EndReach,
  { now, settings }: Context,
): Promise<End> {
  const { uid } = collection.metadata
  // After this nothing is written that a deletion could miss.
  await reach.passes.abort(uid)
  reach.firstSeen.delete(uid)
  const remaining = outOfReach(collection, settings)
  // Whether it is still there, nobody here can tell: it must not be left behind as if it were gone.
  if (remaining !== undefined) return { collection, isDone: false, remaining }
  const cluster = await clusterToCall(collection, reach, settings)
  if (cluster === undefined) {
    await reach.ends.abort(uid)
    return { collection, isDone: true }
  }
  const shared = sharedEngine(cluster, reach)
  const attempt = async (signal: AbortSignal) => ({
    remaining: await remove(
      { collection, shared, ports: reach.ports, isAllowed: allowedBy(cluster, settings) },
      signal,
    ),
  })
  const { value, failure, againAfterSeconds } = await reach.ends.result(uid, now, attempt, {
    engine: JSON.stringify(connectionOf(cluster)),
  })
  if (failure === undefined && value !== undefined && value.remaining === undefined) {
    await reach.ends.abort(uid)
    return { collection, isDone: true }
  }
  return {
    collection,
    isDone: false,
    ...(value?.remaining !== undefined && { remaining: value.remaining }),
    ...(failure !== undefined && { remaining: wordsOf(failure.error), failure }),
    ...(againAfterSeconds !== undefined && { againAfterSeconds }),
  }
}

export function finalize(end: End, { now }: Context): Desired<CollectionStatus> {
  const { collection, isDone, remaining, failure, againAfterSeconds } = end
  if (isDone) return { status: collection.status ?? {}, children: [], finalized: true }
  const what = `collection ${collectionNameOf(collection)}`
  const message =
    remaining === undefined
      ? `${what} is being deleted`
      : `${what} cannot be deleted yet: ${remaining}`
  return {
    status: collectionStatus(collection, waiting('Deleting', message), now),
    children: [],
    resyncAfterSeconds: againAfterSeconds ?? RETRY_SECONDS,
    ...(failure !== undefined && { failure }),
  }
}

/** Why what is to be deleted cannot be reached from here at all. */
function outOfReach(collection: VecCollection, settings: Settings): string | undefined {
  const { namespace, name } = clusterOf(collection)
  if (collection.spec.deletionPolicy === 'Retain' || serves(settings, namespace)) return undefined
  return notServed(`cluster ${namespace}/${name}`)
}

/** The cluster in which there is something to delete, read live: no related objects are shown now. */
async function clusterToCall(
  collection: VecCollection,
  { ports }: Reach,
  settings: Settings,
): Promise<VecCluster | undefined> {
  if (collection.spec.deletionPolicy === 'Retain') return undefined
  const cluster = await ports.cluster(clusterOf(collection))
  if (cluster === undefined) return undefined
  const refusal = clusterRefusal(cluster, collection.metadata.namespace, settings)
  return refusal === undefined ? cluster : undefined
}
