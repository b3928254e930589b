/**
 * Target collections that other clients delete, or delete and create again, during the migration. Also those that were
 * completed earlier, perhaps by another pod, and are gone since, for example with their cluster.
 */
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { withBackoff } from './backoff.ts'
import { resolveTargetName, type Endpoint, type RunContext } from './context.ts'
import { listedByAnyNode } from './list-collections.ts'
import { collectionDeleted } from './source-collection.ts'

/** The position with the identity of the target collection, if the engine reports one. */
export async function withIdentity(
  position: MigrationCheckpoint,
  targetName: string,
  context: RunContext,
): Promise<MigrationCheckpoint> {
  const { target, tools } = context
  if (position.targetUuid !== undefined) return position
  const { uuid } = await withBackoff(context, () =>
    target.snapshots.identity(targetName, tools.signal),
  )
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
  targetName: string,
  targetUuid: string | undefined,
  context: RunContext,
): Promise<boolean> {
  const { target, tools } = context
  if (targetUuid === undefined) return false
  return withBackoff(context, () =>
    target.snapshots.isReplaced(targetName, targetUuid, tools.signal),
  )
}

/** Of a collection that another pod completed only the name is known. */
export async function failDeletedCollections(context: RunContext): Promise<void> {
  const { source, target, progress, options, tools } = context
  const existing = await withBackoff(context, () => listTargetCollections(context))
  const uuids = await withBackoff(context, () => target.snapshots.uuids(tools.signal))
  for (const { name, proof, pointsCopied = 0 } of progress.completedCollections()) {
    const targetName = resolveTargetName(name, options)
    const { message } = collectionDeleted(targetName, target)
    const [uuid, expected] = [uuids.get(targetName), progress.targetUuid(name)]
    if (!existing.has(targetName)) progress.failed(name, `${name}: ${message}`)
    else if (uuid !== undefined && expected !== undefined && uuid !== expected)
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
