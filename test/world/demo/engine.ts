/** The engine of the tour's cluster, asked as a person would: for collections and numbers of points. */
import type { Place } from './step.ts'

export function engineOf(
  { world, namespace }: Place,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  return world.engine({ namespace, name: 'vec-docs-0' }, method, path, body)
}

/** Exact, of a collection or of what an alias names. */
export async function countIn(place: Place, collection: string): Promise<number> {
  const path = `/collections/${collection}/points/count`
  const answer = await engineOf(place, 'POST', path, { exact: true })
  return (answer as { result: { count: number } }).result.count
}

export async function collectionsOf(place: Place): Promise<string[]> {
  const answer = await engineOf(place, 'GET', '/collections')
  const { result } = answer as { result: { collections: { name: string }[] } }
  return result.collections.map(({ name }) => name)
}
