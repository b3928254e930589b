/** Points the aliases at the collection in one call, and releases those that were dropped. */
import type { Alias } from '../../crds/rules/answers.ts'
import { aliasPlan, type AliasPlan } from './aliases.ts'
import { aliasRival } from './claims.ts'
import type { Pass } from './one-pass.ts'

export interface AlignedAliases {
  managed: string[]
  problems: { reason: string; message: string }[]
}

export async function putAliasesRight(pass: Pass): Promise<AlignedAliases> {
  const remembered = await planFor(pass, await pass.shared.aliases(pass.signal))
  if (remembered.actions.length === 0) return aligned(remembered)

  // Somebody may have taken one meanwhile: what is moved is what points where it points now.
  pass.shared.forgetAliases()
  const plan = await planFor(pass, await pass.shared.aliases(pass.signal))
  if (plan.actions.length === 0) return aligned(plan)
  const doubt = await pass.writes.updateAliases(plan.actions)
  pass.shared.forgetAliases()
  if (doubt !== undefined) {
    const { actions } = await planFor(pass, await pass.shared.aliases(pass.signal))
    if (actions.length > 0) throw doubt
  }
  return aligned(plan)
}

async function planFor(pass: Pass, live: Alias[]): Promise<AliasPlan> {
  const { collection, name } = pass
  const wish = {
    collection: name,
    wanted: collection.spec.aliases ?? [],
    managed: collection.status?.aliases ?? [],
  }
  const plan = aliasPlan(wish, live, () => undefined)
  // Whose they are matters only where something would be changed.
  if (plan.actions.length === 0) return plan
  const others = await pass.others()
  return aliasPlan(wish, live, (alias) => aliasRival(collection, others, alias))
}

function aligned({ managed, conflicts }: AliasPlan): AlignedAliases {
  return {
    managed,
    problems: conflicts.map((message) => ({ reason: 'AliasClaimed', message })),
  }
}
