/** The cluster that is backed up: that its nodes are one, its collections, and the version all of them run. */
import { EngineError, Rejected } from '../../crds/errors.ts'
import { agreedView } from '../cluster-view.ts'
import { isPassing, patiently } from '../patience.ts'
import { engineOn, ordinals, snapshotsOn, type Work } from './work.ts'

/** Waits, within bounds, until all nodes are one cluster and list the same collections. */
export async function agreedCollections(work: Work): Promise<string[]> {
  const { collections } = await patiently(work, () =>
    agreedView({
      replicas: work.plan.cluster.replicas,
      engineOn: (ordinal) => engineOn(work, ordinal),
      signal: work.tools.signal,
    }),
  )
  return collections
}

/**
 * What is backed up: the names that the spec asks for, else all there are. What an earlier attempt found
 * stays among them, and fails by itself where it was dropped since. That list comes from the bucket, to
 * which others may write: it never takes a collection away, and adds none where the spec names them.
 */
export function collectionsToBackUp(
  asked: string[] | undefined,
  { earlier, agreed }: { earlier: string[]; agreed: string[] },
): string[] {
  if (asked !== undefined) return [...new Set(asked)]
  const added = agreed.filter((name) => !earlier.includes(name))
  return [...new Set([...earlier, ...added])]
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
  if (!(await agreedCollections(work)).includes(name)) {
    throw new Rejected(`there is no collection ${name}: it was deleted, or is an alias`)
  }
}

/** After a 404, which may be about something else: throws when no node that answers lists the collection. */
export async function refuseDeleted(name: string, work: Work): Promise<void> {
  const lists: string[][] = []
  for (const ordinal of ordinals(work)) {
    try {
      lists.push(await engineOn(work, ordinal).collections(work.tools.signal))
    } catch (error) {
      if (!isPassing(error)) throw error
    }
  }
  if (lists.length === 0 || lists.some((names) => names.includes(name))) return
  throw new Rejected(`collection ${name} was deleted during the backup`)
}

/** The version of every node; in the middle of a rolling upgrade snapshots would not fit together. */
export function agreedVersion(work: Work): Promise<string> {
  return patiently(work, async () => {
    const asked = ordinals(work).map(async (node) => {
      return { node, version: await engineOn(work, node).version(work.tools.signal) }
    })
    return oneVersion(await Promise.all(asked))
  })
}

/** Throws an `EngineError`, which passes, where nodes differ. */
export function oneVersion(views: { node: number; version: string }[]): string {
  const [version = '', ...others] = new Set(views.map((view) => view.version))
  if (others.length === 0) return version
  const each = views.map((view) => `node ${view.node} runs ${view.version}`)
  throw new EngineError(`the nodes run different versions: ${each.join(', ')}`)
}

/** `1.9.0` before `1.18.0`. */
export function orderOfVersions(one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true })
}
