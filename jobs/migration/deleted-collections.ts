/**
 * Collections that were completed earlier, perhaps by another pod, and that other clients have deleted from the target
 * since, for example with its cluster.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { withBackoff } from './backoff.ts'
import { resolveTargetName, type Endpoint, type RunContext } from './context.ts'
import { listedByAnyNode } from './list-collections.ts'
import { collectionDeleted } from './source-collection.ts'

export async function failDeletedCollections(context: RunContext): Promise<void> {
  const { source, target, progress, options } = context
  const existing = await withBackoff(context, () => listTargetCollections(context))
  for (const { name, proof, pointsCopied = 0 } of progress.completedCollections()) {
    const targetName = resolveTargetName(name, options)
    const { message } = collectionDeleted(targetName, target)
    if (!existing.has(targetName)) progress.failed(name, `${name}: ${message}`)
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
