/** Calls of the demo itself to the engine of its cluster: collections and numbers of points. */
import type { DemoContext } from './step.ts'

export function engineOf(
  { world, namespace }: DemoContext,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  return world.engine({ namespace, name: 'vec-docs-0' }, method, path, body)
}

/** Exact count of a collection or alias. */
export async function countIn(context: DemoContext, collection: string): Promise<number> {
  const path = `/collections/${collection}/points/count`
  const answer = await engineOf(context, 'POST', path, { exact: true })
  return (answer as { result: { count: number } }).result.count
}

export async function collectionsOf(context: DemoContext): Promise<string[]> {
  const answer = await engineOf(context, 'GET', '/collections')
  const { result } = answer as { result: { collections: { name: string }[] } }
  return result.collections.map(({ name }) => name)
}
