/**
 * Whether a collection is still the one that this restore works on. Other clients may delete it and create their
 * own under its name while the pod is being replaced: nothing of that one may be deleted or overwritten.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { RestoreItem } from '../manifest-check.ts'
import { retryTransient } from '../retry.ts'
import { findCollection } from './collection-checks.ts'
import type { Checkpoint } from './checkpoint.ts'
import { engineOn, snapshotsOn, type RunContext } from './context.ts'
import { collectionDeleted } from './wait-for-shards.ts'

/** Records which collection it is, after it was created or found. */
export async function recordIdentity(name: string, context: RunContext): Promise<void> {
  const uuid = await readUuid(name, context)
  if (uuid !== undefined) await context.progress.recordUuid(uuid)
}

/**
 * Throws if the collection is not the one that the checkpoint names. A pod that was killed while it created the
 * collection has recorded no uuid and restored nothing: points in it are those of another client.
 */
export async function requireOwnCollection(
  name: string,
  checkpoint: Checkpoint,
  context: RunContext,
): Promise<void> {
  if (checkpoint.uuid !== undefined) return requireSameUuid(name, checkpoint.uuid, context)
  if (!checkpoint.isOurs || checkpoint.nodesDone > 0 || checkpoint.shardsDone.length > 0) return
  if (checkpoint.running === 'unknown' || checkpoint.running.length > 0) return
  const target = await retryTransient(context, () => findCollection(name, context))
  if ((target?.live.points_count ?? 0) > 0) throw recreated(name)
}

/**
 * Runs before each recovery, which overwrites: hours may have passed since the one before. Throws if the collection
 * that is being restored was replaced by another one.
 */
export async function requireUnreplaced(name: string, context: RunContext): Promise<void> {
  const { uuid } = context.progress
  if (uuid !== undefined) await requireSameUuid(name, uuid, context)
}

/** Throws if another collection has this name by now. One that is gone is not checked here. */
export async function requireSameUuid(
  name: string,
  expected: string,
  context: RunContext,
): Promise<void> {
  const isOther = await retryTransient(context, () =>
    snapshotsOn(context, 0).isReplaced(name, expected, context.tools.signal),
  )
  if (isOther) throw recreated(name)
}

/**
 * A collection that was completed earlier may have been deleted since, for example with its cluster, or deleted and
 * created again by another client. Of one that another pod completed only the name is known.
 */
export async function failLostCollections(
  items: readonly RestoreItem[],
  context: RunContext,
): Promise<void> {
  const { progress, tools } = context
  const restored = items.filter(({ name }) => progress.isInPlace(name))
  if (restored.length === 0) return
  const existing = await retryTransient(context, () =>
    engineOn(context, 0).collections(tools.signal),
  )
  const uuids = await readUuids(context)
  for (const { name } of restored) {
    const [uuid, expected] = [uuids.get(name), progress.restoredUuid(name)]
    const isOther = uuid !== undefined && expected !== undefined && uuid !== expected
    if (!existing.includes(name)) {
      progress.lost(name, collectionDeleted(name).message)
    } else if (isOther) progress.lost(name, recreated(name).message)
  }
}

/** By name; empty if the node does not report them. */
async function readUuids(context: RunContext): Promise<Map<string, string>> {
  const { signal, log } = context.tools
  try {
    return await retryTransient(context, () => snapshotsOn(context, 0).uuids(signal))
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    log.warn({ reason: error.message }, 'identities of the restored collections not compared')
    return new Map()
  }
}

/** Undefined if there is no such collection, or if the engine does not report it. */
async function readUuid(name: string, context: RunContext): Promise<string | undefined> {
  const { uuid } = await retryTransient(context, () =>
    snapshotsOn(context, 0).identity(name, context.tools.signal),
  )
  return uuid
}

function recreated(name: string): Rejected {
  return new Rejected(
    `collection ${name} was deleted and created again by another client during the restore: delete it or restore under another name, and create the VecRestore again`,
  )
}
