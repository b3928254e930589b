/**
 * Target collections that other clients delete, or delete and create again, during the migration. Also those that were
 * completed earlier, perhaps by another pod, and are gone since, for example with their cluster.
 */
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { agreedUuidOfReachable, askReachable } from '../collection-uuid.ts'
import { changeWithBackoff, withBackoff } from './backoff.ts'
import { resolveTargetName, type Endpoint, type RunContext } from './context.ts'
import { listedByAnyNode } from './list-collections.ts'
import { collectionDeleted } from './source-collection.ts'

/** A collection of the target; without a uuid if the engine reports none. */
export interface TargetCollection {
  name: string
  uuid: string | undefined
}

/** A change, retried; each attempt is made only if the collection is still this one. */
export function changeTarget<Result>(
  collection: TargetCollection,
  context: RunContext,
  change: () => Promise<Result>,
): Promise<Result> {
  return changeWithBackoff(context, async () => {
    const { signal } = context.tools
    if (await isOther(collection, context, signal)) throw recreated(collection.name)
    return change()
  })
}

/** How long points are written without asking whether the collection is still the same. */
const WRITE_MS = 60_000

/** Asks before a batch of points is written, at most once a minute. */
export class TargetWatch {
  #uuid: string | undefined
  #confirmedAt = -Infinity

  /** Throws `Rejected` if another client has replaced the collection that the current one is copied to. */
  async requireSame(name: string, context: RunContext): Promise<void> {
    const { progress, tools } = context
    const { time, signal } = tools
    const uuid = progress.position?.targetUuid
    const askedAt = time.monotonicMs()
    if (uuid === this.#uuid && askedAt - this.#confirmedAt < WRITE_MS) return
    if (await isOther({ name, uuid }, context, signal)) throw recreated(name)
    this.#uuid = uuid
    this.#confirmedAt = askedAt
  }
}

/** The position with the identity of the target collection, if the engine reports one. */
export async function withIdentity(
  position: MigrationCheckpoint,
  targetName: string,
  context: RunContext,
): Promise<MigrationCheckpoint> {
  const { target, tools } = context
  if (position.targetUuid !== undefined) return position
  const question = { name: targetName, nodes: target.snapshots, signal: tools.signal }
  const uuid = await withBackoff(context, () => agreedUuidOfReachable(question))
  return { ...position, ...(uuid !== undefined && { targetUuid: uuid }) }
}

/** Throws if another collection has the name of the target by now. One that is gone is not checked here. */
export async function requireSameTarget(
  { targetUuid }: MigrationCheckpoint,
  targetName: string,
  context: RunContext,
): Promise<void> {
  if (await isReplaced(targetName, targetUuid, context)) throw recreated(targetName)
}

/** Whether the target has another uuid than this one; false without uuids. */
export async function isReplaced(
  name: string,
  uuid: string | undefined,
  context: RunContext,
): Promise<boolean> {
  return withBackoff(context, () => isOther({ name, uuid }, context, context.tools.signal))
}

/**
 * One attempt, at the nodes that answer: a node that has not caught up still reports the former collection, and the
 * others decide with it. Throws if they do not agree, which may pass.
 */
export async function isOther(
  { name, uuid: expected }: TargetCollection,
  { target }: Pick<RunContext, 'target'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (expected === undefined) return false
  const uuid = await agreedUuidOfReachable({ name, nodes: target.snapshots, signal })
  return uuid !== undefined && uuid !== expected
}

/** Of a collection that another pod completed only the name is known if its report did not list the collection. */
export async function failDeletedCollections(context: RunContext): Promise<void> {
  const { source, target, progress, options, tools } = context
  const existing = await withBackoff(context, () => listTargetCollections(context))
  const uuids = await withBackoff(context, () =>
    askReachable(target.snapshots, tools.signal, (node) => node.uuids(tools.signal)),
  )
  for (const { name, proof, pointsCopied = 0 } of progress.completedCollections()) {
    const targetName = resolveTargetName(name, options)
    const { message } = collectionDeleted(targetName, target)
    const reported = uuids.flatMap((byName) => byName?.get(targetName) ?? [])
    if (!existing.has(targetName)) progress.failed(name, `${name}: ${message}`)
    else if (reported.some((uuid) => !progress.isTarget(name, uuid)))
      progress.failed(name, `${name}: ${recreated(targetName).message}`)
    // Without a proof the number is that of the source at present.
    else if (
      proof !== undefined &&
      pointsCopied > 0 &&
      (await isEmpty(targetName, target, context)) &&
      !(await isEmpty(name, source, context))
    ) {
      progress.failed(name, `${name}: ${message}, or emptied: it has no points any more`)
    }
  }
}

function recreated(name: string): Rejected {
  return new Rejected(
    `collection ${name} was deleted and created again by another client on the target during the migration: delete it or use collectionMapping, and create another VecMigration`,
  )
}

async function listTargetCollections(context: RunContext): Promise<Set<string>> {
  const { target } = context
  const listed = await listedByAnyNode(target, context)
  if (listed !== undefined) return listed
  throw new EngineError(`no node of ${target.engine.node} lists its collections`)
}

/** One that was deleted and created again has the name of the collection, and not its points. */
async function isEmpty(name: string, { points }: Endpoint, context: RunContext): Promise<boolean> {
  const request = { limit: 1, idsOnly: true } as const
  try {
    const page = await withBackoff(context, () =>
      points.scroll(name, request, context.tools.signal),
    )
    return page.count === 0
  } catch (error) {
    // The node that was asked has not caught up: another one lists the collection.
    if (error instanceof EngineError && error.status === 404) return false
    throw error
  }
}
