/** Compares the calls of accounts with their permissions: which are missing, and which are not needed. */
import { API_GROUP } from '../../crds/contract/names.ts'
import type { Calls } from './calls.ts'

/** A rule of a Role or ClusterRole. */
export interface Rule {
  apiGroups?: string[]
  resources?: string[]
  verbs: string[]
}

/** A holder of permissions: one account, or all accounts of one form. */
export interface Holder {
  name: string
  user: RegExp
  rules: Rule[]
  /** Permissions that a run does not have to use, by a pattern over `verb resource.group`, each with the reason. */
  rare: readonly (readonly [right: RegExp, reason: string])[]
  /** Calls that may be denied because they are not needed, each with the reason. */
  vain?: readonly (readonly [call: RegExp, reason: string])[]
}

export interface Comparison {
  /** Denied calls and unused permissions: empty if the rules fit. */
  problems: string[]
  /** What the run did not show. */
  notes: string[]
}

/** Not verbs of calls: they say what may be written into a Role or RoleBinding. */
const OF_ROLES = new Set(['bind', 'escalate'])

export function compareRules(calls: readonly Calls[], holders: readonly Holder[]): Comparison {
  const verdicts = holders.map((holder) => {
    const own = calls.filter(({ user }) => holder.user.test(user))
    if (own.length === 0) return { problems: [], notes: [`${holder.name} made no call`] }
    const { problems, notes } = refusedTo(holder, own)
    const { unused, notes: seldom } = unusedBy(holder, own)
    return { problems: [...problems, ...unused], notes: [...notes, ...seldom] }
  })
  return {
    problems: verdicts.flatMap(({ problems }) => problems),
    notes: verdicts.flatMap(({ notes }) => notes),
  }
}

function refusedTo({ name, vain = [] }: Holder, calls: readonly Calls[]) {
  const problems: string[] = []
  const notes: string[] = []
  for (const call of calls.filter(({ allowed }) => !allowed)) {
    const reason = vain.find(([pattern]) => pattern.test(rightOf(call)))?.[1]
    if (reason === undefined) {
      problems.push(`${name} was refused ${call.count} times: ${rightOf(call)}, ${call.example}`)
    } else notes.push(`${name} asked in vain: ${rightOf(call)} (${reason})`)
  }
  return { problems, notes: [...new Set(notes)] }
}

function unusedBy({ name, rules, rare }: Holder, calls: readonly Calls[]) {
  const used = new Set(calls.filter(({ allowed }) => allowed).map(rightOf))
  const called = new Set(calls.map(({ resource }) => resource.split('/')[0]))
  const unused: string[] = []
  const notes: string[] = []
  for (const right of new Set(rules.flatMap(permissionsOf))) {
    if (used.has(right)) continue
    const reason = rare.find(([pattern]) => pattern.test(right))?.[1]
    const plural = right.match(OURS)?.[1]
    if (reason !== undefined) notes.push(`${name} did not use: ${right} (${reason})`)
    else if (plural !== undefined && !called.has(plural)) notes.push(`${name} saw no ${plural}`)
    else unused.push(`${name} may and never did: ${right}`)
  }
  return { unused, notes: [...new Set(notes)] }
}

/** Plural of one of the seven kinds, of a right about it. */
const OURS = new RegExp(`^\\S+ ([a-z]+)(?:/[a-z]+)?\\.${API_GROUP}$`)

function permissionsOf({ apiGroups = [], resources = [], verbs }: Rule): string[] {
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.filter((verb) => !OF_ROLES.has(verb)).map((verb) => rightOf({ verb, group, resource })),
    ),
  )
}

/** Such as `patch vecclusters.vec-operator.dev`, or `get secrets`. */
function rightOf({ verb, group, resource }: Pick<Calls, 'verb' | 'group' | 'resource'>): string {
  return group === '' ? `${verb} ${resource}` : `${verb} ${resource}.${group}`
}
