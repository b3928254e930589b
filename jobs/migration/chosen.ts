/** Which collections are copied, and what can never work is refused before anything is. */
import { Rejected } from '../../crds/errors.ts'
import type { MigratedCollection } from '../../crds/migration-command.ts'
import { paced } from './pace.ts'
import { targetNameOf, type Work } from './work.ts'

/**
 * All the source lists, or those that are asked for, each with its points as the source counts them. One
 * that a pod before this one knew is among them, also where it was deleted meanwhile: that is told.
 */
export async function chosenCollections(
  work: Work,
  known: ReadonlyMap<string, MigratedCollection>,
): Promise<MigratedCollection[]> {
  const { order, source, tools } = work
  const listed = await paced(work, () => source.engine.collections(tools.signal))
  const all = [...listed, ...known.keys()]
  const wanted = [...new Set(order.collections ?? all.toSorted())]
  const missing = wanted.filter((name) => !all.includes(name))
  if (missing.length > 0) {
    throw new Rejected(`Collections not present in source: ${missing.join(', ')}`)
  }
  refuseTwins(wanted, work)
  const chosen: MigratedCollection[] = []
  for (const name of wanted) {
    const info = await paced(work, () => source.collections.collectionInfo(name, tools.signal))
    chosen.push({
      name,
      targetName: targetNameOf(name, order),
      status: 'Pending',
      pointsTotal: info?.points_count ?? 0,
      pointsCopied: 0,
    })
  }
  return chosen
}

/** Points of two collections, or of one onto itself, would overwrite each other. */
function refuseTwins(names: readonly string[], { order, plan }: Work): void {
  const taken = new Map<string, string>()
  for (const name of names) {
    const targetName = targetNameOf(name, order)
    const other = taken.get(targetName)
    if (other !== undefined) {
      throw new Rejected(`both ${other} and ${name} would be copied to ${targetName}`)
    }
    taken.set(targetName, name)
    if (name === targetName && isOneCluster(plan)) {
      throw new Rejected(`${name} would be copied onto itself: use collectionMapping`)
    }
  }
}

function isOneCluster({ source, target }: Work['plan']): boolean {
  return (
    'cluster' in source &&
    source.cluster.namespace === target.namespace &&
    source.cluster.name === target.name
  )
}
