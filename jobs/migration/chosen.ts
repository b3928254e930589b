/** Which collections are copied, and what can never work is refused before anything is. */
import { Rejected } from '../../crds/errors.ts'
import { MAX_MIGRATED_COLLECTIONS } from '../../crds/limits.ts'
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
  if (wanted.length > MAX_MIGRATED_COLLECTIONS) throw tooMany(wanted.length)
  refuseTwins(wanted, work)
  return counted(wanted, work)
}

/** Those that were created on the source since it was listed; none where collections are named. */
export async function newCollections(work: Work): Promise<MigratedCollection[]> {
  const { order, source, tally, tools } = work
  if (order.collections !== undefined) return []
  const listed = await paced(work, () => source.engine.collections(tools.signal))
  const added = listed.filter((name) => !tally.has(name)).toSorted()
  if (added.length === 0) return []
  const { total } = tally.result()
  if (total + added.length > MAX_MIGRATED_COLLECTIONS) throw tooMany(total + added.length)
  return counted(added, work)
}

/** Throws where a collection would be copied to a name that another one is copied to. */
export function refuseTwin(name: string, work: Work): void {
  const targetName = targetNameOf(name, work.order)
  const twin = work.tally
    .names()
    .find((other) => other !== name && targetNameOf(other, work.order) === targetName)
  if (twin !== undefined) refuseTwins([twin, name], work)
}

/** Each with its points as the source counts them, approximately. */
async function counted(names: readonly string[], work: Work): Promise<MigratedCollection[]> {
  const { order, source, tools } = work
  const chosen: MigratedCollection[] = []
  for (const name of names) {
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

function tooMany(count: number): Rejected {
  return new Rejected(
    `the source has ${count} collections, and one VecMigration copies ${MAX_MIGRATED_COLLECTIONS}: name them in spec.collections of several`,
  )
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
