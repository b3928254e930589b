/**
 * Sets the aliases of the backup after all collections, so that none points to a collection that is
 * still being restored. One request has all of them, but it is a list of actions, not a transaction:
 * if one fails, those before it remain, and readers see only some (docs/engine-notes.md, "Collections").
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { formatNames } from '../../crds/units.ts'
import { retryChange } from '../retry.ts'
import { failLostCollections } from './collection-identity.ts'
import { collectionsForPod, engineForPod, type RunContext } from './context.ts'
import type { SourceManifest, RestoreItem } from '../manifest-check.ts'

interface Alias {
  alias: string
  /** Name at the target. */
  collection: string
}

/**
 * Sets the aliases of the collections whose points are restored. An alias that already points to
 * another collection stays there: moving it would redirect its readers without their knowledge.
 */
export async function restoreAliases(
  manifest: Pick<SourceManifest, 'aliases' | 'collections'>,
  items: RestoreItem[],
  context: RunContext,
): Promise<void> {
  noteAbsentCollections(manifest, items, context)
  const restored = items.filter(({ name }) => context.progress.isInPlace(name))
  const aliases = targetAliases(manifest, restored, (note) => context.progress.note(note))
  if (aliases.length === 0) return
  const { signal } = context.tools
  let unowned: Alias[] = []
  try {
    // Read again before each attempt: during a pause, other clients may have set an alias, or replaced a collection.
    await retryChange(context, async () => {
      await failLostCollections(restored, context)
      const remaining = aliases.filter(({ collection }) => context.progress.isInPlace(collection))
      unowned = await findUnowned(remaining, context)
      if (unowned.length > 0)
        await collectionsForPod(context, 0).updateAliases(unowned.map(toAction), signal)
    })
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof EngineError) || unowned.length === 0) throw error
    const names = unowned.map(({ alias }) => alias).join(', ')
    throw new EngineError(
      `the points are restored, but not all of the aliases ${names}: ${error.message}`,
    )
  }
}

/**
 * A client may have moved an alias to a collection that it created during the backup. A restore of selected
 * collections is not expected to set the aliases of others.
 */
function noteAbsentCollections(
  { aliases = [], collections }: Pick<SourceManifest, 'aliases' | 'collections'>,
  items: RestoreItem[],
  { progress }: RunContext,
): void {
  if (items.length < collections.length) return
  const names = new Set(collections.map(({ name }) => name))
  const absent = aliases.filter(({ collection }) => !names.has(collection))
  if (absent.length === 0) return
  const listed = absent.map(({ alias, collection }) => `${alias} of ${collection}`)
  progress.note(
    `the backup does not have the collections of these aliases, which were not set: ${formatNames(listed, MAX_LISTED)}`,
  )
}

const MAX_LISTED = 10

/** The aliases that do not exist; notes those that point to another collection. */
async function findUnowned(aliases: Alias[], context: RunContext): Promise<Alias[]> {
  const { signal } = context.tools
  const [existing, names] = await Promise.all([
    collectionsForPod(context, 0).aliases(signal),
    engineForPod(context, 0).collections(signal),
  ])
  return aliases.filter(({ alias, collection }) => {
    const owner = names.includes(alias)
      ? alias
      : existing.find(({ alias_name }) => alias_name === alias)?.collection_name
    if (owner !== undefined && owner !== collection) {
      const reason = owner === alias ? 'is a collection' : `points to ${owner}`
      context.progress.note(`alias ${alias} ${reason} and was not changed`)
    }
    return owner === undefined
  })
}

function toAction({ alias, collection }: Alias) {
  return { create_alias: { collection_name: collection, alias_name: alias } }
}

/**
 * Each alias once. Earlier releases of the operator recorded aliases per collection, in the order
 * of the manifest: if an alias moved in the meantime, the later entry is the newer one.
 */
export function targetAliases(
  manifest: Pick<SourceManifest, 'aliases'>,
  items: Pick<RestoreItem, 'source' | 'name'>[],
  note: (text: string) => void,
): Alias[] {
  if (manifest.aliases !== undefined) {
    const names = new Map(items.map(({ source, name }) => [source.name, name]))
    return manifest.aliases.flatMap(({ alias, collection }) => {
      const name = names.get(collection)
      return name === undefined ? [] : [{ alias, collection: name }]
    })
  }
  const owners = new Map<string, string>()
  for (const { source, name } of items) {
    for (const alias of source.aliases) {
      const previousOwner = owners.get(alias)
      if (previousOwner !== undefined) {
        note(
          `alias ${alias} was recorded for ${previousOwner} and for ${name}: it is set for ${name}`,
        )
      }
      owners.set(alias, name)
    }
  }
  return [...owners].map(([alias, collection]) => ({ alias, collection }))
}
