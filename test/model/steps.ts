/** What may happen in a small world, whoever does it. */
import type { Step } from './explore.ts'
import { create, remove, type Small, type SmallWorld } from './small-world.ts'

/** What is not there yet may come. */
export function comes({ live }: SmallWorld, object: object): Step<SmallWorld>[] {
  const { kind, metadata } = object as Small
  if (`${kind}/${metadata.name}` in live) return []
  return [
    {
      name: `${kind} ${metadata.name} comes`,
      take: async (to) => void create(to, structuredClone(object) as Small),
    },
  ]
}

/** Somebody deletes what is there. */
export function goes({ live }: SmallWorld, key: string): Step<SmallWorld>[] {
  if (!(key in live)) return []
  return [{ name: `${key} is deleted`, take: async (to) => remove(to, key) }]
}
