/**
 * Target collections that other clients delete, or delete and create again, during the migration. Also those that were
 * completed earlier, perhaps by another pod, and are gone since, for example with their cluster.
 */
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import {
  agreedUuidOfReachable,
  askReachable,
  isReplaced,
  type Question,
} from '../collection-uuid.ts'
import { changeWithBackoff, withBackoff } from './backoff.ts'
import { resolveTargetName, type Endpoint, type RunContext, type TargetWatch } from './context.ts'
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
    await requireUnchanged(collection, context)
    return change()
  })
}

/** How long points are written without asking whether the collection is still the same. */
const WRITE_MS = 60_000

/** Asks the nodes at most once a minute. */
export class TargetUuidWatch implements TargetWatch {
  #uuid: string | undefined
  #confirmedAt = -Infinity

  async requireSame(name: string, context: RunContext): Promise<void> {
    const { progress, tools } = context
    const uuid = progress.position?.targetUuid
    const askedAt = tools.time.monotonicMs()
    if (uuid === this.#uuid && askedAt - this.#confirmedAt < WRITE_MS) return
    await requireUnchanged({ name, uuid }, context)
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
  const uuid = await withBackoff(context, () =>
    agreedUuidOfReachable(uuidQuestion(targetName, target, tools.signal)),
  )
  return { ...position, ...(uuid !== undefined && { targetUuid: uuid }) }
}

/** Throws if another collection has the name of the target by now. One that is gone is not checked here. */
export async function requireSameTarget(
  { targetUuid }: MigrationCheckpoint,
  targetName: string,
  context: RunContext,
): Promise<void> {
  const collection = { name: targetName, uuid: targetUuid }
  await withBackoff(context, () => requireUnchanged(collection, context))
}

/** One attempt: throws `Rejected` if another collection has the name, and an error that may pass if the nodes do not agree. */
async function requireUnchanged(
  { name, uuid }: TargetCollection,
  { target, tools }: RunContext,
): Promise<void> {
  if (await isReplaced(uuidQuestion(name, target, tools.signal), uuid)) throw recreated(name)
}

/** Which collection has this name on the nodes of the target. */
export function uuidQuestion(name: string, target: Endpoint, signal: AbortSignal): Question {
  return { name, nodes: target.snapshots, signal }
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
