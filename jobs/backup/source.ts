/** The cluster that is backed up: its collections, and the one version all its nodes run. */
import { EngineError, Rejected } from '../../crds/errors.ts'
import { patiently } from '../patience.ts'
import { engineOn, ordinals, type Work } from './work.ts'

/**
 * Names to back up: those that are asked for, else all. One that is asked for and not there stays in
 * the list, and fails by itself.
 */
export async function chosenCollections(
  wanted: string[] | undefined,
  work: Work,
): Promise<string[]> {
  if (wanted !== undefined) return [...new Set(wanted)]
  return patiently(work, async () =>
    (await engineOn(work, 0).collections(work.tools.signal)).toSorted(),
  )
}

/** An alias would be followed, and its name is not that of a collection. */
export async function refuseUnknown(name: string, work: Work): Promise<void> {
  const names = await patiently(work, () => engineOn(work, 0).collections(work.tools.signal))
  if (!names.includes(name)) {
    throw new Rejected(`there is no collection ${name}: it was deleted, or is an alias`)
  }
}

/** The version of every node; in the middle of a rolling upgrade snapshots would not fit together. */
export async function agreedVersion(work: Work): Promise<string> {
  return patiently(work, async () => {
    const versions = new Set<string>()
    for (const ordinal of ordinals(work)) {
      versions.add(await engineOn(work, ordinal).version(work.tools.signal))
    }
    const [version = '', ...others] = versions
    if (others.length === 0) return version
    throw new EngineError(`the nodes run different versions: ${[...versions].join(', ')}`)
  })
}
