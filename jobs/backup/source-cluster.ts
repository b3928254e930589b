/**
 * The cluster to back up: checks that its nodes form one cluster, selects its collections, and
 * reads their aliases and the version that all nodes run.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { Manifest, ManifestCollection } from '../../crds/contract/manifest.ts'
import { EngineCollections } from '../clients/engine/collections.ts'
import { readConsistentState } from '../cluster-consistency.ts'
import { isTransient, retryTransient } from '../retry.ts'
import { engineForPod, ordinals, snapshotsForPod, type RunContext } from './context.ts'

/** Waits, within bounds, until all nodes form one cluster and list the same collections. */
export async function clusterCollections(context: RunContext): Promise<string[]> {
  const { collections } = await retryTransient(context, () =>
    readConsistentState({
      replicas: context.plan.cluster.replicas,
      engineForPod: (ordinal) => engineForPod(context, ordinal),
      signal: context.tools.signal,
    }),
  )
  return collections
}

/** No node that answers lists the collection. */
export class CollectionDeleted extends Rejected {}

/**
 * The collections to back up: those that the spec names, or all. Collections that an earlier
 * attempt found stay selected: the message names those that were deleted since. That list comes
 * from the bucket, to which others may have write access: it never removes a collection, and adds
 * none if the spec names them.
 */
export function selectCollections(
  requested: string[] | undefined,
  { previous, existing }: { previous: string[]; existing: string[] },
): string[] {
  if (requested !== undefined) return [...new Set(requested)]
  const added = existing.filter((name) => !previous.includes(name))
  return [...new Set([...previous, ...added])]
}

/** Points of each collection, to estimate its bytes; missing if the engine does not report them. */
export async function pointCounts(
  names: string[],
  context: RunContext,
): Promise<Map<string, number>> {
  const { signal, log } = context.tools
  const points = new Map<string, number>()
  for (const name of names) {
    try {
      const { points_count } = await snapshotsForPod(context, 0).collection(name, signal)
      points.set(name, points_count ?? 0)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof EngineError)) throw error
      // A deleted collection has no bytes; code that needs the engine waits for it elsewhere.
      if (error.status === 404) continue
      log.info({ reason: error.message }, 'point counts unavailable, total bytes unknown')
      return new Map()
    }
  }
  return points
}

/** The engine would follow an alias, whose name is not that of the collection. */
export async function requireCollection(name: string, context: RunContext): Promise<void> {
  if (!(await clusterCollections(context)).includes(name)) {
    throw new CollectionDeleted(`there is no collection ${name}: it was deleted, or is an alias`)
  }
}

/**
 * Called after a 404, which may have another cause: throws if no node that answers lists the
 * collection.
 */
export async function rejectIfDeleted(name: string, context: RunContext): Promise<void> {
  const lists: string[][] = []
  for (const ordinal of ordinals(context)) {
    try {
      lists.push(await engineForPod(context, ordinal).collections(context.tools.signal))
    } catch (error) {
      if (!isTransient(error)) throw error
    }
  }
  if (lists.length === 0 || lists.some((names) => names.includes(name))) return
  throw new CollectionDeleted(`collection ${name} was deleted during the backup`)
}

/** The version of every node; snapshots taken during a rolling upgrade would not fit together. */
export function clusterVersion(context: RunContext): Promise<string> {
  return retryTransient(context, async () => {
    const requests = ordinals(context).map(async (node) => {
      return { node, version: await engineForPod(context, node).version(context.tools.signal) }
    })
    return requireSameVersion(await Promise.all(requests))
  })
}

/** Throws an `EngineError`, which is transient, if nodes differ. */
export function requireSameVersion(views: { node: number; version: string }[]): string {
  const versions = new Set(views.map((view) => view.version))
  if (versions.size === 1) return [...versions].join('')
  const each = views.map((view) => `node ${view.node} runs ${view.version}`)
  throw new EngineError(`the nodes run different versions: ${each.join(', ')}`)
}

export type Aliases = NonNullable<Manifest['aliases']>

/** Sorted by name. */
export async function readAliases(context: RunContext): Promise<Aliases> {
  const engine = new EngineCollections(engineForPod(context, 0))
  const found = await retryTransient(context, () => engine.aliases(context.tools.signal))
  return found
    .map(({ alias_name: alias, collection_name: collection }) => ({ alias, collection }))
    .sort((a, b) => (a.alias < b.alias ? -1 : 1))
}

/** Describes the changes between two readings; empty if there are none. */
export function aliasChanges(before: Aliases, after: Aliases): string[] {
  const beforeByAlias = new Map(before.map(({ alias, collection }) => [alias, collection]))
  const afterByAlias = new Map(after.map(({ alias, collection }) => [alias, collection]))
  return [...new Set([...beforeByAlias.keys(), ...afterByAlias.keys()])].flatMap((alias) => {
    const [from, to] = [beforeByAlias.get(alias), afterByAlias.get(alias)]
    if (from === to) return []
    if (from === undefined) return [`alias ${alias} was created on ${to ?? ''}`]
    if (to === undefined) return [`alias ${alias} of ${from} was deleted`]
    return [`alias ${alias} moved from ${from} to ${to}`]
  })
}

/** Adds to each collection its own aliases of that reading: earlier operators read them there. */
export function withAliases<Collection extends ManifestCollection>(
  collections: Collection[],
  aliases: Aliases,
): Collection[] {
  return collections.map((entry) => ({
    ...entry,
    aliases: aliases
      .filter(({ collection }) => collection === entry.name)
      .map(({ alias }) => alias),
  }))
}
