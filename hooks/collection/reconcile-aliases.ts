/** Plans and applies the changes of the aliases of a collection, in one call. */
import type { Alias, AliasAction } from '../../crds/engine/collections.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { conflictingClaim, type AliasClaim } from '../../crds/collection-ownership.ts'
import type { ReconcileContext } from './reconcile-context.ts'

interface AliasResult {
  managed: string[]
  failures: ConditionReason[]
}

/** Points the declared aliases at the collection in one call, and releases those that were removed. */
export async function reconcileAliases(context: ReconcileContext): Promise<AliasResult> {
  const cachedPlan = await planAliases(context, await context.engineCache.aliases(context.signal))
  if (cachedPlan.actions.length === 0) return aliasResult(cachedPlan)

  // An alias may have changed in the meantime, so plan again with a fresh list.
  context.engineCache.invalidateAliases()
  const plan = await planAliases(context, await context.engineCache.aliases(context.signal))
  if (plan.actions.length === 0) return aliasResult(plan)
  const unknownResult = await context.writes.updateAliases(plan.actions)
  context.engineCache.invalidateAliases()
  if (unknownResult !== undefined) {
    const { actions } = await planAliases(
      context,
      await context.engineCache.aliases(context.signal),
    )
    if (actions.length > 0) throw unknownResult
  }
  return aliasResult(plan)
}

interface AliasPlan {
  /** The actions of one call. */
  actions: AliasAction[]
  /** Why aliases are not changed. */
  conflicts: string[]
  /** The value of `status.aliases` after the call. */
  managed: string[]
}

interface AliasInput {
  collection: string
  desired: readonly string[]
  /** Aliases that an earlier reconcile pointed at this collection. */
  managed: readonly string[]
}

/** Which aliases to point at this collection, and which to release. */
export function aliasPlan(
  { collection, desired, managed }: AliasInput,
  live: readonly Alias[],
  findClaim: (alias: string) => AliasClaim | undefined,
): AliasPlan {
  const targets = new Map(live.map((alias) => [alias.alias_name, alias.collection_name]))
  const plan: AliasPlan = { actions: [], conflicts: [], managed: [] }
  for (const alias of desired) {
    const target = targets.get(alias)
    // An alias that points here already belongs to this resource, regardless of other claims.
    const claim = target === collection ? undefined : findClaim(alias)
    if (claim !== undefined && (target !== undefined || claim.isOlder)) {
      plan.conflicts.push(`alias ${alias} ${formatClaim(claim, target)}`)
      continue
    }
    plan.managed.push(alias)
    if (target === collection) continue
    plan.actions.push({ create_alias: { collection_name: collection, alias_name: alias } })
  }
  for (const alias of managed) {
    if (desired.includes(alias) || targets.get(alias) !== collection) continue
    const claim = findClaim(alias)
    // Another claimant takes it over in one step; deleting it first would break its readers. A collection of that
    // name cannot be created before it is gone.
    if (claim === undefined || claim.isCollection === true)
      plan.actions.push({ delete_alias: { alias_name: alias } })
  }
  return plan
}

function formatClaim({ name, isCollection }: AliasClaim, target: string | undefined): string {
  if (isCollection === true) return `is the collection of ${name}`
  return `is claimed by ${name}${target === undefined ? '' : ` and points at collection ${target}`}`
}

async function planAliases(context: ReconcileContext, live: Alias[]): Promise<AliasPlan> {
  const { collection, name } = context
  const input = {
    collection: name,
    desired: collection.spec.aliases ?? [],
    managed: collection.status?.aliases ?? [],
  }
  const plan = aliasPlan(input, live, () => undefined)
  // Claims of other resources matter only if something would be changed.
  if (plan.actions.length === 0) return plan
  const others = await context.otherClaims()
  return aliasPlan(input, live, (alias) => conflictingClaim(collection, others, alias))
}

function aliasResult({ managed, conflicts }: AliasPlan): AliasResult {
  return {
    managed,
    failures: conflicts.map((message) => ({ reason: 'AliasClaimed', message })),
  }
}
