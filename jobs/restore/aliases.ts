/** All aliases of the backup at once, after all collections: no reader sees half of them. */
import { EngineError } from '../../crds/errors.ts'
import { patiently } from '../patience.ts'
import { collectionsOn, engineOn, type Work } from './work.ts'
import type { Source, Wanted } from './wanted.ts'

interface Alias {
  alias: string
  /** Name at the target. */
  collection: string
}

/**
 * Those of the collections whose points are back. One that points elsewhere by now stays there: moving it
 * would move its readers without their knowing.
 */
export async function restoreAliases(
  manifest: Pick<Source, 'aliases'>,
  wanted: Wanted[],
  work: Work,
): Promise<void> {
  const { signal } = work.tools
  const back = wanted.filter(({ name }) => work.tally.isInPlace(name))
  const aliases = aliasesOf(manifest, back, (note) => work.tally.note(note))
  if (aliases.length === 0) return
  const engine = collectionsOn(work, 0)
  const [held, names] = await patiently(work, () =>
    Promise.all([engine.aliases(signal), engineOn(work, 0).collections(signal)]),
  )
  const free = aliases.filter(({ alias, collection }) => {
    const owner = names.includes(alias)
      ? alias
      : held.find(({ alias_name }) => alias_name === alias)?.collection_name
    if (owner !== undefined && owner !== collection) {
      const what = owner === alias ? 'is a collection' : `points to ${owner}`
      work.tally.note(`alias ${alias} ${what} and was left as it is`)
    }
    return owner === undefined
  })
  if (free.length === 0) return
  const actions = free.map(({ alias, collection }) => ({
    create_alias: { collection_name: collection, alias_name: alias },
  }))
  try {
    await patiently(work, () => engine.updateAliases(actions, signal))
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    const names = free.map(({ alias }) => alias).join(', ')
    throw new EngineError(
      `the points are back, but not all of the aliases ${names}: ${error.message}`,
    )
  }
}

/**
 * Each alias once. Earlier operators recorded them collection by collection, in the order of the manifest:
 * of an alias that moved meanwhile the later entry is the newer one.
 */
export function aliasesOf(
  manifest: Pick<Source, 'aliases'>,
  wanted: Pick<Wanted, 'source' | 'name'>[],
  note: (text: string) => void,
): Alias[] {
  if (manifest.aliases !== undefined) {
    const names = new Map(wanted.map(({ source, name }) => [source.name, name]))
    return manifest.aliases.flatMap(({ alias, collection }) => {
      const name = names.get(collection)
      return name === undefined ? [] : [{ alias, collection: name }]
    })
  }
  const owners = new Map<string, string>()
  for (const { source, name } of wanted) {
    for (const alias of source.aliases) {
      const other = owners.get(alias)
      if (other !== undefined) {
        note(`alias ${alias} was recorded for ${other} and for ${name}: it is set for ${name}`)
      }
      owners.set(alias, name)
    }
  }
  return [...owners].map(([alias, collection]) => ({ alias, collection }))
}
