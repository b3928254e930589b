/** Which collections are copied, and what can never work is refused before anything is. */
import { Rejected } from '../../crds/contract/errors.ts'
import { MAX_MIGRATED_COLLECTIONS } from '../../crds/contract/limits.ts'
import type { MigratedCollection } from '../../crds/contract/migration-job.ts'
import { withBackoff } from './backoff.ts'
import { resolveTargetName, type RunContext } from './context.ts'

/**
 * All the source lists, or those that are asked for, each with its points as the source counts them. One
 * that a pod before this one knew is among them, also where it was deleted meanwhile: that is told.
 */
export async function selectCollections(
  context: RunContext,
  previous: ReadonlyMap<string, MigratedCollection>,
): Promise<MigratedCollection[]> {
  const { options, source, tools } = context
  const available = await withBackoff(context, () => source.engine.collections(tools.signal))
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

/** Those that were created on the source since it was listed; none where collections are named. */
export async function findNewCollections(context: RunContext): Promise<MigratedCollection[]> {
  const { options, source, progress, tools } = context
  if (options.collections !== undefined) return []
  const available = await withBackoff(context, () => source.engine.collections(tools.signal))
  const added = available.filter((name) => !progress.has(name)).toSorted()
  if (added.length === 0) return []
  const { total } = progress.toResult()
  if (total + added.length > MAX_MIGRATED_COLLECTIONS)
    throw tooManyCollections(total + added.length)
  return withPointCounts(added, context)
}

/** Throws where a collection would be copied to a name that another one is copied to. */
export function rejectDuplicateTarget(name: string, context: RunContext): void {
  const targetName = resolveTargetName(name, context.options)
  const duplicate = context.progress
    .names()
    .find((other) => other !== name && resolveTargetName(other, context.options) === targetName)
  if (duplicate !== undefined) rejectDuplicateTargets([duplicate, name], context)
}

/** Each with its points as the source counts them, approximately. */
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

/** Points of two collections, or of one onto itself, would overwrite each other. */
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
