/** The cluster that is backed up: its collections, and the one version all its nodes run. */
import { EngineError, Rejected } from '../../crds/errors.ts'
import { patiently } from '../patience.ts'
import { engineOn, ordinals, snapshotsOn, type Work } from './work.ts'

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

/** Points of each collection, to guess its bytes by; none where the engine does not tell. */
export async function pointsOf(names: string[], work: Work): Promise<Map<string, number>> {
  const { signal, log } = work.tools
  const points = new Map<string, number>()
  for (const name of names) {
    try {
      const { points_count } = await snapshotsOn(work, 0).collection(name, signal)
      points.set(name, points_count ?? 0)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof EngineError)) throw error
      // One that was deleted has no bytes; an engine that is away is waited for where it matters.
      if (error.status === 404) continue
      log.info({ reason: error.message }, 'the bytes to come are not known')
      return new Map()
    }
  }
  return points
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
