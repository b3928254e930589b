/**
 * Changes of the collection that is being restored. Hours pass between them, and pauses while one is retried: if
 * another client deleted the collection and created its own meanwhile, nothing of that one may be changed.
 */
import { Rejected } from '../../crds/contract/errors.ts'
import { agreedUuid, isOther, isReplaced, type Question } from '../collection-uuid.ts'
import { retryChange, retryTransient } from '../retry.ts'
import { ordinals, snapshotsForPod, type EngineAccess, type RunContext } from './context.ts'

/** A change by consensus, retried; each attempt is made only if the collection is still the one that is being restored. */
export function changeCollection<Result>(
  name: string,
  context: RunContext,
  change: () => Promise<Result>,
): Promise<Result> {
  return retryChange(context, async () => {
    await requireStillOurs(name, context)
    return change()
  })
}

/**
 * One check before a change by consensus, in which nodes that do not answer take no part. Throws `Rejected` if the
 * collection was replaced, and an error that may pass if the nodes do not agree.
 */
export async function requireStillOurs(name: string, context: RunContext): Promise<void> {
  const { progress, tools } = context
  if (await isReplaced(uuidQuestion(name, context, tools.signal), progress.uuid))
    throw recreated(name)
}

/**
 * Runs directly before a node begins a recovery, which overwrites what it holds. Throws if the collection that is
 * being restored was replaced by another one.
 */
export async function requireUnreplaced(name: string, context: RunContext): Promise<void> {
  const { uuid } = context.progress
  if (uuid !== undefined) await requireSameUuid(name, uuid, context)
}

/** Throws if another collection has this name by now on the nodes. One that is gone is not checked here. */
export async function requireSameUuid(
  name: string,
  expected: string,
  context: RunContext,
): Promise<void> {
  if (isOther(await readUuid(name, context), expected)) throw recreated(name)
}

/** Undefined if there is no such collection, or if the engine does not report it. Waits until all nodes agree. */
export function readUuid(name: string, context: RunContext): Promise<string | undefined> {
  const { signal } = context.tools
  return retryTransient(context, () => agreedUuid(uuidQuestion(name, context, signal)))
}

/** Which collection has this name on the nodes of the target. */
export function uuidQuestion(name: string, access: EngineAccess, signal: AbortSignal): Question {
  return { name, nodes: everyNode(access), signal }
}

export function everyNode(access: EngineAccess) {
  return ordinals(access).map((ordinal) => snapshotsForPod(access, ordinal))
}

export function recreated(name: string): Rejected {
  return new Rejected(
    `collection ${name} was deleted and created again by another client during the restore: delete it or restore under another name, and create the VecRestore again`,
  )
}
