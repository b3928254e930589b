/** The aliases of all collections, as one reading: one that moves meanwhile belongs to one collection. */
import type { Manifest, ManifestCollection } from '../../crds/manifest.ts'
import { EngineCollections } from '../clients/engine-collections.ts'
import { patiently } from '../patience.ts'
import { engineOn, type Work } from './work.ts'

export type Aliases = NonNullable<Manifest['aliases']>

/** In the order of their names. */
export async function readAliases(work: Work): Promise<Aliases> {
  const engine = new EngineCollections(engineOn(work, 0))
  const found = await patiently(work, () => engine.aliases(work.tools.signal))
  return found
    .map(({ alias_name: alias, collection_name: collection }) => ({ alias, collection }))
    .sort((one, other) => (one.alias < other.alias ? -1 : 1))
}

/** What changed between two readings, in words; empty where nothing did. */
export function aliasChanges(before: Aliases, after: Aliases): string[] {
  const then = new Map(before.map(({ alias, collection }) => [alias, collection]))
  const now = new Map(after.map(({ alias, collection }) => [alias, collection]))
  return [...new Set([...then.keys(), ...now.keys()])].flatMap((alias) => {
    const [from, to] = [then.get(alias), now.get(alias)]
    if (from === to) return []
    if (from === undefined) return [`alias ${alias} was created on ${to ?? ''}`]
    if (to === undefined) return [`alias ${alias} of ${from} was deleted`]
    return [`alias ${alias} moved from ${from} to ${to}`]
  })
}

/** Each collection with its own aliases of that reading: operators before this one read them there. */
export function withAliases<Collection extends ManifestCollection>(
  collections: Collection[],
  aliases: Aliases,
): Collection[] {
  return collections.map((one) => ({
    ...one,
    aliases: aliases.filter(({ collection }) => collection === one.name).map(({ alias }) => alias),
  }))
}
