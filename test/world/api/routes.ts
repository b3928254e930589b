/** From a URL of the API to what it names. */
import type { Kind, Kinds } from './kinds.ts'

export interface Route {
  kind: Kind
  /** Empty for kinds without a namespace, and for a list over all of them. */
  namespace: string
  /** Empty for a whole collection. */
  name: string
  /** What follows the name: status, log, proxy. */
  sub: string
  /** What follows `sub`, with a leading slash. */
  rest: string
}

/** Undefined when the path names no kind that is served. */
export function routeOf(kinds: Kinds, path: string): Route | undefined {
  const parts = path.split('/').slice(1).map(decodeURIComponent)
  const core = parts[0] === 'api'
  if (!core && parts[0] !== 'apis') return undefined
  const [group, version] = core ? ['', parts[1]] : [parts[1], parts[2]]
  const scoped = inNamespace(parts.slice(core ? 2 : 3))
  const kind = kinds.find(group ?? '', version ?? '', scoped.plural)
  if (kind === undefined) return undefined
  return { ...scoped, kind }
}

/** Subresources of a namespace; anything else below one is a kind in it. */
const OF_NAMESPACE = new Set(['status', 'finalize'])

function inNamespace(parts: string[]) {
  const [first = '', second = '', third] = parts
  const below = first === 'namespaces' && third !== undefined && !OF_NAMESPACE.has(third)
  const [plural = '', name = '', sub = '', ...rest] = below ? parts.slice(2) : parts
  const tail = rest.length > 0 ? `/${rest.map(encodeURIComponent).join('/')}` : ''
  return { namespace: below ? second : '', plural, name, sub, rest: tail }
}
