/**
 * Selects the collections to copy, and rejects what can never succeed before anything is copied.
 */
import { Rejected } from '../../crds/contract/errors.ts'
import { MAX_MIGRATED_COLLECTIONS } from '../../crds/contract/limits.ts'
import type { MigratedCollection } from '../../crds/contract/migration-job.ts'
import { withBackoff } from './backoff.ts'
import { resolveTargetName, type RunContext } from './context.ts'
import { formatSource, listSourceCollections } from './list-collections.ts'

/**
 * All collections of the source, or those that the spec names, each with its point count at the
 * source. Collections known to an earlier pod are included even if they have been deleted since, so
 * that the deletion is reported.
 */
export async function selectCollections(
  context: RunContext,
  previous: ReadonlyMap<string, MigratedCollection>,
): Promise<MigratedCollection[]> {
  const { options } = context
  const available = await listSourceCollections(context)
  const candidates = [...available, ...previous.keys()]
  const selected = [...new Set(options.collections ?? candidates.toSorted())]
  const missing = selected.filter((name) => !candidates.includes(name))
  if (missing.length > 0) {
    throw new Rejected(`Collections not present in source: ${missing.join(', ')}`)
  }
  if (selected.length > MAX_MIGRATED_COLLECTIONS) throw tooManyCollections(selected.length)
  rejectDuplicateTargets(selected, context)
  return withPointCounts(selected, context)
}

/**
 * Collections that were created on the source since it was listed; none if the spec names
 * collections.
 */
export async function findNewCollections(context: RunContext): Promise<MigratedCollection[]> {
  const { options, plan, progress } = context
  const isManaged = 'cluster' in plan.source
  if (options.collections !== undefined && !isManaged) return []
  // Nodes that no longer form one cluster may have answered with less than there is.
  progress.setUnreachedSource(formatSource(context))
  const available = await listSourceCollections(context)
  progress.setUnreachedSource(undefined)
  if (options.collections !== undefined) return []
  const added = available.filter((name) => !progress.has(name)).toSorted()
  if (added.length === 0) return []
  const { total } = progress.toResult()
  if (total + added.length > MAX_MIGRATED_COLLECTIONS)
    throw tooManyCollections(total + added.length)
  return withPointCounts(added, context)
}

/** Throws if another collection is copied to the same target name. */
export function rejectDuplicateTarget(name: string, context: RunContext): void {
  const targetName = resolveTargetName(name, context.options)
  const duplicate = context.progress
    .names()
    .find((other) => other !== name && resolveTargetName(other, context.options) === targetName)
  if (duplicate !== undefined) rejectDuplicateTargets([duplicate, name], context)
}

/** Returns each collection with its approximate point count at the source. */
async function withPointCounts(
  names: readonly string[],
  context: RunContext,
): Promise<MigratedCollection[]> {
  const { options, source, tools } = context
  const collections: MigratedCollection[] = []
  for (const name of names) {
    const info = await withBackoff(context, () =>
      source.collections.collectionInfo(name, tools.signal),
    )
    collections.push({
      name,
      targetName: resolveTargetName(name, options),
      status: 'Pending',
      pointsTotal: info?.points_count ?? 0,
      pointsCopied: 0,
    })
  }
  return collections
}

function tooManyCollections(count: number): Rejected {
  return new Rejected(
    `the source has ${count} collections, and one VecMigration copies ${MAX_MIGRATED_COLLECTIONS}: name them in spec.collections of several`,
  )
}

/**
 * Rejects two collections with one target and a collection copied onto itself: their points would
 * overwrite each other.
 */
function rejectDuplicateTargets(names: readonly string[], { options, plan }: RunContext): void {
  const sourceByTarget = new Map<string, string>()
  for (const name of names) {
    const targetName = resolveTargetName(name, options)
    const other = sourceByTarget.get(targetName)
    if (other !== undefined) {
      throw new Rejected(`both ${other} and ${name} would be copied to ${targetName}`)
    }
    sourceByTarget.set(targetName, name)
    if (name === targetName && isSameCluster(plan)) {
      throw new Rejected(`${name} would be copied onto itself: use collectionMapping`)
    }
  }
}

function isSameCluster({ source, target }: RunContext['plan']): boolean {
  return (
    'cluster' in source &&
    source.cluster.namespace === target.namespace &&
    source.cluster.name === target.name
  )
}
