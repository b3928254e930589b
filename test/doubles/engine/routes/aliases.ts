/** Aliases: actions are applied one after the other; those before a failed one stay. */
import { visible } from '../access.ts'
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { ChangeAliases } from '../bodies/placing.ts'
import type { EngineCluster } from '../cluster.ts'
import { readBody } from '../read.ts'
import { timeoutOf } from './collections.ts'

type Action = Partial<
  Record<'create_alias' | 'delete_alias' | 'rename_alias', Record<string, string>>
>

export function aliasRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
): EngineAnswer | undefined {
  const { method, path, access } = request
  const seen = (target: string) => visible(access, target)
  switch (`${method} ${path.length} ${path.at(0)} ${path.at(-1)}`) {
    case 'GET 1 aliases aliases':
      return ok(list(cluster, seen))
    case 'GET 3 collections aliases':
      return ok(list(cluster, (target) => target === path[1]))
    case 'POST 2 collections aliases': {
      timeoutOf(request)
      const { actions } = readBody(ChangeAliases, request.body)
      for (const action of actions as Action[]) apply(cluster, action)
      return ok(true)
    }
    default:
      return undefined
  }
}

function list({ aliases }: EngineCluster, includes: (target: string) => boolean): object {
  const listed = [...aliases].filter(([, target]) => includes(target))
  return {
    aliases: listed.map(([alias_name, collection_name]) => ({ alias_name, collection_name })),
  }
}

function apply({ collections, aliases }: EngineCluster, action: Action): void {
  const { create_alias: create, delete_alias: drop, rename_alias: rename } = action
  if (create !== undefined) {
    const { collection_name: target = '', alias_name: alias = '' } = create
    if (collections.has(alias)) refuse(409, `Wrong input: Collection \`${alias}\` already exists!`)
    // An alias is no target.
    if (!collections.has(target)) refuse(404, `Not found: Collection \`${target}\` doesn't exist!`)
    aliases.set(alias, target)
  }
  if (drop !== undefined) aliases.delete(drop['alias_name'] ?? '')
  if (rename !== undefined) {
    const { old_alias_name: old = '', new_alias_name: name = '' } = rename
    const target = aliases.get(old) ?? refuse(404, `Not found: Alias ${old} does not exists!`)
    aliases.delete(old)
    aliases.set(name, target)
  }
}
