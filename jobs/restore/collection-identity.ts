/**
 * Whether a collection is still the one that this restore works on. Other clients may delete it and create their
 * own under its name while the pod is being replaced: nothing of that one may be deleted or overwritten.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { askReachable } from '../collection-uuid.ts'
import type { RestoreItem } from '../manifest-check.ts'
import { retryTransient } from '../retry.ts'
import { everyNode, readUuid, recreated, requireSameUuid } from './change-collection.ts'
import type { Checkpoint } from './checkpoint.ts'
import { engineForPod, ordinals, recoveryForPod, type RunContext } from './context.ts'
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
  if (await hasPoints(name, context)) throw recreated(name)
}

/** As any node reports it: one that has not caught up does not know the collection. */
async function hasPoints(name: string, context: RunContext): Promise<boolean> {
  const { signal } = context.tools
  const found = await retryTransient(context, () =>
    Promise.all(
      ordinals(context).map((node) => recoveryForPod(context, node).collection(name, signal)),
    ),
  )
  return found.some((live) => (live?.points_count ?? 0) > 0)
}

/**
 * A collection that was completed earlier may have been deleted since, for example with its cluster, or deleted and
 * created again by another client. Every node is asked, because one that has not caught up still has the former one.
 * Of one that another pod completed only the name is known if its report did not list the collection.
 */
export async function failLostCollections(
  items: readonly RestoreItem[],
  context: RunContext,
): Promise<void> {
  const { progress } = context
  const restored = items.filter(({ name }) => progress.isInPlace(name))
  if (restored.length === 0) return
  const lists = await readNames(context)
  const uuids = await readUuids(context)
  for (const { name } of restored) {
    const reported = uuids.flatMap((byName) => byName?.get(name) ?? [])
    const isOther = reported.some((uuid) => !progress.isRestored(name, uuid))
    const without = lists.flatMap((names, node) =>
      names === undefined || names.includes(name) ? [] : [`${node}`],
    )
    const isOnNone = without.length === lists.filter((names) => names !== undefined).length
    if (isOnNone) progress.lost(name, collectionDeleted(name).message)
    else if (isOther) progress.lost(name, recreated(name).message)
    else if (without.length > 0) progress.lost(name, deletedMessage(without, name))
  }
}

function deletedMessage(nodes: string[], name: string): string {
  const [subject, verb] = nodes.length === 1 ? ['node', 'does'] : ['nodes', 'do']
  return `${collectionDeleted(name).message}: ${subject} ${nodes.join(', ')} ${verb} not list it any more`
}

/** The collections that each node lists, by ordinal; undefined for one that does not answer. */
function readNames(context: RunContext): Promise<(string[] | undefined)[]> {
  const { signal } = context.tools
  const engines = ordinals(context).map((node) => engineForPod(context, node))
  return retryTransient(context, () =>
    askReachable(engines, signal, (engine) => engine.collections(signal)),
  )
}

/** By ordinal, then by name; undefined for a node that does not report them. */
async function readUuids(context: RunContext): Promise<(Map<string, string> | undefined)[]> {
  const { signal, log } = context.tools
  try {
    return await retryTransient(context, () =>
      askReachable(everyNode(context), signal, (node) => node.uuids(signal)),
    )
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    log.warn({ reason: error.message }, 'identities of the restored collections not compared')
    return []
  }
}
