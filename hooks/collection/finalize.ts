/**
 * Deletion of a VecCollection: with deletionPolicy Retain the collection remains in the engine, with Delete
 * it is deleted, unless its cluster no longer exists.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { EngineError, KubernetesError, NotReady, Rejected } from '../../crds/contract/errors.ts'
import { RETRY_SECONDS } from '../../crds/contract/limits.ts'
import { errorMessage, type BackgroundTasks } from '../background-task.ts'
import {
  clusterAccessBlocker,
  isNamespaceWatched,
  namespaceCheck,
  namespaceNotWatched,
  hibernationBlocker,
} from '../cross-namespace.ts'
import type { Context, Desired, Settings } from '../protocol.ts'
import { engineCacheFor, type Dependencies } from './observe.ts'
import { clusterNameOf, collectionNameOf } from '../../crds/collection-ownership.ts'
import { reconcileContext, waitForCollection, type ReconcileInput } from './reconcile-context.ts'
import { pendingResult } from './result.ts'
import { collectionStatus } from './status.ts'

/** State of the deletion: done, or why it is not done yet. */
export interface Deletion {
  collection: VecCollection
  isDone: boolean
  blocker?: string
  /** The error of the latest attempt. */
  failure?: { error: unknown }
  requeueAfterSeconds?: number
}

/** The result of one attempt to delete. */
export interface DeletionAttempt {
  blocker: DeletionBlocker
}

interface DeletionDependencies extends Dependencies {
  deletions: BackgroundTasks<DeletionAttempt>
}

export async function observeDeletion(
  collection: VecCollection,
  dependencies: DeletionDependencies,
  { now, settings }: Context,
): Promise<Deletion> {
  const { uid } = collection.metadata
  // After this, no reconcile writes anything that the deletion could miss.
  await dependencies.reconciles.abort(uid)
  dependencies.firstObserved.delete(uid)
  const blocker = unreachableReason(collection, settings)
  // Without access, the collection may still exist; it must not be treated as deleted.
  if (blocker !== undefined) return { collection, isDone: false, blocker }
  const cluster = await clusterToDeleteFrom(collection, dependencies, settings)
  if (cluster === undefined) {
    await dependencies.deletions.abort(uid)
    return { collection, isDone: true }
  }
  const hibernation = hibernationBlocker(cluster)
  if (hibernation !== undefined) {
    return { collection, isDone: false, blocker: hibernation.message }
  }
  const engineCache = engineCacheFor(cluster, dependencies)
  const attempt = async (signal: AbortSignal) => ({
    blocker: await deleteCollection(
      {
        collection,
        engineCache,
        ports: dependencies.ports,
        isAllowed: namespaceCheck(cluster, settings),
      },
      signal,
    ),
  })
  const { value, failure, requeueAfterSeconds } = await dependencies.deletions.run(
    uid,
    now,
    attempt,
    {
      engine: JSON.stringify(clusterConnection(cluster)),
    },
  )
  if (failure === undefined && value !== undefined && value.blocker === undefined) {
    await dependencies.deletions.abort(uid)
    return { collection, isDone: true }
  }
  return {
    collection,
    isDone: false,
    ...(value?.blocker !== undefined && { blocker: value.blocker }),
    ...(failure !== undefined && { blocker: errorMessage(failure.error), failure }),
    ...(requeueAfterSeconds !== undefined && { requeueAfterSeconds }),
  }
}

export function finalize(deletion: Deletion, { now }: Context): Desired<CollectionStatus> {
  const { collection, isDone, blocker, failure, requeueAfterSeconds } = deletion
  if (isDone) return { status: collection.status ?? {}, children: [], finalized: true }
  const subject = `collection ${collectionNameOf(collection)}`
  const message =
    blocker === undefined
      ? `${subject} is being deleted`
      : `${subject} cannot be deleted yet: ${blocker}`
  return {
    status: collectionStatus(collection, pendingResult('Deleting', message), { now }),
    children: [],
    resyncAfterSeconds: requeueAfterSeconds ?? RETRY_SECONDS,
    ...(failure !== undefined && { failures: [failure] }),
  }
}

/** Why this service cannot reach the collection at all. */
function unreachableReason(collection: VecCollection, settings: Settings): string | undefined {
  const { namespace, name } = clusterNameOf(collection)
  if (collection.spec.deletionPolicy === 'Retain' || isNamespaceWatched(settings, namespace))
    return undefined
  return namespaceNotWatched(`cluster ${namespace}/${name}`)
}

/** The cluster to delete from, read live because finalize requests contain no related objects. */
async function clusterToDeleteFrom(
  collection: VecCollection,
  { ports }: Dependencies,
  settings: Settings,
): Promise<VecCluster | undefined> {
  if (collection.spec.deletionPolicy === 'Retain') return undefined
  const cluster = await ports.cluster(clusterNameOf(collection))
  if (cluster === undefined) return undefined
  const forbidden = clusterAccessBlocker(cluster, collection.metadata.namespace, settings)
  return forbidden === undefined ? cluster : undefined
}

/** Why the collection is not deleted yet; undefined once nothing is left to delete. */
export type DeletionBlocker = string | undefined

/** Deletes a collection together with its resource: the only code that deletes data intentionally. */
export async function deleteCollection(
  input: ReconcileInput,
  signal: AbortSignal,
): Promise<DeletionBlocker> {
  const context = reconcileContext(input, signal)
  try {
    const existing = await context.engine.collectionInfo(context.name, signal)
    // A collection that this resource has never adopted and that may belong to another one is kept.
    if (existing === undefined || (await context.unknownOwner()) !== undefined) return undefined
    const unknownResult = await context.writes.delete()
    const remaining = await waitForCollection(context, (info) => info === undefined)
    if (remaining === undefined) return undefined
    return unknownResult?.message ?? `collection ${context.name} still exists`
  } catch (error) {
    // The name is an alias or belongs to an older resource, so there is nothing to delete.
    if (error instanceof Rejected) return undefined
    if (isExpected(error)) return error.message
    throw error
  }
}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof EngineError || error instanceof NotReady || error instanceof KubernetesError
  )
}
