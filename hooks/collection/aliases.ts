/** Aliases: which must be pointed at this collection, and which are released (facts 5). */
import type { Alias } from '../../crds/rules/answers.ts'
import type { AliasAction } from '../../crds/rules/bodies.ts'

export interface AliasPlan {
  /** For one call. */
  actions: AliasAction[]
  /** Why an alias stays where it is. */
  conflicts: string[]
  /** What stands in `status.aliases` once the call is made. */
  managed: string[]
}

interface Wish {
  collection: string
  wanted: readonly string[]
  /** Pointed here by an earlier pass. */
  managed: readonly string[]
}

/** Another VecCollection of the cluster that claims an alias. */
export interface Rival {
  name: string
  isOlder: boolean
}

export function aliasPlan(
  { collection, wanted, managed }: Wish,
  live: readonly Alias[],
  rivalOf: (alias: string) => Rival | undefined,
): AliasPlan {
  const targets = new Map(live.map((alias) => [alias.alias_name, alias.collection_name]))
  const plan: AliasPlan = { actions: [], conflicts: [], managed: [] }
  for (const alias of wanted) {
    const target = targets.get(alias)
    // One that points here is ours already, whoever else would like to have it.
    const rival = target === collection ? undefined : rivalOf(alias)
    if (rival !== undefined && (target !== undefined || rival.isOlder)) {
      const place = target === undefined ? '' : ` and points at collection ${target}`
      plan.conflicts.push(`alias ${alias} is claimed by ${rival.name}${place}`)
      continue
    }
    plan.managed.push(alias)
    if (target === collection) continue
    plan.actions.push({ create_alias: { collection_name: collection, alias_name: alias } })
  }
  for (const alias of managed) {
    if (wanted.includes(alias) || targets.get(alias) !== collection) continue
    // Whoever claims it will take it in one step; deleting it first would leave its readers without.
    if (rivalOf(alias) === undefined) plan.actions.push({ delete_alias: { alias_name: alias } })
  }
  return plan
}
