/**
 * The cluster to back up: checks that its nodes form one cluster, selects its collections, and
 * reads their aliases and the version that all nodes run.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { Manifest, ManifestCollection } from '../../crds/contract/manifest.ts'
import { EngineCollections } from '../clients/engine/collections.ts'
import { EngineRecovery } from '../clients/engine/recovery.ts'
import { readConsistentState } from '../cluster-consistency.ts'
import { isTransient, poll, retryTransient } from '../retry.ts'
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

/** Waits, within bounds, until every node that answers knows each change that was confirmed so far. */
export function waitForConfirmedChanges(context: RunContext): Promise<void> {
  const requireConfirmed = confirmedChangesCheck(context)
  return retryTransient(context, () => requireConfirmed(ordinals(context)))
}

/** A node is usually some milliseconds behind. */
const APPLIED_POLL_MS: readonly number[] = [100, 400, 1_500]

/**
 * Returns a check that throws an `EngineError`, which is transient, while one of the nodes has not
 * applied what any of them had applied at the first call. A change is confirmed to its client once
 * one node has applied it, and another may be behind for hours (docs/engine-notes.md): it reports a
 * former configuration. Nodes that do not answer are left out: who reads from them waits for them.
 */
export function confirmedChangesCheck(
  context: RunContext,
): (nodes: readonly number[]) => Promise<void> {
  const { time, signal } = context.tools
  let confirmed: number | undefined
  return async (nodes) => {
    await poll({ time, signal, pauseMs: APPLIED_POLL_MS }, async ({ pauses }) => {
      const applied = await readAppliedIndexes(nodes, context)
      const newest = (confirmed ??= applied.size === 0 ? undefined : Math.max(...applied.values()))
      const behind = [...applied].find(([, index]) => index < (newest ?? 0))
      if (newest === undefined || behind === undefined) return true
      if (pauses < APPLIED_POLL_MS.length) return undefined
      const [node, index] = behind
      throw new EngineError(
        `node ${node} has not applied ${newest - index} of the changes that another node has applied`,
      )
    })
  }
}

/** The last change of the consensus log that each node has applied, of the nodes that answer. */
async function readAppliedIndexes(
  nodes: readonly number[],
  context: RunContext,
): Promise<Map<number, number>> {
  const { signal } = context.tools
  const entries = nodes.map(async (node): Promise<[number, number][]> => {
    try {
      const view = await new EngineRecovery(engineForPod(context, node)).cluster(signal)
      if (view.status === 'disabled') return [[node, 0]]
      return [[node, view.raft_info.commit - view.raft_info.pending_operations]]
    } catch (error) {
      signal.throwIfAborted()
      if (!isTransient(error)) throw error
      return []
    }
  })
  return new Map((await Promise.all(entries)).flat())
}

export type Aliases = NonNullable<Manifest['aliases']>

/**
 * Sorted by name. Of the node that has applied most: it has every change that was confirmed to a
 * client.
 */
export async function readAliases(context: RunContext): Promise<Aliases> {
  const found = await retryTransient(context, async () => {
    const applied = await readAppliedIndexes(ordinals(context), context)
    const newest = Math.max(...applied.values())
    const [ordinal = 0] = [...applied].find(([, index]) => index === newest) ?? []
    return new EngineCollections(engineForPod(context, ordinal)).aliases(context.tools.signal)
  })
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
